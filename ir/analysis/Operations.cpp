// Takes: an operation. Gives: which kind it is of. Why one answer each: fusion, gradients and codegen must agree.
#include "ir/analysis/Operations.h"

using namespace mlir;
using namespace quern::ir;

bool quern::ir::isElementwise(Operation *op) {
  auto time = dyn_cast<TimeOpInterface>(op);
  return time && time.getTimeBehavior() == TimeBehavior::Pointwise && !isa<ExpandOp, PermuteOp>(op); // these only move
}

bool quern::ir::widensStored(Operation *op) {
  return isa_and_nonnull<WidenOp, DequantizeOp, RescaleOp>(op);
}

Value quern::ir::storedBehind(Value value) {
  return widensStored(value.getDefiningOp()) ? value.getDefiningOp()->getOperand(0) : value;
}

bool quern::ir::isViewLike(Operation *op) {
  return isa<RenameOp, PermuteOp, SplitOp, MergeOp, CutOp, UnitOp, SqueezeOp>(op);
}
