// Takes: an operation. Gives: which kind it is of. Why one list each: fusion, gradients and codegen must agree.
#include "ir/analysis/Operations.h"

using namespace mlir;
using namespace quern::ir;

bool quern::ir::isElementwise(Operation *op) {
  return isa<NegOp, AbsOp, ExpOp, LogOp, Log1pOp, SqrtOp, SinOp, CosOp, TanhOp, SigmoidOp, ErfOp, FloorOp, CeilOp,
             RoundOp, ToIntOp, ToRealOp, NarrowOp, WidenOp, DequantizeOp, NotOp, AddOp, SubOp, MulOp, DivOp, FloorDivOp,
             ModOp, PowOp, MaxOp, MinOp, AndOp, OrOp, CompareOp, WhereOp>(op);
}

bool quern::ir::widensStored(Operation *op) {
  return isa_and_nonnull<WidenOp, DequantizeOp>(op);
}

Value quern::ir::storedBehind(Value value) {
  return widensStored(value.getDefiningOp()) ? value.getDefiningOp()->getOperand(0) : value;
}

bool quern::ir::isViewLike(Operation *op) {
  return isa<RenameOp, PermuteOp, SplitOp, MergeOp, CutOp, UnitOp, SqueezeOp>(op);
}
