// Takes: a module that generates. Gives: the same with its caches in bf16, or in int8 with a scale for each row.
//
//   before: %all = remember %x T to S in @cache : real        %s = contract %q, %all
//   bf16:   %n = remember (narrow %x) T to S in @cache : bf16        %all = widen %n
//   int8:   %scale = narrow (max |%x| / 127), over the last dimension of the cache : bf16
//           %c = remember (narrow (round (%x / %scale))) T to S in @cache : i8
//           %d = remember %scale T to S in @cache.scales : bf16        %all = rescale %c by %d
//
// New rows are rounded as they are written, by the kernel that makes them; whoever reads, the same call included, reads the
// rounded numbers, so a text is the same whether it was read at once or in pieces. States that sum up or carry a scan are no
// caches: their rounding would add up over positions. What a call makes once of a request and each step multiplies (keys and
// values of another text or an image) is stored so, too. Why scales are a cache of their own: rings, batches of texts of different
// lengths and devices then know them already. Why bf16 for few positions or short rows: a window of a convolution has few
// bytes, but thousands of numbers would share a scale; and of rows of less than 8 the scales would be a part that counts.
#include "ir/Attributes.h"
#include "passes/weights/NarrowStorage.h"

using namespace mlir;
using namespace quern::ir;

namespace {

StateOp stateOf(RememberOp remember) {
  return SymbolTable::lookupNearestSymbolFrom<StateOp>(remember, remember.getStateAttr());
}

NamedTensorType stored(StateOp state) {
  return cast<NamedTensorType>(state.getType());
}

NamedTensorType without(NamedTensorType type, StringRef name) {
  SmallVector<DimAttr> dims;
  for (DimAttr dim : type.getDims())
    if (dim.getName() != name)
      dims.push_back(dim);
  return type.withDims(dims);
}

/// The dimension of rows whose numbers share a scale: the width of a head, which lies innermost. None where there are too few.
std::optional<StringRef> sharing(NamedTensorType type) {
  static constexpr int64_t leastWidth = 8;
  if (type.getDims().empty() || type.getDims().back().getStatic().value_or(0) < leastWidth)
    return std::nullopt;
  return type.getDims().back().getName();
}

struct Codes {
  Value codes, scales;
};

/// %x in codes, with the operations in front of the builder's place.
Codes codesOf(OpBuilder &b, Location loc, Value x, StringRef width) {
  constexpr double most = 127;
  NamedTensorType type = typeOf(x), row = without(type, width);
  auto real = [&](double number) { return ConstOp::create(b, loc, number).getResult(); };
  Value size = AbsOp::create(b, loc, type, x);
  Value largest = ReduceOp::create(b, loc, row, Reduction::max, size, labelArray(b, {width}));
  Value part = MulOp::create(b, loc, row, largest, real(1 / most));
  Value scale = NarrowOp::create(b, loc, row.withStorage(Storage::BF16), part);
  Value wide = WidenOp::create(b, loc, row, scale);
  Value positive = CompareOp::create(b, loc, row.withKind(Kind::Bool), Predicate::gt, wide, real(0));
  Value inverse = DivOp::create(b, loc, row, real(1), wide);
  inverse = WhereOp::create(b, loc, row, positive, inverse, real(0));
  Value counts = MulOp::create(b, loc, type, x, inverse);
  Value whole = RoundOp::create(b, loc, type.withKind(Kind::Int), counts);
  return {NarrowOp::create(b, loc, type.withStorage(Storage::I8), whole), scale};
}

/// The state of the scales of `state`, which several functions use.
StateOp scalesOf(StateOp state, StringRef width) {
  std::string name = (state.getSymName() + ".scales").str();
  if (auto known = SymbolTable::lookupNearestSymbolFrom<StateOp>(state, StringAttr::get(state.getContext(), name)))
    return known;
  OpBuilder b(state->getBlock(), ++Block::iterator(state));
  NamedTensorType type = without(stored(state), width).withStorage(Storage::BF16);
  return StateOp::create(b, state.getLoc(), b.getStringAttr(name), TypeAttr::get(type), state.getFunctionAttr(),
                         StringAttr());
}

void storeInTwoBytes(RememberOp remember) {
  StateOp state = stateOf(remember);
  NamedTensorType type = remember.getResult().getType();
  state.setType(stored(state).withStorage(Storage::BF16));
  OpBuilder b(remember);
  Location loc = remember.getLoc();
  remember.getXMutable().assign(
      NarrowOp::create(b, loc, remember.getX().getType().withStorage(Storage::BF16), remember.getX()));
  remember.getResult().setType(type.withStorage(Storage::BF16));
  b.setInsertionPointAfter(remember);
  auto wide = WidenOp::create(b, loc, type, remember.getResult());
  remember.getResult().replaceAllUsesExcept(wide, wide);
}

void storeInCodes(RememberOp remember, StringRef width) {
  StateOp state = stateOf(remember), scales = scalesOf(state, width);
  state.setType(stored(state).withStorage(Storage::I8));
  OpBuilder b(remember);
  Location loc = remember.getLoc();
  NamedTensorType result = remember.getResult().getType();
  Codes rows = codesOf(b, loc, remember.getX(), width);
  remember.getXMutable().assign(rows.codes);
  remember.getResult().setType(result.withStorage(Storage::I8));
  b.setInsertionPointAfter(remember);
  auto scale = RememberOp::create(b, loc, without(result, width).withStorage(Storage::BF16), rows.scales,
                                  remember.getFromAttr(), remember.getTo(), FlatSymbolRefAttr::get(scales));
  scale->setDiscardableAttrs(remember->getDiscardableAttrDictionary());
  auto all = RescaleOp::create(b, loc, result, remember.getResult(), scale.getResult());
  remember.getResult().replaceAllUsesExcept(all, all);
}

/// What is made once of a request, and what a step multiplies it with: the products that are made in each step.
SmallVector<OpOperand *> laterProducts(Value value) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    if (isa<ContractOp>(use.getOwner()) && !use.getOwner()->hasAttr(onceAttr))
      uses.push_back(&use);
  return uses;
}

