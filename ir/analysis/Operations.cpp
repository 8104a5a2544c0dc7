// Takes: an operation. Gives: which kind it is of. Why one list each: fusion, gradients and codegen must agree.
#include "ir/analysis/Operations.h"

using namespace mlir;
using namespace quern::ir;

bool quern::ir::isElementwise(Operation *op) {
  return isa<NegOp, AbsOp, ExpOp, LogOp, Log1pOp, SqrtOp, SinOp, CosOp, TanhOp, SigmoidOp, ErfOp, FloorOp, CeilOp,
             RoundOp, ToIntOp, ToRealOp, NarrowOp, WidenOp, NotOp, AddOp, SubOp, MulOp, DivOp, FloorDivOp, ModOp, PowOp,
             MaxOp, MinOp, AndOp, OrOp, CompareOp, WhereOp>(op);
}

bool quern::ir::isViewLike(Operation *op) {
  return isa<RenameOp, PermuteOp, SplitOp, MergeOp, CutOp, UnitOp, SqueezeOp>(op);
}
