// Takes: a shape operation and how its operand is laid out in memory. Gives: how its result is laid out.
// Why: splits, merges, cuts and renames of something already stored cost nothing but other strides; only what strides
// cannot say becomes a kernel.
#include "ir/analysis/Views.h"

using namespace mlir;
using namespace quern::ir;

SmallVector<Size> View::denseStrides(NamedTensorType type) {
  SmallVector<Size> strides(type.getRank());
  Size stride(1);
  for (int i = static_cast<int>(type.getRank()) - 1; i >= 0; --i) {
    strides[i] = stride;
    stride = stride * type.getDims()[i].getSize();
  }
  return strides;
}

View View::dense(Value value) {
  return {value, Size(0), denseStrides(typeOf(value))};
}

View quern::ir::ownView(Value owner) {
  auto remember = owner.getDefiningOp<RememberOp>();
  // New rows that a kernel writes straight into the cache have the layout of the cache, for whoever else reads them.
  for (Operation *user : owner.getUsers())
    if (auto rows = dyn_cast<RememberOp>(user); rows && owner.getDefiningOp())
      remember = rows;
  if (!remember)
    return View::dense(owner);
  // The cache: the state's order without the leading iterations.
  auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(remember, remember.getStateAttr());
  SmallVector<Size> strides = View::denseStrides(cast<NamedTensorType>(state.getType()));
  // A copy, not an erase: erasing nothing from a SmallVector moves each element onto itself, which empties a Size.
  return {owner, Size(0), SmallVector<Size>(ArrayRef<Size>(strides).take_back(typeOf(owner).getRank()))};
}

View quern::ir::viewOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isViewLike(op))
    return ownView(value);
  std::optional<View> view = viewThrough(op, viewOf(op->getOperand(0)));
  assert(view && "outlining leaves only views that strides can say");
  return *view;
}

std::optional<View> quern::ir::viewThrough(Operation *op, const View &operand) {
  NamedTensorType from = typeOf(op->getOperand(0)), to = typeOf(op->getResult(0));
  View view = operand;
  // Strides by the result's names; put into the result's order at the end.
  llvm::StringMap<Size> stride;
  for (auto [dim, s] : llvm::zip(from.getDims(), operand.strides))
    stride[dim.getName()] = s;
  if (auto rename = dyn_cast<RenameOp>(op)) {
    llvm::StringMap<Size> old = stride;
    SmallVector<StringRef> names = ir::names(rename.getFrom());
    for (StringRef name : names)
      stride.erase(name);
    for (auto [name, dim] : llvm::zip(names, rename.getTo().getAsRange<DimAttr>()))
      stride[dim.getName()] = old[name];
  } else if (auto split = dyn_cast<SplitOp>(op)) {
    Size inner = stride[split.getDim()];
    stride.erase(split.getDim());
    for (Attribute attr : llvm::reverse(split.getInto())) {
      auto dim = cast<DimAttr>(attr);
      stride[dim.getName()] = inner;
      inner = inner * dim.getSize();
    }
  } else if (auto merge = dyn_cast<MergeOp>(op)) {
    SmallVector<StringRef> names = ir::names(merge.getDims());
    // Dimensions of size 1 may be anywhere; the others must nest without gaps.
    std::optional<Size> expected, innermost;
    for (StringRef name : llvm::reverse(names)) {
      DimAttr dim = from.dim(name);
      if (dim.getStatic() == 1)
        continue;
      if (expected && *expected != stride[name])
        return std::nullopt;
      if (!innermost)
        innermost = stride[name];
      expected = stride[name] * dim.getSize();
    }
    Size merged = innermost.value_or(Size(1));
    for (StringRef name : names)
      stride.erase(name);
    stride[merge.getInto().getName()] = merged;
  } else if (auto cut = dyn_cast<CutOp>(op)) {
    Size s = stride[cut.getDim()];
    view.offset = view.offset + cut.getOffsetSize() * s;
    stride.erase(cut.getDim());
    stride[cut.getInto().getName()] = s;
  } else if (auto unit = dyn_cast<UnitOp>(op)) {
    stride[unit.getInto().getName()] = Size(1);
  } else if (auto squeeze = dyn_cast<SqueezeOp>(op)) {
    stride.erase(squeeze.getDim());
  } else if (!isa<PermuteOp>(op)) {
    return std::nullopt;
  }
  view.strides.clear();
  for (DimAttr dim : to.getDims())
    view.strides.push_back(stride[dim.getName()]);
  return view;
}
