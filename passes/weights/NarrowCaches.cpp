// Takes: a module that generates. Gives: the same with its caches in bf16, or in int8 with a scale for each row.
//
//   before: %all = remember %x T to S in @cache : real        %s = contract %q, %all
//   bf16:   %n = remember (narrow %x) T to S in @cache : bf16        %all = widen %n
//   int8:   %scale = narrow (max |%x| / 127), over the last dimension of the cache : bf16
//           %c = remember (narrow (round (%x / %scale))) T to S in @cache : i8
//           %d = remember %scale T to S in @cache.scales : bf16        %all = rescale %c by %d
//
// New rows are rounded as they are written, by the kernel that makes them; whoever reads, the same call included, reads the
// rounded numbers, so a text is the same whether it was read at once or in pieces. What a call makes once of a request and each
// step multiplies (keys and values of another text or an image) is stored so, too.
//
// What stays f32: states that sum up or carry a scan, whose rounding would add up over positions; windows of convolutions, which
// have few bytes; and what no product reads (a sum of gates for each head), whose numbers may be large where their differences
// count.
//
// Why scales are a cache of their own: rings, batches of texts of different lengths and devices then know them already.
// Why bf16: 2 bytes for a head instead of 4, and codes are counted in the very scale that is stored, so nothing is lost but a
// part in 256 of the largest number's room.
#include "ir/Attributes.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Operations.h"
#include "passes/weights/NarrowStorage.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

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

/// The dimension of rows: the width of a head, which is innermost. Null where there are none.
DimAttr widthOf(NamedTensorType type) {
  return !type.getDims().empty() && type.getDims().back().getStatic() ? type.getDims().back() : DimAttr();
}

/// Whether rows become codes: of fewer numbers a scale would be a part that counts.
bool isCoded(DimAttr width, Storage storage) {
  static constexpr int64_t leastWidth = 8;
  return storage == Storage::Int8 && *width.getStatic() >= leastWidth;
}

struct Codes {
  Value codes, scales; ///< without scales: numbers of two bytes
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
  constexpr double least = 1e-30; // rows of smaller numbers are zeros: the inverse must be a number
  Value counts = CompareOp::create(b, loc, row.withKind(Kind::Bool), Predicate::gt, wide, real(least));
  Value inverse = DivOp::create(b, loc, row, real(1), wide);
  inverse = WhereOp::create(b, loc, row, counts, inverse, real(0));
  Value whole = RoundOp::create(b, loc, type.withKind(Kind::Int), MulOp::create(b, loc, type, x, inverse));
  return {NarrowOp::create(b, loc, type.withStorage(Storage::I8), whole), scale};
}

/// A state beside `state`, for all functions that ask for it.
StateOp beside(StateOp state, StringRef suffix, NamedTensorType type) {
  auto name = StringAttr::get(state.getContext(), state.getSymName() + suffix);
  if (auto known = SymbolTable::lookupNearestSymbolFrom<StateOp>(state, name))
    return known;
  OpBuilder b(state->getBlock(), ++Block::iterator(state));
  return StateOp::create(b, state.getLoc(), name, TypeAttr::get(type), state.getFunctionAttr(), StringAttr());
}

/// In f32, in a state that steps don't know.
void keepApart(RememberOp remember) {
  StateOp state = stateOf(remember);
  remember.setStateAttr(FlatSymbolRefAttr::get(beside(state, ".whole", stored(state))));
}

/// As it is kept: in codes with a scale for each row of `width`, or in two bytes without.
Codes keptAs(Storage storage, OpBuilder &b, Location loc, Value x, DimAttr width) {
  if (isCoded(width, storage))
    return codesOf(b, loc, x, width.getName());
  return {NarrowOp::create(b, loc, typeOf(x).withStorage(Storage::BF16), x), Value()};
}

/// The numbers that what is kept stands for.
Value numbersOf(OpBuilder &b, Location loc, NamedTensorType type, Codes kept) {
  return kept.scales ? RescaleOp::create(b, loc, type, kept.codes, kept.scales).getResult()
                     : WidenOp::create(b, loc, type, kept.codes).getResult();
}

