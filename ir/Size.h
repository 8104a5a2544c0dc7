// Sizes of dimensions: integers, or polynomials over the lengths that only a run knows (B, T, past ...).
#ifndef QUERN_IR_SIZE_H
#define QUERN_IR_SIZE_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::ir {

/// A polynomial with integer coefficients over run-time symbols; a value type with one canonical text
/// ("past + T", "2 * T - 1", "768"), which attributes store.
class Size {
public:
  Size(int64_t value = 0);
  static Size symbol(std::string name);
  /// The inverse of `str`; nothing if the text is no polynomial.
  static std::optional<Size> parse(std::string_view text);

  std::string str() const;
  /// The number, if no symbol occurs.
  std::optional<int64_t> constant() const;
  bool isConstant() const { return constant().has_value(); }
  /// The name, if this is one symbol and nothing else.
  std::optional<std::string> asSymbol() const;
  /// All symbols that occur, sorted.
  std::vector<std::string> symbols() const;
  bool mentions(std::string_view symbol) const;

  Size operator+(const Size &other) const;
  Size operator-(const Size &other) const;
  Size operator*(const Size &other) const;
  bool operator==(const Size &other) const { return terms == other.terms; }
  bool operator!=(const Size &other) const { return !(*this == other); }
  /// Exactly by an integer, or nothing.
  std::optional<Size> divided(int64_t divisor) const;
  /// Exactly by a polynomial of one term (T * 64 by T, say), or nothing.
  std::optional<Size> divided(const Size &divisor) const;

  /// The value where `lookup` gives each symbol's.
  int64_t evaluate(const std::function<int64_t(const std::string &)> &lookup) const;
  /// Every symbol replaced by a polynomial (or kept, where the table lacks it).
  Size substitute(const std::map<std::string, Size> &table) const;

  using Monomial = std::vector<std::string>; // sorted symbols, repeated for powers
  const std::map<Monomial, int64_t> &getTerms() const { return terms; }

private:
  std::map<Monomial, int64_t> terms; // no zero coefficients
};

} // namespace quern::ir
#endif
