// Takes: operations with constant operands, or that change nothing. Gives: their value, so that they disappear.
// Why so few: numbers of the config meet in standard blocks (a scale of 1, `true` as mask); the rest is for passes.
//
//   %2 = mul %x, 1.0   ->  %x          where true, %a, %b  ->  %a
//   %2 = add 2, 3      ->  const 5     rename to the same names, permute to the same order  ->  %x
#include "ir/Dialect.h"
#include "support/numbers/RealFunctions.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;

OpFoldResult ConstOp::fold(FoldAdaptor) {
  return getValue();
}

OpFoldResult SizeOp::fold(FoldAdaptor) {
  if (std::optional<int64_t> value = getPolynomial().constant())
    return Builder(getContext()).getI64IntegerAttr(*value);
  return {};
}

// ---- constants as C++ numbers

/// A constant of kind real or int as a number; nothing of a bool or of what is no constant.
static std::optional<double> realOf(Attribute attr) {
  if (auto real = dyn_cast_or_null<FloatAttr>(attr))
    return real.getValueAsDouble();
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attr); integer && !isa<BoolAttr>(attr))
    return static_cast<double>(integer.getInt());
  return std::nullopt;
}

static std::optional<int64_t> intOf(Attribute attr) {
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attr); integer && !isa<BoolAttr>(attr))
    return integer.getInt();
  return std::nullopt;
}

static std::optional<bool> boolOf(Attribute attr) {
  if (auto boolean = dyn_cast_or_null<BoolAttr>(attr))
    return boolean.getValue();
  return std::nullopt;
}

static Attribute real(Operation *op, double value) {
  return Builder(op->getContext()).getF64FloatAttr(value);
}
static Attribute integer(Operation *op, int64_t value) {
  return Builder(op->getContext()).getI64IntegerAttr(value);
}
static Attribute boolean(Operation *op, bool value) {
  return Builder(op->getContext()).getBoolAttr(value);
}
static bool isInt(Operation *op) {
  return typeOf(op->getResult(0)).isInt();
}

/// Has no dimensions, so that a constant can stand for it.
static bool isScalar(Operation *op) {
  return typeOf(op->getResult(0)).getRank() == 0;
}

// ---- unary

static OpFoldResult foldReal(Operation *op, Attribute x, double (*f)(double)) {
  std::optional<double> value = realOf(x);
  return value && isScalar(op) ? OpFoldResult(real(op, f(*value))) : OpFoldResult();
}

#define QUERN_FOLD_REAL(NAME, WORD, VALUE)                                                                             \
  OpFoldResult NAME##Op::fold(FoldAdaptor adaptor) {                                                                   \
    return foldReal(*this, adaptor.getX(), [](double x) -> double { return VALUE; });                                  \
  }
QUERN_REAL_FUNCTIONS(QUERN_FOLD_REAL)

static constexpr int64_t lowest = std::numeric_limits<int64_t>::min();

OpFoldResult NegOp::fold(FoldAdaptor adaptor) {
  if (auto inner = getX().getDefiningOp<NegOp>(); inner && inner.getX().getType() == getType())
    return inner.getX();
  if (std::optional<int64_t> x = intOf(adaptor.getX()); x && *x != lowest && isScalar(*this))
    return integer(*this, -*x);
  return isInt(*this) ? OpFoldResult() : foldReal(*this, adaptor.getX(), [](double x) { return -x; });
}

OpFoldResult AbsOp::fold(FoldAdaptor adaptor) {
  if (std::optional<int64_t> x = intOf(adaptor.getX()); x && *x != lowest && isScalar(*this))
    return integer(*this, std::abs(*x));
  return isInt(*this) ? OpFoldResult() : foldReal(*this, adaptor.getX(), [](double x) { return std::fabs(x); });
}

/// Ints are themselves; reals that an int can hold are rounded by `f`.
static OpFoldResult foldRounding(Operation *op, Attribute x, double (*f)(double)) {
  if (op->getOperand(0).getType() == op->getResult(0).getType())
    return op->getOperand(0);
  if (!isScalar(op))
    return {};
  if (std::optional<bool> value = boolOf(x))
    return integer(op, *value);
  std::optional<double> value = realOf(x);
  return value && std::fabs(*value) < 1e9 ? OpFoldResult(integer(op, static_cast<int64_t>(f(*value)))) : OpFoldResult();
}

