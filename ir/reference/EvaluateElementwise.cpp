// Takes: operands of elementwise operations. Gives: their values, aligned by name, element by element.
// Why function pointers: one loop for each number of operands is easy to believe, and fast enough for a reference.
#include "ir/reference/Evaluate.h"
#include "support/numbers/RealFunctions.h"
#include "support/numbers/SmallFloats.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;

// ---- numbers out of nothing

QUERN_EVALUATE(ConstOp) {
  Array array = interpreter.make(getResult().getType());
  if (auto real = dyn_cast<FloatAttr>(getValue()))
    array.writeReals()[0] = real.getValueAsDouble();
  else if (auto boolean = dyn_cast<BoolAttr>(getValue()))
    array.writeInts()[0] = boolean.getValue();
  else
    array.writeInts()[0] = cast<IntegerAttr>(getValue()).getInt();
  results.push_back(std::move(array));
  return success();
}

QUERN_EVALUATE(ValuesOp) {
  ArrayRef<double> numbers = getNumbers();
  results.emplace_back(interpreter.sizesOf(getResult().getType()), std::vector<double>(numbers.begin(), numbers.end()));
  return success();
}

QUERN_EVALUATE(SizeOp) {
  Array array = interpreter.make(getResult().getType());
  array.writeInts()[0] = interpreter.valueOf(getPolynomial());
  results.push_back(std::move(array));
  return success();
}

QUERN_EVALUATE(IndexOp) {
  Array array = interpreter.make(getResult().getType());
  int64_t *out = array.writeInts();
  for (int64_t i = 0, n = array.getCount(); i < n; ++i)
    out[i] = i;
  results.push_back(std::move(array));
  return success();
}

// ---- one operand

template <class Out, class In, class Function>
static void mapUnary(Array &result, Out *out, const In *in, const Array &x, Function f) {
  forEachPosition<1>(result.getDims(), {x.stridesIn(result.getDims())},
                     [&](int64_t i, const auto &at) { out[i] = f(in[at[0]]); });
}

static LogicalResult realUnary(Operation *op, const Array &operand, Interpreter &interpreter, Arrays &results,
                               double (*f)(double)) {
  Array x = operand.asReal(), result = interpreter.make(typeOf(op->getResult(0)));
  mapUnary(result, result.writeReals(), x.reals(), x, f);
  results.push_back(std::move(result));
  return success();
}

static LogicalResult intUnary(Operation *op, const Array &x, Interpreter &interpreter, Arrays &results,
                              int64_t (*f)(int64_t)) {
  Array result = interpreter.make(typeOf(op->getResult(0)));
  mapUnary(result, result.writeInts(), x.ints(), x, f);
  results.push_back(std::move(result));
  return success();
}

/// A real made int by `f`: no number becomes 0, what is too large the largest. A `where` may well throw such elements
/// away (the logarithm of a distance 0), so they are no error.
static LogicalResult rounded(Operation *op, const Array &x, Interpreter &interpreter, Arrays &results,
                             double (*f)(double)) {
  Array result = interpreter.make(typeOf(op->getResult(0)));
  if (!x.isReal()) {
    mapUnary(result, result.writeInts(), x.ints(), x, [](int64_t v) { return v; });
  } else {
    mapUnary(result, result.writeInts(), x.reals(), x, [f](double v) -> int64_t {
      if (std::isnan(v))
        return 0;
      constexpr double limit = 9.2e18;
      return static_cast<int64_t>(std::min(limit, std::max(-limit, f(v))));
    });
  }
  results.push_back(std::move(result));
  return success();
}

// Sums and products of ints wrap around, as those of machine integers do.
static int64_t wrappingAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(uint64_t(a) + uint64_t(b));
}
static int64_t wrappingSub(int64_t a, int64_t b) {
  return static_cast<int64_t>(uint64_t(a) - uint64_t(b));
}
static int64_t wrappingMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(uint64_t(a) * uint64_t(b));
}

