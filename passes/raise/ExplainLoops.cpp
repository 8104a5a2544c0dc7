// Takes: two iterations of a loop that roll-repeats could not fold. Gives: a remark at the first line that differs.
// Why: such iterations are compiled one by one, and the program grows with their number.
#include "passes/raise/ExplainLoops.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace quern::ir;

namespace {

struct Difference {
  Operation *here = nullptr;
  std::string what;
};

std::string numberOf(ConstOp op) {
  if (auto real = dyn_cast<FloatAttr>(op.getValue()))
    return llvm::formatv("{0}", real.getValueAsDouble()).str();
  if (auto whole = dyn_cast<IntegerAttr>(op.getValue()))
    return std::to_string(whole.getInt());
  return "another";
}

Difference firstDifference(Block &one, Block &next, const std::optional<quern::passes::WeightFormats> &stored) {
  auto other = next.begin();
  for (Operation &op : one) {
    if (other == next.end() || op.getName() != other->getName() || op.getNumOperands() != other->getNumOperands())
      return {&op, "what is computed here differs from the next iteration"};
    if (auto number = dyn_cast<ConstOp>(op); number && number.getValue() != cast<ConstOp>(*other).getValue())
      return {&op, "the number " + numberOf(number) + " is " + numberOf(cast<ConstOp>(*other)) +
                       " in the next; a number for each iteration can be a parameter"};
    if (auto values = dyn_cast<ValuesOp>(op); values && values.getNumbers() != cast<ValuesOp>(*other).getNumbers())
      return {&op, "these numbers are others in the next iteration"};
    if (auto param = dyn_cast<ParamOp>(op); param && stored)
      if (auto here = stored->ofMatrix(param), there = stored->ofMatrix(cast<ParamOp>(*other)); here != there)
        return {&op, "this weight is stored in " + nameOf(here) + ", in the next iteration in " + nameOf(there)};
    for (auto [region, its] : llvm::zip(op.getRegions(), other->getRegions()))
      if (!region.empty() && !its.empty())
        if (Difference found = firstDifference(region.front(), its.front(), stored); found.here)
          return found;
    ++other;
  }
  return {};
}

} // namespace

void quern::passes::explainUnrolled(RepeatOp one, RepeatOp next, const std::optional<WeightFormats> &stored) {
  Difference difference = firstDifference(one.getBlock(), next.getBlock(), stored);
  Operation *at = difference.here ? difference.here : one;
  remark::missed(at->getLoc(), remark::RemarkOpts::name("loop").category("loops"))
      << "an iteration is compiled by itself: "
      << (difference.here ? difference.what : "its parameters, shapes or inputs are used otherwise than in the next");
}
