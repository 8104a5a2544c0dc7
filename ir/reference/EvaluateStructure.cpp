// Takes: parameters, loops, kernels. Gives: their values, by way of the interpreter, which has the state they need.
#include "ir/Scan.h"
#include "ir/reference/Evaluate.h"

using namespace mlir;
using namespace quern::ir;

QUERN_EVALUATE(ParamOp) {
  return interpreter.lookupParameter(*this, results);
}
QUERN_EVALUATE(RepeatOp) {
  return interpreter.runRepeat(*this, operands, results);
}
QUERN_EVALUATE(LaunchOp) {
  return interpreter.runLaunch(*this, operands, results);
}

/// `array` at one position of a dimension, in the order of `to`.
static Array positionOf(const Array &array, StringRef dim, int64_t position, const std::vector<NamedSize> &to) {
  std::vector<int64_t> strides = array.stridesIn(to);
  int at = array.find(dim);
  int64_t start = position;
  for (const NamedSize &inner : llvm::ArrayRef(array.getDims()).drop_front(at + 1))
    start *= inner.size;
  Array part(array.getKind(), to);
  double *reals = part.isReal() ? part.writeReals() : nullptr;
  int64_t *ints = part.isReal() ? nullptr : part.writeInts();
  forEachPosition<1>(to, {strides}, [&](int64_t i, const std::array<int64_t, 1> &offsets) {
    (reals ? void(reals[i] = array.reals()[start + offsets[0]]) : void(ints[i] = array.ints()[start + offsets[0]]));
  });
  return part;
}

/// The inverse: `part` becomes one position of a dimension of `array`.
static void putPosition(Array &array, StringRef dim, int64_t position, const Array &part) {
  std::vector<NamedSize> loop;
  int64_t start = position;
  int at = array.find(dim);
  for (auto [i, each] : llvm::enumerate(array.getDims())) {
    if (static_cast<int>(i) > at)
      start *= each.size;
    if (static_cast<int>(i) != at)
      loop.push_back(each);
  }
  double *reals = array.isReal() ? array.writeReals() : nullptr;
  int64_t *ints = array.isReal() ? nullptr : array.writeInts();
  forEachPosition<2>(
      loop, {array.stridesIn(loop), part.stridesIn(loop)}, [&](int64_t, const std::array<int64_t, 2> &at) {
        (reals ? void(reals[start + at[0]] = part.reals()[at[1]]) : void(ints[start + at[0]] = part.ints()[at[1]]));
      });
}

QUERN_EVALUATE(ScanOp) {
  unsigned carriedCount = getCarriedCount();
  StringRef dim = getDim().getName();
  auto sizesAt = [&](Value value) { return interpreter.sizesOf(typeOf(value)); };
  Arrays carried, inputs;
  for (unsigned i = 0; i < carriedCount; ++i) {
    const Array *kept =
        getStates() ? interpreter.recall(cast<FlatSymbolRefAttr>((*getStates())[i]).getValue()) : nullptr;
    carried.push_back((kept ? *kept : operands[i]).aligned(sizesAt(getCarried(i))));
  }
  for (unsigned i = 0; i < getInputs().size(); ++i)
    inputs.push_back(operands[carriedCount + getSlices().size() + i].aligned(sizesAt(getInput(i))));
  for (Type type : TypeRange(getResultTypes()).drop_front(carriedCount))
    results.push_back(interpreter.make(cast<NamedTensorType>(type)));
  int64_t length = interpreter.valueOf(getDim().getSize());
  for (int64_t n = 0; n < length; ++n) {
    int64_t position = getReversed() ? length - 1 - n : n;
    Arrays arguments = std::move(carried), next;
    for (unsigned i = 0; i < getSlices().size(); ++i)
      arguments.push_back(positionOf(operands[carriedCount + i], dim, position, sizesAt(getSlice(i))));
    llvm::append_range(arguments, inputs);
    if (failed(interpreter.runBlock(getBlock(), arguments, next)))
      return failure();
    for (auto [stack, part] : llvm::zip(results, ArrayRef<Array>(next).drop_front(carriedCount)))
      putPosition(stack, dim, position, part);
    carried.clear();
    for (unsigned i = 0; i < carriedCount; ++i)
      carried.push_back(next[i].aligned(sizesAt(getCarried(i))));
  }
  for (unsigned i = 0; i < carriedCount; ++i) {
    carried[i] = carried[i].aligned(sizesAt(getResult(i)));
    if (getStates())
      interpreter.keep(cast<FlatSymbolRefAttr>((*getStates())[i]).getValue(), carried[i]);
  }
  results.insert(results.begin(), carried.begin(), carried.end());
  return success();
}

static bool sameSet(const std::vector<NamedSize> &a, const std::vector<NamedSize> &b) {
  return a.size() == b.size() && llvm::all_of(a, [&](const NamedSize &dim) { return llvm::is_contained(b, dim); });
}

QUERN_EVALUATE(RecallOp) {
  Array zeros = interpreter.make(getResult().getType());
  const Array *kept = interpreter.recall(getState());
  if (kept && (kept->getKind() != zeros.getKind() || !sameSet(kept->getDims(), zeros.getDims())))
    return emitError("the state ") << getState() << " is " << describe(kept->getDims()) << ", not "
                                   << describe(zeros.getDims());
  results.push_back(kept ? kept->aligned(zeros.getDims()) : zeros);
  return success();
}

QUERN_EVALUATE(StoreOp) {
  interpreter.keep(getState(), operands[0]);
  return success();
}

// Declarations do nothing where they stand, and who runs a body takes the terminator's operands itself.
QUERN_EVALUATE(StateOp) {
  return success();
}
QUERN_EVALUATE(KernelOp) {
  return success();
}
QUERN_EVALUATE(YieldOp) {
  return success();
}
