// Takes: operands of what combines positions. Gives: reductions, contractions, softmax, running sums, choices.
// Why rows: every operation first brings the combined dimensions innermost; then each row is one plain loop.
#include "ir/reference/Evaluate.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace quern::ir;

static constexpr double infinity = std::numeric_limits<double>::infinity();

std::pair<Dims, Dims> quern::ir::divide(const Dims &dims, ArrayRef<StringRef> over) {
  std::pair<Dims, Dims> parts;
  for (const NamedSize &dim : dims)
    (llvm::is_contained(over, dim.name) ? parts.second : parts.first).push_back(dim);
  return parts;
}

Dims quern::ir::joined(const Dims &a, const Dims &b) {
  Dims all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// ---- reductions

template <class T> static T combine(Reduction reduction, const T *row, int64_t n) {
  switch (reduction) {
  case Reduction::sum:
  case Reduction::mean:
    return std::accumulate(row, row + n, T(0));
  case Reduction::max: {
    T best = std::is_same_v<T, double> ? T(-infinity) : std::numeric_limits<T>::min();
    for (int64_t i = 0; i < n; ++i)
      if (row[i] > best || row[i] != row[i]) // NaN stays: nothing is larger
        best = row[i];
    return best;
  }
  case Reduction::min: {
    T best = std::is_same_v<T, double> ? T(infinity) : std::numeric_limits<T>::max();
    for (int64_t i = 0; i < n; ++i)
      if (row[i] < best || row[i] != row[i])
        best = row[i];
    return best;
  }
  case Reduction::any:
    return std::any_of(row, row + n, [](T x) { return x != 0; });
  case Reduction::all:
    return std::all_of(row, row + n, [](T x) { return x != 0; });
  }
  llvm_unreachable("all reductions are listed");
}

QUERN_EVALUATE(ReduceOp) {
  auto [kept, over] = divide(operands[0].getDims(), names(getDims()));
  NamedTensorType type = getResult().getType();
  Array x = operands[0].aligned(joined(kept, over)), result(type.getKind(), kept);
  int64_t rows = countOf(kept), n = countOf(over);
  if (getReduction() == Reduction::mean) {
    x = x.asReal();
    for (int64_t r = 0; r < rows; ++r)
      result.writeReals()[r] = combine(Reduction::mean, x.reals() + r * n, n) / n;
  } else if (x.isReal()) {
    for (int64_t r = 0; r < rows; ++r)
      result.writeReals()[r] = combine(getReduction(), x.reals() + r * n, n);
  } else {
    for (int64_t r = 0; r < rows; ++r)
      result.writeInts()[r] = combine(getReduction(), x.ints() + r * n, n);
  }
  results.push_back(result.aligned(interpreter.sizesOf(type)));
  return success();
}

QUERN_EVALUATE(SoftmaxOp) {
  auto [kept, over] = divide(operands[0].getDims(), names(getDims()));
  Array x = operands[0].asReal().aligned(joined(kept, over)), result(Kind::Real, x.getDims());
  for (int64_t r = 0, rows = countOf(kept), n = countOf(over); r < rows; ++r) {
    const double *in = x.reals() + r * n;
    double *out = result.writeReals() + r * n, largest = combine(Reduction::max, in, n), sum = 0;
    if (largest == -infinity)
      continue; // softmax over nothing is zero
    for (int64_t i = 0; i < n; ++i)
      sum += out[i] = std::exp(in[i] - largest);
    for (int64_t i = 0; i < n; ++i)
      out[i] /= sum;
  }
  results.push_back(result.aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

// ---- contraction

/// `x` summed over its dimensions that are named.
static Array summed(const Array &x, ArrayRef<StringRef> over) {
  auto [kept, gone] = divide(x.getDims(), over);
  if (gone.empty())
    return x;
  Array rows = x.aligned(joined(kept, gone)), result(Kind::Real, kept);
  for (int64_t r = 0, n = countOf(gone); r < countOf(kept); ++r)
    result.writeReals()[r] = combine(Reduction::sum, rows.reals() + r * n, n);
  return result;
}

// A quarter of the matrix products' time on machines that have it; no fused multiply-add, so that results are the same
// on all machines.
#if defined(__x86_64__)
#define QUERN_WIDE __attribute__((target_clones("default", "avx2")))
#else
#define QUERN_WIDE
#endif

constexpr int64_t tileRows = 4, tileColumns = 8;

/// sum[r, x] = sum over l of a[r, l] * panel[l, x], in registers.
QUERN_WIDE static void multiplyTile(const double *a, const double *panel, double *sum, int64_t k) {
  double partial[tileRows][tileColumns] = {};
  for (int64_t l = 0; l < k; ++l)
    for (int64_t r = 0; r < tileRows; ++r)
      for (int64_t x = 0; x < tileColumns; ++x)
        partial[r][x] += a[r * k + l] * panel[l * tileColumns + x];
  std::copy_n(&partial[0][0], tileRows * tileColumns, sum);
}

/// c[m, n] = a[m, k] * b[k, n], tile by tile; what sticks out of the last tiles is computed on copies.
static void multiply(const double *a, const double *b, double *c, int64_t m, int64_t k, int64_t n) {
  std::vector<double> panel(k * tileColumns), lastRows(tileRows * k);
  double sum[tileRows * tileColumns];
  for (int64_t j = 0; j < n; j += tileColumns) {
    int64_t columns = std::min(tileColumns, n - j);
    for (int64_t l = 0; l < k; ++l)
      std::copy_n(b + l * n + j, columns, panel.begin() + l * tileColumns);
    for (int64_t i = 0; i < m; i += tileRows) {
      int64_t rows = std::min(tileRows, m - i);
      const double *block = a + i * k;
      if (rows < tileRows) {
        std::copy_n(block, rows * k, lastRows.begin());
        block = lastRows.data();
      }
      multiplyTile(block, panel.data(), sum, k);
      for (int64_t r = 0; r < rows; ++r)
        std::copy_n(sum + r * tileColumns, columns, c + (i + r) * n + j);
    }
  }
}

Array quern::ir::contracted(Array a, Array b, ArrayRef<StringRef> over) {
  a = a.asReal(), b = b.asReal();
  // A dimension that only one side has is summed there first: sum of a * b over it is (sum of a) * b.
  SmallVector<StringRef> onlyA, onlyB;
  for (StringRef name : over)
    if (b.find(name) < 0)
      onlyA.push_back(name);
    else if (a.find(name) < 0)
      onlyB.push_back(name);
  a = summed(a, onlyA);
  b = summed(b, onlyB);
  // Then each dimension is of both and kept (batch), of one alone (m, n), or of both and summed (k).
  Dims batch, m, n, k;
  for (const NamedSize &dim : a.getDims())
    (llvm::is_contained(over, dim.name) ? k : b.find(dim.name) >= 0 ? batch : m).push_back(dim);
  for (const NamedSize &dim : b.getDims())
    if (a.find(dim.name) < 0)
      n.push_back(dim);
  // The long side of free dimensions becomes the columns.
  if (countOf(n) < countOf(m)) {
    std::swap(a, b);
    std::swap(m, n);
  }
  a = a.aligned(joined(joined(batch, m), k));
  b = b.aligned(joined(joined(batch, k), n));
  Array result(Kind::Real, joined(joined(batch, m), n));
  int64_t rows = countOf(m), columns = countOf(n), depth = countOf(k);
  for (int64_t i = 0, count = countOf(batch); i < count; ++i)
    multiply(a.reals() + i * rows * depth, b.reals() + i * depth * columns, result.writeReals() + i * rows * columns,
             rows, depth, columns);
  return result;
}

QUERN_EVALUATE(ContractOp) {
  results.push_back(
      contracted(operands[0], operands[1], names(getDims())).aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

// ---- running sums

template <class T> static void runningSum(const T *in, T *out, const T *start, int64_t rows, int64_t n, bool reverse) {
  for (int64_t r = 0; r < rows; ++r) {
    T sum = start ? start[r] : T(0);
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = r * n + (reverse ? n - 1 - i : i);
      out[at] = sum += in[at];
    }
  }
}

QUERN_EVALUATE(CumsumOp) {
  auto [kept, along] = divide(operands[0].getDims(), {getDim()});
  Array x = operands[0].aligned(joined(kept, along)), result(x.getKind(), x.getDims()), last(x.getKind(), kept);
  const Array *start = getState() ? interpreter.recall(*getState()) : nullptr;
  if (start && start->getDims() != kept)
    return emitError("the state ") << *getState() << " is " << describe(start->getDims()) << ", not " << describe(kept);
  int64_t rows = countOf(kept), n = along[0].size;
  if (n < 1)
    return emitError("a running sum over no positions");
  if (x.isReal()) {
    runningSum(x.reals(), result.writeReals(), start ? start->reals() : nullptr, rows, n, getReverse());
    for (int64_t r = 0; r < rows; ++r)
      last.writeReals()[r] = result.reals()[r * n + n - 1];
  } else {
    runningSum(x.ints(), result.writeInts(), start ? start->ints() : nullptr, rows, n, getReverse());
    for (int64_t r = 0; r < rows; ++r)
      last.writeInts()[r] = result.ints()[r * n + n - 1];
  }
  if (getState())
    interpreter.keep(*getState(), std::move(last));
  results.push_back(result.aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

QUERN_EVALUATE(ScatterAddOp) {
  const Array &x = operands[0], &positions = operands[1];
  int64_t size = interpreter.valueOf(getInto().getSize());
  for (int64_t i = 0, n = positions.getCount(); i < n; ++i)
    if (int64_t position = positions.ints()[i]; position < 0 || position >= size)
      return emitError("Q028: position ") << position << " along " << getInto().getName() << ", whose size is " << size;
  Array result = interpreter.make(getResult().getType());
  // In the order of x's dimensions; a summed dimension of the new one's name is another dimension of the result's.
  Dims loop = x.getDims(), target = result.getDims();
  for (const NamedSize &dim : positions.getDims())
    if (x.find(dim.name) < 0)
      loop.push_back(dim);
  target[result.find(getInto().getName())].name = "<scattered>";
  int64_t step = result.stridesIn({{getInto().getName().str(), size}})[0];
  double *out = result.writeReals();
  std::vector<int64_t> resultStrides = Array(Kind::Real, target).stridesIn(loop);
  forEachPosition<3>(loop, {x.stridesIn(loop), positions.stridesIn(loop), resultStrides},
                     [&](int64_t, const auto &at) { out[at[2] + step * positions.ints()[at[1]]] += x.reals()[at[0]]; });
  results.push_back(std::move(result));
  return success();
}

// ---- choices

/// Positions of a row's k largest in order, of equals the first; NaN counts as the smallest.
template <class T> static std::vector<int64_t> largest(const T *row, int64_t n, int64_t k) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  auto before = [&](int64_t a, int64_t b) {
    bool noA = row[a] != row[a], noB = row[b] != row[b];
    if (noA || noB)
      return noA != noB ? noB : a < b;
    return row[a] != row[b] ? row[a] > row[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
  order.resize(k);
  return order;
}

QUERN_EVALUATE(ArgmaxOp) {
  auto [kept, along] = divide(operands[0].getDims(), {getDim()});
  Array x = operands[0].asReal().aligned(joined(kept, along)), result(Kind::Int, kept);
  int64_t n = along[0].size;
  if (n < 1)
    return emitError("argmax over no positions");
  for (int64_t r = 0, rows = countOf(kept); r < rows; ++r)
    result.writeInts()[r] = largest(x.reals() + r * n, n, 1)[0];
  results.push_back(result.aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

QUERN_EVALUATE(TopKOp) {
  auto [kept, along] = divide(operands[0].getDims(), {getFrom()});
  Array x = operands[0].aligned(joined(kept, along));
  int64_t n = along[0].size, k = interpreter.valueOf(getInto().getSize());
  if (k > n)
    return emitError("top_k: ") << k << " of only " << n << " positions along " << getFrom();
  Dims dims = joined(kept, {{getInto().getName().str(), k}});
  Array values(x.getKind(), dims), positions(Kind::Int, dims);
  for (int64_t r = 0, rows = countOf(kept); r < rows; ++r) {
    std::vector<int64_t> order = x.isReal() ? largest(x.reals() + r * n, n, k) : largest(x.ints() + r * n, n, k);
    for (int64_t i = 0; i < k; ++i) {
      positions.writeInts()[r * k + i] = order[i];
      if (x.isReal())
        values.writeReals()[r * k + i] = x.reals()[r * n + order[i]];
      else
        values.writeInts()[r * k + i] = x.ints()[r * n + order[i]];
    }
  }
  results.push_back(values.aligned(interpreter.sizesOf(getValues().getType())));
  results.push_back(positions.aligned(interpreter.sizesOf(getPositions().getType())));
  return success();
}
