// Takes: values that stand for packed weights. Gives: what passes and the host program ask of them.
// Why apart: packing decides on joined weights, outlining lays them out, the host program names their tensors.
#include "passes/Weights.h"

using namespace mlir;
using namespace quern::ir;

ConcatOp quern::passes::joinedWeight(Value value) {
  while (value.getDefiningOp() && isa<PermuteOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto concat = value.getDefiningOp<ConcatOp>();
  return concat && concat->hasAttr(weightAttr) ? concat : ConcatOp();
}

ParamOp quern::passes::parameterOf(Value value) {
  while (value.getDefiningOp() && isa<PermuteOp, RenameOp, MergeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<ParamOp>();
}

int64_t quern::passes::tileOfParts(int64_t tile, ArrayRef<int64_t> offsets) {
  constexpr int64_t narrowest = 8; // a register of AVX2
  while (tile >= narrowest && llvm::any_of(offsets, [&](int64_t offset) { return offset % tile; }))
    tile /= 2;
  return tile >= narrowest ? tile : 0;
}
