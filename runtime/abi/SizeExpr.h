// Lengths as the description writes them: polynomials over run-time symbols.
#ifndef QUERN_RUNTIME_ABI_SIZEEXPR_H
#define QUERN_RUNTIME_ABI_SIZEEXPR_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// A polynomial such as "past + T" or "2 * T - 1" over the description's symbols (the text form of ir/Size.h); a cost's
/// factors may be minima of a number and a polynomial, such as "min(8, 2 * T)" (ir/analysis/Least.h).
class SizeExpr {
public:
  SizeExpr(int64_t value = 0);
  /// Throws UserError for a text that is no polynomial over `symbols`.
  static SizeExpr parse(std::string_view text, const std::vector<std::string> &symbols);

  /// The value where symbol i has the length sizes[i]. Throws UserError where it does not fit 64 bits.
  int64_t evaluate(const std::vector<int64_t> &sizes) const;
  /// The symbol's number if this is one symbol and nothing else, or -1.
  int asSymbol() const;
  bool isConstant() const;
  bool mentions(int symbol) const;
  const std::string &str() const { return text; }

private:
  struct Minimum;
  struct Term;
  std::vector<Term> terms;
  std::string text;
};

struct SizeExpr::Minimum {
  int64_t most;
  SizeExpr of;
};

struct SizeExpr::Term {
  int64_t coefficient;
  std::vector<int> symbols; // repeated for powers
  std::vector<Minimum> minima{};
};

/// a * b and a + b, or UserError: every size that a stranger could choose goes through these.
int64_t checkedMultiply(int64_t a, int64_t b);
int64_t checkedAdd(int64_t a, int64_t b);

} // namespace quern::runtime
#endif
