// Takes: a value. Gives: whether it is a table looked up by the distance of two positions.
// Why by its form: what it needs to be known for (it is never stored, its gradient is a sum along diagonals) follows from
// the form alone, so there is nothing for a mark to add.
#include "ir/analysis/Distances.h"

using namespace mlir;
using namespace quern::ir;

/// A length of the run, or a number that its fold left.
static std::optional<Size> sizeOf(Value value) {
  if (auto size = value.getDefiningOp<SizeOp>())
    return size.getPolynomial();
  auto number = value.getDefiningOp<ConstOp>();
  auto integer = number ? dyn_cast<IntegerAttr>(number.getValue()) : IntegerAttr();
  return integer ? std::optional(Size(integer.getInt())) : std::nullopt;
}

std::optional<DistanceLookup> quern::ir::distanceLookup(Value value) {
  auto gather = value.getDefiningOp<GatherOp>();
  auto sum = gather ? gather.getPositions().getDefiningOp<AddOp>() : AddOp();
  auto apart = sum ? sum.getA().getDefiningOp<SubOp>() : SubOp();
  std::optional<Size> offset = sum ? sizeOf(sum.getB()) : std::nullopt;
  auto plus = apart ? apart.getA().getDefiningOp<IndexOp>() : IndexOp(),
       minus = apart ? apart.getB().getDefiningOp<IndexOp>() : IndexOp();
  if (!offset || !plus || !minus)
    return std::nullopt;
  DistanceLookup found{gather, typeOf(gather.getX()).dim(gather.getDim()), plus.getDim(), minus.getDim()};
  bool whole =
      *offset == found.minus.getSize() && found.distances.getSize() == found.plus.getSize() + found.minus.getSize();
  return whole ? std::optional(found) : std::nullopt;
}
