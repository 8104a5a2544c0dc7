// Takes: values that stand for packed weights. Gives: what passes and the host program ask of them.
// Why apart: packing decides on joined weights, outlining lays them out, the host program names their tensors.
#include "ir/analysis/Weights.h"

using namespace mlir;
using namespace quern::ir;

ConcatOp quern::ir::joinedWeight(Value value) {
  while (value.getDefiningOp() && isa<PermuteOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto concat = value.getDefiningOp<ConcatOp>();
  return concat && concat->hasAttr(weightAttr) ? concat : ConcatOp();
}

ParamOp quern::ir::parameterOf(Value value) {
  while (value.getDefiningOp() && isa<PermuteOp, RenameOp, MergeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<ParamOp>();
}

GatherOp quern::ir::pickedWeight(Value value) {
  auto gather = value.getDefiningOp<GatherOp>();
  if (!gather)
    return {};
  NamedTensorType table = typeOf(gather.getX());
  bool known = llvm::all_of(table.getDims(), [](DimAttr dim) { return dim.getStatic().has_value(); });
  return table.getRank() > 2 && known ? gather : GatherOp();
}

MulOp quern::ir::summedByPick(ScatterAddOp scatter) {
  auto product = scatter.getX().getDefiningOp<MulOp>();
  if (!product || !product->hasOneUse())
    return {};
  NamedTensorType a = typeOf(product.getA()), b = typeOf(product.getB()), positions = typeOf(scatter.getPositions());
  SmallVector<StringRef> over = names(scatter.getDims());
  auto hasOwn = [&](NamedTensorType mine, NamedTensorType its) {
    return llvm::any_of(mine.getDims(), [&](DimAttr dim) {
      return !its.has(dim.getName()) && !llvm::is_contained(over, dim.getName());
    });
  };
  bool pairs = llvm::all_of(positions.getDims(), [&](DimAttr dim) { return llvm::is_contained(over, dim.getName()); });
  bool real = a.isReal() && b.isReal() && !a.has(scatter.getInto().getName()) && !b.has(scatter.getInto().getName());
  return pairs && real && hasOwn(a, b) && hasOwn(b, a) ? product : MulOp();
}

int64_t quern::ir::tileOfParts(int64_t tile, ArrayRef<int64_t> offsets) {
  constexpr int64_t narrowest = 8; // a register of AVX2
  while (tile >= narrowest && llvm::any_of(offsets, [&](int64_t offset) { return offset % tile; }))
    tile /= 2;
  return tile >= narrowest ? tile : 0;
}
