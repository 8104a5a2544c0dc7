// Takes: operands of what changes dimensions. Gives: the same numbers under other names, in other places, or gathered.
// Each operation forms its result in the inferred order and then brings it into the order of the result's type.
#include "ir/analysis/Window.h"
#include "ir/reference/Evaluate.h"

using namespace mlir;
using namespace quern::ir;

using Dims = std::vector<NamedSize>;

static NamedSize sizeOf(DimAttr dim, Interpreter &interpreter) {
  return {dim.getName().str(), interpreter.valueOf(dim.getSize())};
}

/// The label as the user wrote it: the frontend numbers those of blocks (`K.3`).
static StringRef written(StringRef label) {
  return label.split('.').first;
}

/// Copies the numbers of `x` at positions `first`, `first + 1` ... along `from` to positions `at` ... along `to` of
/// `result`, as many as `count`; x is repeated along dimensions that it lacks.
static void copyRange(const Array &x, StringRef from, int64_t first, Array &result, StringRef to, int64_t at,
                      int64_t count) {
  Dims loop = result.getDims(), source = loop;
  int place = result.find(to);
  loop[place].size = source[place].size = count;
  source[place].name = from.str();
  // Strides hold for the whole arrays; the loop covers only the range.
  Dims xLoop = source, resultLoop = result.getDims();
  xLoop[place].size = x.sizeOf(from);
  std::vector<int64_t> xStrides = x.stridesIn(xLoop), resultStrides = result.stridesIn(resultLoop);
  int64_t xStart = first * xStrides[place], resultStart = at * resultStrides[place];
  auto copy = [&](auto *out, const auto *in) {
    forEachPosition<2>(loop, {xStrides, resultStrides},
                       [&](int64_t, const auto &offset) { out[resultStart + offset[1]] = in[xStart + offset[0]]; });
  };
  if (result.isReal())
    copy(result.writeReals(), x.reals());
  else
    copy(result.writeInts(), x.ints());
}