void store(RememberOp remember, Storage storage) {
  StateOp state = stateOf(remember);
  OpBuilder b(remember);
  Location loc = remember.getLoc();
  NamedTensorType result = remember.getResult().getType(), of = stored(state);
  DimAttr width = widthOf(of);
  Codes rows = keptAs(storage, b, loc, remember.getX(), width);
  Storage form = typeOf(rows.codes).getStorage();
  state.setType(of.withStorage(form));
  remember.getXMutable().assign(rows.codes);
  remember.getResult().setType(result.withStorage(form));
  b.setInsertionPointAfter(remember);
  Codes all{remember.getResult(), Value()};
  if (rows.scales) {
    StateOp scales = beside(state, ".scales", without(of, width.getName()).withStorage(Storage::BF16));
    auto scale = RememberOp::create(b, loc, without(result, width.getName()).withStorage(Storage::BF16), rows.scales,
                                    remember.getFromAttr(), remember.getTo(), FlatSymbolRefAttr::get(scales));
    scale->setDiscardableAttrs(remember->getDiscardableAttrDictionary());
    all.scales = scale.getResult();
  }
  Value numbers = numbersOf(b, loc, result, all);
  remember.getResult().replaceAllUsesExcept(numbers, numbers.getDefiningOp());
}

/// Whether a product reads it, after operations element by element and moves. One form of a function may join it to other keys
/// first, another absorb what was between.
bool reachesProduct(Value value) {
  SmallVector<Value> work = {value};
  DenseSet<Value> seen = {value};
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (isa<ContractOp>(user))
        return true;
      if (isElementwise(user) || isViewLike(user) || isa<ExpandOp, PermuteOp, ConcatOp, GatherOp>(user))
        if (Value result = user->getResult(0); seen.insert(result).second)
          work.push_back(result);
    }
  return false;
}

bool isCache(RememberOp remember) {
  static constexpr int64_t leastPositions = 16;
  auto window = remember->getAttrOfType<WindowAttr>(windowAttr);
  return remember.getResult().getType().isF32() && !(window && window.getPositions() < leastPositions) &&
         widthOf(stored(stateOf(remember))) && reachesProduct(remember.getResult());
}

/// All functions see one state in one storage.
DenseSet<Operation *> cachesIn(ModuleOp module) {
  DenseSet<Operation *> states;
  module.walk([&](RememberOp remember) {
    if (isCache(remember))
      states.insert(stateOf(remember));
  });
  return states;
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
  OpBuilder b(value.getContext());
  b.setInsertionPointAfterValue(value);
  Operation *last = &*b.getInsertionPoint(), *first = last->getPrevNode();
  Location loc = value.getLoc();
  Codes made = keptAs(storage, b, loc, value, widthOf(type));
  for (Operation *op = first->getNextNode(); op != last; op = op->getNextNode())
    op->setAttr(onceAttr, b.getUnitAttr());
  Value read = numbersOf(b, loc, type, made);
  for (OpOperand *use : uses)
    use->set(read);
}

} // namespace

void quern::passes::narrowCaches(ModuleOp module, Storage storage, bool ofSteps) {
  const DenseSet<Operation *> states = cachesIn(module);
  SmallVector<RememberOp> caches;
  SmallVector<Value> once;
  for (auto function : module.getOps<func::FuncOp>()) {
    const bool exact = ofSteps && !roleOf(function);
    function.walk([&](Operation *op) {
      if (auto remember = dyn_cast<RememberOp>(op); remember && states.contains(stateOf(remember))) {
        if (exact)
          keepApart(remember);
        else
          caches.push_back(remember);
      } else if (op->hasAttr(onceAttr) && !exact) {
        for (Value result : op->getResults())
          if (NamedTensorType type = typeOf(result);
              type.isF32() && type.getRank() > 2 && widthOf(type) && !laterProducts(result).empty())
            once.push_back(result);
      }
    });
  }
  for (RememberOp remember : caches)
    store(remember, storage);
  for (Value value : once)
    storeMadeOnce(value, storage);
}