void storeMadeOnce(Value value, Storage storage) {
  SmallVector<OpOperand *> uses = laterProducts(value);
  NamedTensorType type = typeOf(value);
  std::optional<StringRef> width = storage == Storage::Int8 ? sharing(type) : std::nullopt;
  OpBuilder b(value.getContext());
  b.setInsertionPointAfterValue(value);
  Operation *last = &*b.getInsertionPoint(), *first = last->getPrevNode();
  Location loc = value.getLoc();
  Value read;
  Codes codes;
  if (width)
    codes = codesOf(b, loc, value, *width);
  else
    codes.codes = NarrowOp::create(b, loc, type.withStorage(Storage::BF16), value);
  for (Operation *op = first->getNextNode(); op != last; op = op->getNextNode())
    op->setAttr(onceAttr, b.getUnitAttr());
  read = width ? RescaleOp::create(b, loc, type, codes.codes, codes.scales).getResult()
               : WidenOp::create(b, loc, type, codes.codes).getResult();
  for (OpOperand *use : uses)
    use->set(read);
}

} // namespace

void quern::passes::narrowCaches(ModuleOp module, Storage storage) {
  static constexpr int64_t leastPositions = 16;
  SmallVector<RememberOp> caches;
  SmallVector<Value> once;
  module.walk([&](Operation *op) {
    if (auto remember = dyn_cast<RememberOp>(op); remember && remember.getResult().getType().isF32())
      caches.push_back(remember);
    else if (op->hasAttr(onceAttr))
      for (Value result : op->getResults())
        if (typeOf(result).isF32() && typeOf(result).getRank() > 2 && !laterProducts(result).empty())
          once.push_back(result);
  });
  for (RememberOp remember : caches) {
    auto window = remember->getAttrOfType<WindowAttr>(windowAttr);
    std::optional<StringRef> width;
    if (storage == Storage::Int8 && !(window && window.getPositions() < leastPositions))
      width = sharing(stored(stateOf(remember)));
    if (width && remember.getX().getType().has(*width))
      storeInCodes(remember, *width);
    else
      storeInTwoBytes(remember);
  }
  for (Value value : once)
    storeMadeOnce(value, storage);
}