QUERN_EVALUATE(RenameOp) {
  Dims dims = operands[0].getDims();
  SmallVector<StringRef> from = names(getFrom());
  for (auto [name, to] : llvm::zip(from, getTo().getAsRange<DimAttr>()))
    dims[operands[0].find(name)].name = to.getName().str();
  results.push_back(operands[0].relabelled(dims).aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

QUERN_EVALUATE(SplitOp) {
  Dims dims = operands[0].getDims();
  auto at = dims.erase(dims.begin() + operands[0].find(getDim()));
  for (DimAttr part : getInto().getAsRange<DimAttr>())
    at = dims.insert(at, sizeOf(part, interpreter)) + 1;
  results.push_back(operands[0].relabelled(dims).aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

QUERN_EVALUATE(MergeOp) {
  Dims order, merged;
  SmallVector<StringRef> over = names(getDims());
  for (const NamedSize &dim : operands[0].getDims()) {
    if (dim.name == over.front()) {
      for (StringRef name : over)
        order.push_back({name.str(), operands[0].sizeOf(name)});
      merged.push_back(sizeOf(getInto(), interpreter));
    } else if (!llvm::is_contained(over, dim.name)) {
      order.push_back(dim);
      merged.push_back(dim);
    }
  }
  results.push_back(operands[0].aligned(order).relabelled(merged).aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

QUERN_EVALUATE(CutOp) {
  int64_t first = interpreter.valueOf(getOffsetSize()), count = interpreter.valueOf(getInto().getSize());
  int64_t size = operands[0].sizeOf(getDim());
  if (first < 0 || count < 0 || first + count > size)
    return emitError("Q028: positions ") << first << " to " << first + count - 1 << " along " << written(getDim())
                                         << ", whose size is " << size;
  Array result = interpreter.make(getResult().getType());
  copyRange(operands[0], getDim(), first, result, getInto().getName(), 0, count);
  results.push_back(std::move(result));
  return success();
}

QUERN_EVALUATE(ConcatOp) {
  Array result = interpreter.make(getResult().getType());
  int64_t at = 0;
  for (auto [operand, part] : llvm::zip(operands, names(getParts()))) {
    int64_t count = operand.sizeOf(part);
    copyRange(result.isReal() ? operand.asReal() : operand, part, 0, result, getInto().getName(), at, count);
    at += count;
  }
  results.push_back(std::move(result));
  return success();
}

QUERN_EVALUATE(UnitOp) {
  Dims dims = operands[0].getDims();
  dims.push_back(sizeOf(getInto(), interpreter));
  results.push_back(operands[0].relabelled(dims).aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

QUERN_EVALUATE(SqueezeOp) {
  Dims dims = operands[0].getDims();
  dims.erase(dims.begin() + operands[0].find(getDim()));
  results.push_back(operands[0].relabelled(dims).aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

QUERN_EVALUATE(ExpandOp) {
  results.push_back(operands[0].aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

QUERN_EVALUATE(PermuteOp) {
  results.push_back(operands[0].aligned(interpreter.sizesOf(getResult().getType())));
  return success();
}

QUERN_EVALUATE(GatherOp) {
  const Array &x = operands[0], &positions = operands[1];
  int64_t size = x.sizeOf(getDim());
  for (int64_t i = 0, n = positions.getCount(); i < n; ++i)
    if (int64_t position = positions.ints()[i]; position < 0 || position >= size)
      return emitError("Q028: position ") << position << " along " << written(getDim()) << ", whose size is " << size;
  Array result = interpreter.make(getResult().getType());
  const Dims &loop = result.getDims();
  // Along the gathered dimension only the positions move x; a result's dimension of that name is one of theirs.
  Dims others = x.getDims();
  others[x.find(getDim())].name = "<gathered>";
  int64_t step = x.stridesIn({{getDim().str(), size}})[0];
  std::vector<int64_t> xStrides = x.relabelled(others).stridesIn(loop), positionStrides = positions.stridesIn(loop);
  auto pick = [&](auto *out, const auto *in) {
    forEachPosition<2>(loop, {xStrides, positionStrides},
                       [&](int64_t i, const auto &at) { out[i] = in[at[0] + step * positions.ints()[at[1]]]; });
  };
  if (x.isReal())
    pick(result.writeReals(), x.reals());
  else
    pick(result.writeInts(), x.ints());
  results.push_back(std::move(result));
  return success();
}

/// A ring after the step: slot j holds the last position that is j modulo the window. `all`: its rows before, then the
/// new ones.
static Array ringOf(const Array &all, StringRef along, int64_t window, int64_t past, int64_t rows) {
  int64_t held = std::min(past, window), total = past + rows, filled = std::min(total, window);
  Dims dims = all.getDims();
  dims[all.find(along)].size = filled;
  Array ring(all.getKind(), dims);
  for (int64_t slot = 0; slot < filled; ++slot) {
    int64_t position = total - 1 - ((total - 1 - slot) % window);
    copyRange(all, along, position < past ? slot : held + position - past, ring, along, slot, 1);
  }
  return ring;
}

QUERN_EVALUATE(RememberOp) {
  StringRef along = getTo().getName();
  int64_t rows = operands[0].sizeOf(getFrom()), total = interpreter.valueOf(getTo().getSize()), past = total - rows;
  Array result = interpreter.make(getResult().getType());
  const Array *before = interpreter.recall(getState());
  if (past) {
    if (!before || before->sizeOf(along) < past)
      return emitError("the memory ") << getState() << " holds fewer than the " << past
                                      << " positions before the new rows";
    Dims expected = result.getDims(), kept = before->getDims();
    expected[result.find(along)].size = kept[before->find(along)].size;
    if (kept != expected)
      return emitError("the memory ") << getState() << " is " << describe(kept) << ", not " << describe(expected);
    copyRange(*before, along, 0, result, along, 0, past);
  }
  copyRange(operands[0], getFrom(), 0, result, along, past, rows);
  if (std::optional<int64_t> window = windowOf(getTo().getSize()))
    interpreter.keep(getState(), ringOf(result, along, *window, interpreter.valueOf(Size::symbol("past")), rows));
  else
    interpreter.keep(getState(), result);
  results.push_back(std::move(result));
  return success();
}
