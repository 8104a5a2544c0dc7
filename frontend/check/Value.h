// What an expression of a spec stands for: something known once the config is bound, or a tensor.
#ifndef QUERN_FRONTEND_CHECK_VALUE_H
#define QUERN_FRONTEND_CHECK_VALUE_H

#include "frontend/syntax/Ast.h"
#include "ir/Size.h"

#include <map>
#include <set>
#include <variant>

namespace quern::frontend {

/// A dimension; its identity is its address. `label` is its name in the dialect (unique in a function's meaning),
/// `shown` what messages call it.
struct Dim {
  std::string label, shown;
  ir::Size size;
  Span declared;               // may be empty
  unsigned serial = 0;         // order of creation
  bool sized = true;           // false: it comes with the inputs of a function that is not running
  const Dim *twinOf = nullptr; // `dim S = T`: T, or what T is a twin of
};
/// Stands for a dimension whose declaration failed: using it is silent.
extern const Dim poisonDim;
using DimRef = const Dim *;
using DimRefs = std::vector<DimRef>;

/// A value of the module that is being built; null when a spec is only checked.
using Handle = void *;

struct Tensor {
  DimRefs dims; // a set; the order is only for messages
  Kind kind = Kind::Real;
  Handle handle = nullptr;
  bool open = false; // a state declared with `..`, which may gain dimensions in a scan

  bool has(DimRef dim) const;
};

struct Value;
struct Null {
  bool operator==(const Null &) const = default;
};
/// The value of a statement that has already been reported as wrong.
struct Poison {};
using ListRef = std::shared_ptr<const std::vector<Value>>;
/// Several results of one expression.
struct Several {
  std::vector<Value> values;
};

/// An object of config.json that knows which of its fields were asked for.
struct Object {
  std::string where; // "rope_parameters"
  std::vector<std::pair<std::string, Value>> fields;
  mutable std::set<std::string> read;

  const Value *find(const std::string &name) const;
};
using ObjectRef = std::shared_ptr<const Object>;

struct Value {
  std::variant<Null, Poison, bool, int64_t, double, std::string, ListRef, ObjectRef, ir::Size, Tensor,
               std::shared_ptr<const Several>>
      data;

  Value() : data(Null{}) {}
  template <typename T> Value(T value) : data(std::move(value)) {}
  Value(const char *) = delete;
  /// Constant polynomials become integers.
  static Value ofSize(const ir::Size &size);

  template <typename T> const T *as() const { return std::get_if<T>(&data); }
  template <typename T> bool is() const { return std::holds_alternative<T>(data); }
  bool isNull() const { return is<Null>(); }
  const Several *several() const;
  /// A number (or a size, or a tensor): its kind.
  std::optional<Kind> kind() const;
  /// An integer or real known now.
  bool isStaticNumber() const { return is<int64_t>() || is<double>(); }
  double number() const { return is<int64_t>() ? static_cast<double>(*as<int64_t>()) : *as<double>(); }
  /// Neither a tensor nor a length that only a run knows.
  bool isStatic() const { return !is<Tensor>() && !is<ir::Size>(); }
};

/// The shortest text that reads back as the same number, always with a point or an exponent.
std::string realText(double value);
/// For messages; long lists are cut.
std::string describe(const Value &value);
/// "[B, T, D]".
std::string shownDims(const DimRefs &dims);
/// Of an elementwise result, in the order that its type will have (ir/Union.h).
DimRefs unite(const std::vector<DimRefs> &operands);
/// As a path or a string shows it; nothing for what has no text (tensors, lists, null).
std::optional<std::string> interpolated(const Value &value);
/// Numbers by value, lists element by element; `budget` bounds the work on lists that share parts.
bool equalStatic(const Value &a, const Value &b, size_t &budget);
/// "real" and "integer" are one sort; both others must be of the same variant.
bool sameSort(const Value &a, const Value &b);

} // namespace quern::frontend
#endif