OpFoldResult FloorOp::fold(FoldAdaptor adaptor) {
  return foldRounding(*this, adaptor.getX(), [](double x) { return std::floor(x); });
}
OpFoldResult CeilOp::fold(FoldAdaptor adaptor) {
  return foldRounding(*this, adaptor.getX(), [](double x) { return std::ceil(x); });
}
OpFoldResult RoundOp::fold(FoldAdaptor adaptor) {
  return foldRounding(*this, adaptor.getX(), [](double x) { return x - std::remainder(x, 1.0); });
}
OpFoldResult ToIntOp::fold(FoldAdaptor adaptor) {
  return foldRounding(*this, adaptor.getX(), [](double x) { return std::trunc(x); });
}

OpFoldResult ToRealOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (std::optional<bool> value = boolOf(adaptor.getX()); value && isScalar(*this))
    return real(*this, *value);
  return foldReal(*this, adaptor.getX(), [](double x) { return x; });
}

// Widening is exact: there and back is what it was. (The other way round is a rounding.)
OpFoldResult NarrowOp::fold(FoldAdaptor) {
  auto inner = getX().getDefiningOp<WidenOp>();
  return inner && inner.getX().getType() == getType() ? inner.getX() : OpFoldResult();
}
OpFoldResult WidenOp::fold(FoldAdaptor) {
  return {};
}

OpFoldResult DequantizeOp::fold(FoldAdaptor) {
  return {};
}

OpFoldResult NotOp::fold(FoldAdaptor adaptor) {
  if (auto inner = getX().getDefiningOp<NotOp>(); inner && inner.getX().getType() == getType())
    return inner.getX();
  std::optional<bool> x = boolOf(adaptor.getX());
  return x && isScalar(*this) ? OpFoldResult(boolean(*this, !*x)) : OpFoldResult();
}

// ---- binary

/// Of two constants: int of two ints unless `integral` refuses (overflow), real otherwise.
static OpFoldResult foldBinary(Operation *op, Attribute a, Attribute b, double (*f)(double, double),
                               bool (*integral)(int64_t, int64_t, int64_t *)) {
  if (!isScalar(op))
    return {};
  if (isInt(op)) {
    std::optional<int64_t> x = intOf(a), y = intOf(b);
    int64_t value = 0;
    return x && y && integral(*x, *y, &value) ? OpFoldResult(integer(op, value)) : OpFoldResult();
  }
  std::optional<double> x = realOf(a), y = realOf(b);
  return x && y ? OpFoldResult(real(op, f(*x, *y))) : OpFoldResult();
}

/// `x` if the other side is the number that changes nothing and the type is already x's.
static Value unchanged(Operation *op, Value x, Attribute other, double neutral) {
  std::optional<double> value = realOf(other);
  return value && *value == neutral && x.getType() == op->getResult(0).getType() ? x : Value();
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (Value x = unchanged(*this, getA(), adaptor.getB(), 0))
    return x;
  if (Value x = unchanged(*this, getB(), adaptor.getA(), 0))
    return x;
  return foldBinary(
      *this, adaptor.getA(), adaptor.getB(), [](double a, double b) { return a + b; },
      [](int64_t a, int64_t b, int64_t *sum) { return !__builtin_add_overflow(a, b, sum); });
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (Value x = unchanged(*this, getA(), adaptor.getB(), 0))
    return x;
  return foldBinary(
      *this, adaptor.getA(), adaptor.getB(), [](double a, double b) { return a - b; },
      [](int64_t a, int64_t b, int64_t *rest) { return !__builtin_sub_overflow(a, b, rest); });
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (Value x = unchanged(*this, getA(), adaptor.getB(), 1))
    return x;
  if (Value x = unchanged(*this, getB(), adaptor.getA(), 1))
    return x;
  return foldBinary(
      *this, adaptor.getA(), adaptor.getB(), [](double a, double b) { return a * b; },
      [](int64_t a, int64_t b, int64_t *product) { return !__builtin_mul_overflow(a, b, product); });
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (Value x = unchanged(*this, getA(), adaptor.getB(), 1))
    return x;
  return foldBinary(*this, adaptor.getA(), adaptor.getB(), [](double a, double b) { return a / b; }, nullptr);
}

OpFoldResult PowOp::fold(FoldAdaptor adaptor) {
  if (Value x = unchanged(*this, getA(), adaptor.getB(), 1))
    return x;
  return foldBinary(*this, adaptor.getA(), adaptor.getB(), [](double a, double b) { return std::pow(a, b); }, nullptr);
}

OpFoldResult FloorDivOp::fold(FoldAdaptor adaptor) {
  if (Value x = unchanged(*this, getA(), adaptor.getB(), 1))
    return x;
  return foldBinary(*this, adaptor.getA(), adaptor.getB(), nullptr, [](int64_t a, int64_t b, int64_t *quotient) {
    if (b == 0 || a == lowest)
      return false;
    *quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return true;
  });
}

