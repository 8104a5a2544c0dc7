// Takes: operands of an attention or of its gradient. Gives: the results, from products and weights that are all made.
#include "ir/reference/Evaluate.h"

#include <cmath>
#include <limits>
#include <numbers>

using namespace mlir;
using namespace quern::ir;

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// What the body yields for the products of `queries` and `keys`, and `inputs`.
template <class Op>
static LogicalResult runBody(Op op, ArrayRef<Array> queries, ArrayRef<Array> keys, ArrayRef<Array> inputs,
                             Interpreter &interpreter, Arrays &yielded) {
  Arrays arguments;
  for (auto [i, query, key] : llvm::enumerate(queries, keys)) {
    SmallVector<StringRef> depth;
    for (DimAttr dim : op.getDepth(i))
      depth.push_back(dim.getName());
    arguments.push_back(contracted(query, key, depth).aligned(interpreter.sizesOf(typeOf(op.getProduct(i)))));
  }
  for (auto [i, input] : llvm::enumerate(inputs))
    arguments.push_back(input.aligned(interpreter.sizesOf(typeOf(op.getInputArgument(i)))));
  return interpreter.runBlock(op.getBlock(), arguments, yielded);
}

/// NaN if there is one.
static double largestOf(ArrayRef<double> row) {
  double largest = -infinity;
  for (double x : row)
    largest = x > largest || std::isnan(x) ? x : largest;
  return largest;
}

/// For e^(score - shift) of a row: its largest score, or, of weights that are rounded, the next for which e^shift is a power of two.
static double shiftOf(double largest, bool narrow) {
  return narrow ? std::ceil(largest / std::numbers::ln2) * std::numbers::ln2 : largest;
}

QUERN_EVALUATE(AttentionOp) {
  size_t count = getQueries().size();
  ArrayRef<Array> queries = operands.take_front(count), keys = operands.slice(count, count),
                  inputs = operands.slice(2 * count + 1, getInputs().size()),
                  sinks = operands.take_back(getSinks().size());
  const Array &values = operands[2 * count];
  const bool narrow = getNarrow();
  std::vector<Array> yielded;
  if (failed(runBody(*this, queries, keys, inputs, interpreter, yielded)))
    return failure();

  auto [kept, over] = divide(yielded[0].getDims(), {getDim()});
  std::vector<Array> parts = {yielded[0].aligned(joined(kept, over))}; // a row of each after the other
  for (auto [sink, part] : llvm::zip(sinks, getPartNames()))
    parts.push_back(sink.aligned(joined(kept, divide(sink.getDims(), {part}).second)));
  Array weights(Kind::Real, parts[0].getDims()), shift(Kind::Real, kept), share(Kind::Real, kept);
  int64_t rows = countOf(kept);
  for (int64_t r = 0; r < rows; ++r) {
    double largest = -infinity, sum = 0;
    auto row = [&](const Array &part) {
      int64_t n = part.getCount() / rows;
      return ArrayRef<double>(part.reals() + r * n, n);
    };
    for (const Array &part : parts) {
      double most = largestOf(row(part));
      largest = most > largest || std::isnan(most) ? most : largest;
    }
    if (largest == -infinity)
      continue; // softmax over nothing is zero
    const double from = shiftOf(largest, narrow);
    auto weightOf = [&](double score) {
      const double weight = std::exp(score - from);
      return narrow ? inBF16(weight) : weight;
    };
    for (double score : row(parts[0]))
      sum += weightOf(score);
    for (const Array &sink : llvm::drop_begin(parts))
      for (double score : row(sink))
        sum += std::exp(score - from);
    shift.writeReals()[r] = largest;
    share.writeReals()[r] = 1 / sum;
    for (auto [i, score] : llvm::enumerate(row(parts[0])))
      weights.writeReals()[r * row(parts[0]).size() + i] = weightOf(score) / sum;
  }
  results.push_back(contracted(weights, values, {getDim()}).aligned(interpreter.sizesOf(typeOf(getAttended()))));
  if (hasStatistics()) {
    results.push_back(shift.aligned(interpreter.sizesOf(typeOf(getShift()))));
    results.push_back(share.aligned(interpreter.sizesOf(typeOf(getShare()))));
  }
  return success();
}

/// `weights` added up at offset + index(a) - index(b) of a new dimension, which comes last.
static FailureOr<Array> summedByDistance(AttentionGradientOp op, const Array &weights, Interpreter &interpreter) {
  SmallVector<StringRef> pair = names(*op.getDistance());
  auto [kept, both] = divide(weights.getDims(), pair);
  if (both[0].name != pair[0])
    std::swap(both[0], both[1]);
  Array rows = weights.aligned(joined(kept, both));
  int64_t size = interpreter.valueOf(op.getInto()->getSize()), offset = interpreter.valueOf(op.getOffsetSize());
  Array result(Kind::Real, joined(kept, {{op.getInto()->getName().str(), size}}));
  int64_t m = both[0].size, n = both[1].size;
  if (m && n && (offset - (n - 1) < 0 || offset + m - 1 >= size))
    return op.emitError("Q028: distances from ") << offset - (n - 1) << " to " << offset + m - 1 << " along "
                                                 << op.getInto()->getName() << ", whose size is " << size;
  for (int64_t r = 0; r < countOf(kept); ++r)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        result.writeReals()[r * size + offset + i - j] += rows.reals()[(r * m + i) * n + j];
  return result;
}

QUERN_EVALUATE(AttentionGradientOp) {
  size_t count = getRows().size();
  ArrayRef<Array> values = operands.slice(2 * count, getValues().size());
  Arrays weights;
  if (failed(runBody(*this, operands.take_front(count), operands.slice(count, count),
                     operands.take_back(getInputs().size()), interpreter, weights)))
    return failure();
  if (isAlongDistance()) {
    FailureOr<Array> sum = summedByDistance(*this, weights[0].asReal(), interpreter);
    if (failed(sum))
      return failure();
    results.push_back(sum->aligned(interpreter.sizesOf(typeOf(getResult(0)))));
    return success();
  }
  for (auto [i, value] : llvm::enumerate(values))
    results.push_back(contracted(weights[i], value, {getDim()}).aligned(interpreter.sizesOf(typeOf(getResult(i)))));
  return success();
}
