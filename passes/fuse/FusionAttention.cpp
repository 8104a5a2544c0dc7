// Takes: a function with attentions and their gradients. Gives: what one kernel of each gives together, and that masks of
// a gradient are recomputed in each of its kernels rather than stored for two.
#include "passes/fuse/FusionGroups.h"

#include "ir/analysis/Distances.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

/// One kernel gives `ends`; each is stored as it is.
void FusionGroups::makeJoint(SmallVector<Value> ends) {
  llvm::stable_sort(ends, [](Value a, Value b) { return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp()); });
  for (Value end : ends) {
    store(end);
    branched.insert(end);
    if (ends.size() > 1)
      jointOf[end] = joint.size();
  }
  if (ends.size() > 1)
    joint.push_back(std::move(ends));
}

/// A sum as it is stored: what narrows it is the kernel's result where nobody else reads it.
static Value storedSum(Value sum) {
  auto narrow = sum.hasOneUse() ? dyn_cast<NarrowOp>(*sum.getUsers().begin()) : NarrowOp();
  return narrow ? narrow.getResult() : sum;
}

/// Masks, learned distances and the like, with queries and keys, that a gradient's weights are made from.
void FusionGroups::keepMasksInside(AttentionGradientOp op) {
  SmallVector<DimAttr> own = op.getOwnDims();
  SmallVector<Value> work(op.getInputs());
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *made = value.getDefiningOp();
    bool both = typeOf(value).has(op.getDim()) &&
                llvm::any_of(own, [&](DimAttr dim) { return typeOf(value).has(dim.getName()); });
    bool again = made && (isElementwise(made) || isa<ExpandOp>(made) || distanceLookup(value));
    if (!again || !both || made->getBlock() != op->getBlock() || !inner.insert(value).second)
      continue;
    roots.erase(value);
    forWindows.erase(value);
    work.append(made->operand_begin(), made->operand_end());
  }
}

void FusionGroups::joinAttentions() {
  for (Operation *op : order) {
    if (auto attention = dyn_cast<AttentionOp>(op); attention && attention.hasStatistics())
      makeJoint({storedSum(attention.getAttended()), attention.getShift(), attention.getShare()});
    if (auto gradient = dyn_cast<AttentionGradientOp>(op)) {
      makeJoint(SmallVector<Value>(gradient.getResults()));
      keepMasksInside(gradient);
    }
  }
}
