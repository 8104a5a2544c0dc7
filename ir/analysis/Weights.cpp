// Takes: values that stand for packed weights. Gives: what passes and the host program ask of them.
// Why apart: packing decides on joined weights, outlining lays them out, the host program names their tensors.
#include "ir/analysis/Weights.h"

using namespace mlir;
using namespace quern::ir;

QuantizeOp quern::ir::codedWeight(Value value) {
  while (auto permute = value.getDefiningOp<PermuteOp>())
    value = permute.getX();
  return value.getDefiningOp<QuantizeOp>();
}

ConcatOp quern::ir::joinedWeight(Value value) {
  while (value.getDefiningOp() && isa<PermuteOp, QuantizeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto concat = value.getDefiningOp<ConcatOp>();
  return concat && concat->hasAttr(weightAttr) ? concat : ConcatOp();
}

ParamOp quern::ir::parameterOf(Value value) {
  while (value.getDefiningOp() && isa<PermuteOp, RenameOp, MergeOp, QuantizeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<ParamOp>();
}

GatherOp quern::ir::routedWeight(Value value) {
  auto gather = value.getDefiningOp<GatherOp>();
  if (!gather)
    return {};
  NamedTensorType table = typeOf(gather.getX());
  bool known = llvm::all_of(table.getDims(), [](DimAttr dim) { return dim.getStatic().has_value(); });
  return table.getRank() > 2 && known ? gather : GatherOp();
}

MulOp quern::ir::summedByRoute(ScatterAddOp scatter) {
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
  bool real = a.isF32() && b.isF32() && !a.has(scatter.getInto().getName()) && !b.has(scatter.getInto().getName());
  return pairs && real && hasOwn(a, b) && hasOwn(b, a) ? product : MulOp();
}

std::optional<WeightDims> quern::ir::weightDims(Value weight, NamedTensorType other, StringRef depth,
                                                StringRef gathered) {
  ParamOp param = parameterOf(weight);
  ConcatOp joined = joinedWeight(weight);
  NamedTensorType type = typeOf(weight);
  int inner = type.find(depth), outer = -1;
  if (!(param || joined) || type.getRank() < 2 || inner < 0 || !other.has(depth))
    return std::nullopt;
  // The rows: the last dimension that the other operand lacks; all before are stacked. Parts of a joined weight may
  // are along a dimension of their own, wherever that stands.
  StringRef parts = joined && type.getRank() == 3 ? joined.getInto().getName() : "";
  for (auto [d, dim] : llvm::enumerate(type.getDims()))
    if (static_cast<int>(d) != inner && dim.getName() != gathered && !other.has(dim.getName()) &&
        dim.getName() != parts)
      outer = d;
  if (outer < 0)
    return std::nullopt;
  WeightDims dims{static_cast<unsigned>(outer), static_cast<unsigned>(inner), {}};
  for (unsigned d = 0; d < type.getRank(); ++d)
    if (d != dims.depth && d != dims.rows)
      dims.stacked.push_back(d);
  bool leading = llvm::all_of(dims.stacked, [&](unsigned d) { return d < std::min(dims.rows, dims.depth); });
  if (param && (!leading || (dims.stacked.size() != param.getStacked().size() && !param.getStacked().empty())))
    return std::nullopt; // some matrices in each of several tensors stay as they are
  return dims;
}

int64_t quern::ir::tileOfParts(int64_t tile, ArrayRef<int64_t> offsets) {
  constexpr int64_t narrowest = 8; // a register of AVX2
  while (tile >= narrowest && llvm::any_of(offsets, [&](int64_t offset) { return offset % tile; }))
    tile /= 2;
  return tile >= narrowest ? tile : 0;
}