OpFoldResult ModOp::fold(FoldAdaptor adaptor) {
  return foldBinary(*this, adaptor.getA(), adaptor.getB(), nullptr, [](int64_t a, int64_t b, int64_t *rest) {
    if (b == 0 || a == lowest)
      return false;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0))
      *rest += b;
    return true;
  });
}

OpFoldResult MaxOp::fold(FoldAdaptor adaptor) {
  return foldBinary(
      *this, adaptor.getA(), adaptor.getB(), [](double a, double b) { return a > b || std::isnan(a) ? a : b; },
      [](int64_t a, int64_t b, int64_t *larger) { return *larger = std::max(a, b), true; });
}

OpFoldResult MinOp::fold(FoldAdaptor adaptor) {
  return foldBinary(
      *this, adaptor.getA(), adaptor.getB(), [](double a, double b) { return a < b || std::isnan(a) ? a : b; },
      [](int64_t a, int64_t b, int64_t *smaller) { return *smaller = std::min(a, b), true; });
}

// ---- logic and choice

/// `neutral` is the bool that changes nothing: true for and, false for or; the other one decides.
static OpFoldResult foldLogic(Operation *op, Attribute a, Attribute b, bool neutral) {
  for (auto [mine, others] : {std::pair(op->getOperand(0), b), std::pair(op->getOperand(1), a)}) {
    std::optional<bool> other = boolOf(others);
    if (other && *other == neutral && mine.getType() == op->getResult(0).getType())
      return mine;
    if (other && *other != neutral && isScalar(op))
      return boolean(op, !neutral);
  }
  if (op->getOperand(0) == op->getOperand(1) && op->getOperand(0).getType() == op->getResult(0).getType())
    return op->getOperand(0);
  return {};
}
OpFoldResult AndOp::fold(FoldAdaptor adaptor) {
  return foldLogic(*this, adaptor.getA(), adaptor.getB(), true);
}
OpFoldResult OrOp::fold(FoldAdaptor adaptor) {
  return foldLogic(*this, adaptor.getA(), adaptor.getB(), false);
}

template <class T> static bool holds(Predicate predicate, T a, T b) {
  switch (predicate) {
  case Predicate::lt:
    return a < b;
  case Predicate::le:
    return a <= b;
  case Predicate::gt:
    return a > b;
  case Predicate::ge:
    return a >= b;
  case Predicate::eq:
    return a == b;
  case Predicate::ne:
    return a != b;
  }
  llvm_unreachable("all predicates are listed");
}

OpFoldResult CompareOp::fold(FoldAdaptor adaptor) {
  if (!isScalar(*this))
    return {};
  if (auto a = boolOf(adaptor.getA()), b = boolOf(adaptor.getB()); a && b)
    return boolean(*this, holds(getPredicate(), *a, *b));
  if (auto a = intOf(adaptor.getA()), b = intOf(adaptor.getB()); a && b)
    return boolean(*this, holds(getPredicate(), *a, *b));
  if (auto a = realOf(adaptor.getA()), b = realOf(adaptor.getB()); a && b)
    return boolean(*this, holds(getPredicate(), *a, *b));
  return {};
}

OpFoldResult WhereOp::fold(FoldAdaptor adaptor) {
  if (getA() == getB() && getA().getType() == getType())
    return getA();
  if (std::optional<bool> condition = boolOf(adaptor.getCondition())) {
    Value chosen = *condition ? getA() : getB();
    if (chosen.getType() == getType())
      return chosen;
  }
  return {};
}

// ---- shape: what changes nothing

OpFoldResult RenameOp::fold(FoldAdaptor) {
  bool same = llvm::all_of(llvm::zip(names(getFrom()), getTo().getAsRange<DimAttr>()),
                           [](auto pair) { return std::get<0>(pair) == std::get<1>(pair).getName(); });
  return same && getX().getType() == getType() ? OpFoldResult(getX()) : OpFoldResult();
}

OpFoldResult ExpandOp::fold(FoldAdaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto inner = getX().getDefiningOp<ExpandOp>()) { // at once, so that what is spread is seen
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return {};
}

OpFoldResult PermuteOp::fold(FoldAdaptor) {
  if (getX().getType() == getType())
    return getX();
  // There and back again.
  if (auto inner = getX().getDefiningOp<PermuteOp>(); inner && inner.getX().getType() == getType())
    return inner.getX();
  return {};
}