#define QUERN_REAL_UNARY(OP, ...)                                                                                      \
  QUERN_EVALUATE(OP) {                                                                                                 \
    return realUnary(*this, operands[0], interpreter, results, [](double x) -> double { return __VA_ARGS__; });        \
  }
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) QUERN_REAL_UNARY(NAME##Op, VALUE)
QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
QUERN_REAL_UNARY(ToRealOp, x)
QUERN_REAL_UNARY(WidenOp, x)
QUERN_REAL_UNARY(DequantizeOp, x)

double quern::ir::inBF16(double x) {
  return support::bf16ToFloat(support::floatToBF16(static_cast<float>(x)));
}

QUERN_EVALUATE(NarrowOp) {
  if (operands[0].isReal())
    return realUnary(*this, operands[0], interpreter, results, inBF16);
  return intUnary(*this, operands[0], interpreter, results,
                  [](int64_t x) { return std::clamp<int64_t>(x, INT8_MIN, INT8_MAX); });
}
QUERN_EVALUATE(NegOp) {
  if (operands[0].isReal())
    return realUnary(*this, operands[0], interpreter, results, [](double x) { return -x; });
  return intUnary(*this, operands[0], interpreter, results, [](int64_t x) { return wrappingSub(0, x); });
}
QUERN_EVALUATE(AbsOp) {
  if (operands[0].isReal())
    return realUnary(*this, operands[0], interpreter, results, [](double x) { return std::fabs(x); });
  return intUnary(*this, operands[0], interpreter, results, [](int64_t x) { return x < 0 ? wrappingSub(0, x) : x; });
}
QUERN_EVALUATE(NotOp) {
  return intUnary(*this, operands[0], interpreter, results, [](int64_t x) { return int64_t(!x); });
}

/// To the nearest integer, halves to the even one, whatever the rounding mode of the machine.
static double roundHalfEven(double x) {
  double down = std::floor(x), rest = x - down;
  if (rest != 0.5)
    return rest < 0.5 ? down : down + 1;
  return std::fmod(down, 2.0) == 0 ? down : down + 1;
}

QUERN_EVALUATE(FloorOp) {
  return rounded(*this, operands[0], interpreter, results, [](double x) { return std::floor(x); });
}
QUERN_EVALUATE(CeilOp) {
  return rounded(*this, operands[0], interpreter, results, [](double x) { return std::ceil(x); });
}
QUERN_EVALUATE(RoundOp) {
  return rounded(*this, operands[0], interpreter, results, roundHalfEven);
}
QUERN_EVALUATE(ToIntOp) {
  return rounded(*this, operands[0], interpreter, results, [](double x) { return std::trunc(x); });
}

// ---- two operands

template <class Out, class In, class Function>
static void mapBinary(Array &result, Out *out, const Array &a, const In *x, const Array &b, const In *y, Function f) {
  const std::vector<NamedSize> &loop = result.getDims();
  forEachPosition<2>(loop, {a.stridesIn(loop), b.stridesIn(loop)},
                     [&](int64_t i, const auto &at) { out[i] = f(x[at[0]], y[at[1]]); });
}

static LogicalResult realBinary(Operation *op, ArrayRef<Array> operands, Interpreter &interpreter, Arrays &results,
                                double (*f)(double, double)) {
  Array a = operands[0].asReal(), b = operands[1].asReal(), result = interpreter.make(typeOf(op->getResult(0)));
  mapBinary(result, result.writeReals(), a, a.reals(), b, b.reals(), f);
  results.push_back(std::move(result));
  return success();
}

static LogicalResult intBinary(Operation *op, ArrayRef<Array> operands, Interpreter &interpreter, Arrays &results,
                               int64_t (*f)(int64_t, int64_t)) {
  Array result = interpreter.make(typeOf(op->getResult(0)));
  mapBinary(result, result.writeInts(), operands[0], operands[0].ints(), operands[1], operands[1].ints(), f);
  results.push_back(std::move(result));
  return success();
}

/// Int of two ints, else real.
static LogicalResult arithmetic(Operation *op, ArrayRef<Array> operands, Interpreter &interpreter, Arrays &results,
                                double (*real)(double, double), int64_t (*integer)(int64_t, int64_t)) {
  if (typeOf(op->getResult(0)).isReal())
    return realBinary(op, operands, interpreter, results, real);
  return intBinary(op, operands, interpreter, results, integer);
}

QUERN_EVALUATE(AddOp) {
  return arithmetic(*this, operands, interpreter, results, [](double a, double b) { return a + b; }, wrappingAdd);
}
QUERN_EVALUATE(SubOp) {
  return arithmetic(*this, operands, interpreter, results, [](double a, double b) { return a - b; }, wrappingSub);
}
QUERN_EVALUATE(MulOp) {
  return arithmetic(*this, operands, interpreter, results, [](double a, double b) { return a * b; }, wrappingMul);
}
QUERN_EVALUATE(RescaleOp) {
  return realBinary(*this, operands, interpreter, results, [](double a, double b) { return a * b; });
}
// NaN on either side gives NaN.
QUERN_EVALUATE(MaxOp) {
  return arithmetic(
      *this, operands, interpreter, results, [](double a, double b) { return a > b || std::isnan(a) ? a : b; },
      [](int64_t a, int64_t b) { return std::max(a, b); });
}
QUERN_EVALUATE(MinOp) {
  return arithmetic(
      *this, operands, interpreter, results, [](double a, double b) { return a < b || std::isnan(a) ? a : b; },
      [](int64_t a, int64_t b) { return std::min(a, b); });
}
QUERN_EVALUATE(DivOp) {
  return realBinary(*this, operands, interpreter, results, [](double a, double b) { return a / b; });
}
QUERN_EVALUATE(PowOp) {
  return realBinary(*this, operands, interpreter, results, [](double a, double b) { return std::pow(a, b); });
}
QUERN_EVALUATE(AndOp) {
  return intBinary(*this, operands, interpreter, results, [](int64_t a, int64_t b) { return int64_t(a && b); });
}
QUERN_EVALUATE(OrOp) {
  return intBinary(*this, operands, interpreter, results, [](int64_t a, int64_t b) { return int64_t(a || b); });
}

/// Q027 where a divisor is 0; the kernels have no such check, as a spec's divisors come from the config.
static LogicalResult nonZero(Operation *op, const Array &divisors) {
  for (int64_t i = 0, n = divisors.getCount(); i < n; ++i)
    if (!divisors.ints()[i])
      return op->emitError("Q027: division by zero");
  return success();
}

// The lowest int divided by -1 overflows: negation wraps around like the other operations.
static int64_t floorDivide(int64_t a, int64_t b) {
  if (b == -1)
    return wrappingSub(0, a);
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
static int64_t floorModulo(int64_t a, int64_t b) {
  if (b == -1)
    return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

QUERN_EVALUATE(FloorDivOp) {
  if (failed(nonZero(*this, operands[1])))
    return failure();
  return intBinary(*this, operands, interpreter, results, floorDivide);
}
QUERN_EVALUATE(ModOp) {
  if (failed(nonZero(*this, operands[1])))
    return failure();
  return intBinary(*this, operands, interpreter, results, floorModulo);
}

template <class T> static bool (*comparison(Predicate predicate))(T, T) {
  switch (predicate) {
  case Predicate::lt:
    return [](T a, T b) { return a < b; };
  case Predicate::le:
    return [](T a, T b) { return a <= b; };
  case Predicate::gt:
    return [](T a, T b) { return a > b; };
  case Predicate::ge:
    return [](T a, T b) { return a >= b; };
  case Predicate::eq:
    return [](T a, T b) { return a == b; };
  case Predicate::ne:
    return [](T a, T b) { return a != b; };
  }
  llvm_unreachable("all predicates are listed");
}

QUERN_EVALUATE(CompareOp) {
  Array result = interpreter.make(getResult().getType());
  if (operands[0].isReal() || operands[1].isReal()) {
    Array a = operands[0].asReal(), b = operands[1].asReal();
    mapBinary(result, result.writeInts(), a, a.reals(), b, b.reals(), comparison<double>(getPredicate()));
  } else {
    mapBinary(result, result.writeInts(), operands[0], operands[0].ints(), operands[1], operands[1].ints(),
              comparison<int64_t>(getPredicate()));
  }
  results.push_back(std::move(result));
  return success();
}

// ---- choice

QUERN_EVALUATE(WhereOp) {
  Array result = interpreter.make(getResult().getType());
  const std::vector<NamedSize> &loop = result.getDims();
  const int64_t *condition = operands[0].ints();
  auto choose = [&](auto *out, const Array &a, const auto *x, const Array &b, const auto *y) {
    forEachPosition<3>(loop, {operands[0].stridesIn(loop), a.stridesIn(loop), b.stridesIn(loop)},
                       [&](int64_t i, const auto &at) { out[i] = condition[at[0]] ? x[at[1]] : y[at[2]]; });
  };
  if (result.isReal()) {
    Array a = operands[1].asReal(), b = operands[2].asReal();
    choose(result.writeReals(), a, a.reals(), b, b.reals());
  } else {
    choose(result.writeInts(), operands[1], operands[1].ints(), operands[2], operands[2].ints());
  }
  results.push_back(std::move(result));
  return success();
}
