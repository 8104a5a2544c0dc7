// Takes: a step function whose sizes count from `past`. Gives: the same for rows that began at different times: one
// more input, `shift: int[B]`, says how many of a row's first slots come before its text. Why: a batch of prompts of
// different lengths ends together, so the last row of each is at the same slot, and new rows are written at one place
// for all.
//
//   %i = index : [T] + past      =>   %i = max(index + (past - %shift), 0)               : [B, T]
//   %j = index : [S]             =>   %j = where(index < %shift, never, index - %shift)   : [B, S]
//   %n = size "T + past"         =>   %n = size - %shift                                  : [B]
//
// Every reduction over S was proven to skip positions after index(T). So a slot before a row's text is put at a
// position that no text reaches, and the model's own masks do the rest. Values made from positions gain B; names align.
#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "passes/incremental/Incremental.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// After every position of a text, and far from the largest int32 in sums with other positions.
constexpr int64_t never = int64_t(1) << 24;

class RaggedMaker {
public:
  RaggedMaker(func::FuncOp function, DimAttr time) : function(function), time(time) {
    batch = typeOf(function.getArgument(0)).getDims().front();
  }

  bool run() {
    MLIRContext *context = function.getContext();
    auto type = NamedTensorType::get(context, Kind::Int, {batch});
    unsigned at = function.getNumArguments();
    NamedAttribute name(StringAttr::get(context, nameAttr), StringAttr::get(context, "shift"));
    if (failed(function.insertArgument(at, type, DictionaryAttr::get(context, {name}), function.getLoc())))
      return false;
    shift = function.getArgument(at);
    SmallVector<Operation *> ops;
    function.walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops)
      if (!shiftOne(op))
        return false;
    return spread();
  }

private:
  func::FuncOp function;
  DimAttr time, batch;
  Value shift;

  bool isTwin(DimAttr dim) const { return dim != time && dim.getSize() == time.getSize() + Size::symbol("past"); }
  static Value number(OpBuilder &b, Location loc, int64_t value) { return ConstOp::create(b, loc, value); }
  Value sizeOf(OpBuilder &b, Location loc, const Size &size) { return SizeOp::create(b, loc, size); }

  /// How often `past` counts in a length; nothing if it is no plain sum.
  static std::optional<int64_t> timesPast(const Size &size) {
    int64_t times = 0;
    for (const auto &[monomial, coefficient] : size.getTerms()) {
      if (!llvm::is_contained(monomial, "past"))
        continue;
      if (monomial.size() > 1)
        return std::nullopt;
      times = coefficient;
    }
    return times;
  }

  bool shiftOne(Operation *op) {
    OpBuilder b(op->getContext());
    b.setInsertionPointAfter(op);
    Location loc = op->getLoc();
    if (auto size = dyn_cast<SizeOp>(op)) {
      std::optional<int64_t> times = timesPast(size.getPolynomial());
      if (!times || !*times)
        return times.has_value();
      Value moved = *times == 1 ? shift : MulOp::create(b, loc, shift, number(b, loc, *times)).getResult();
      auto own = SubOp::create(b, loc, size.getResult(), moved);
      bool isStart = size.getPolynomial() == Size::symbol("past");
      size.getResult().replaceAllUsesExcept(own, own);
      if (!isStart)
        return true;
      // Rows before a text compute anything, at a position that exists.
      for (Operation *user : llvm::make_early_inc_range(own->getUsers())) {
        if (!isa<AddOp>(user) || !typeOf(user->getResult(0)).has(time.getName()))
          continue;
        b.setInsertionPointAfter(user);
        auto inside = MaxOp::create(b, loc, user->getResult(0), number(b, loc, 0));
        user->getResult(0).replaceAllUsesExcept(inside, inside);
      }
      return true;
    }
    if (auto index = dyn_cast<IndexOp>(op)) {
      if (!isTwin(index.getDim()))
        return true;
      auto before = CompareOp::create(b, loc, Predicate::lt, index.getResult(), shift);
      auto own = SubOp::create(b, loc, index.getResult(), shift);
      auto at = WhereOp::create(b, loc, before.getResult(), number(b, loc, never), own.getResult());
      index.getResult().replaceUsesWithIf(
          at, [&](OpOperand &use) { return use.getOwner() != before && use.getOwner() != own; });
      return true;
    }
    if (auto gather = dyn_cast<GatherOp>(op)) {
      if (!isTwin(typeOf(gather.getX()).dim(gather.getDim())))
        return true;
      b.setInsertionPoint(op);
      Value slot = AddOp::create(b, loc, gather.getPositions(), shift);
      slot = MaxOp::create(b, loc, slot, number(b, loc, 0));
      // Sizes made here count slots, so they are not shifted.
      Size last = time.getSize() + Size::symbol("past") - Size(1);
      gather.getPositionsMutable().set(MinOp::create(b, loc, slot, sizeOf(b, loc, last)));
      return true;
    }
    if (auto cut = dyn_cast<CutOp>(op)) {
      DimAttr from = typeOf(cut.getX()).dim(cut.getDim());
      if (cut.getInto() != time || !from.getStatic())
        return true;
      // A range of a table: each row has its own.
      b.setInsertionPoint(op);
      Value at = SubOp::create(b, loc, sizeOf(b, loc, cut.getOffsetSize()), shift);
      at = AddOp::create(b, loc, IndexOp::create(b, loc, time).getResult(), at);
      at = MinOp::create(b, loc, MaxOp::create(b, loc, at, number(b, loc, 0)).getResult(),
                         number(b, loc, *from.getStatic() - 1));
      auto rows = GatherOp::create(b, loc, cut.getX(), at, cut.getDim());
      cut.replaceAllUsesWith(rows.getResult());
      cut.erase();
      return true;
    }
    if (auto scan = dyn_cast<ScanOp>(op))
      return scan.getDim() != time || holdStates(scan);
    if (auto sum = dyn_cast<CumsumOp>(op)) {
      DimAttr along = typeOf(sum.getX()).dim(sum.getDim());
      if (along != time)
        return !isTwin(along);
      // Rows before a text add nothing.
      b.setInsertionPoint(op);
      Value before = beforeText(b, loc);
      Value zero = typeOf(sum.getX()).isReal() ? ConstOp::create(b, loc, 0.0).getResult() : number(b, loc, 0);
      sum.getXMutable().set(WhereOp::create(b, loc, before, zero, sum.getX()));
      return true;
    }
    return true;
  }

  /// Which of the new rows come before a text.
  Value beforeText(OpBuilder &b, Location loc) {
    Value slot = AddOp::create(b, loc, IndexOp::create(b, loc, time).getResult(), sizeOf(b, loc, Size::symbol("past")));
    return CompareOp::create(b, loc, Predicate::lt, slot, shift);
  }

  /// Rows before a text leave the states of a scan as they are.
  bool holdStates(ScanOp scan) {
    for (Value init : scan.getInits())
      if (!typeOf(init).has(batch.getName()))
        return false; // one state for all rows
    OpBuilder b(scan);
    Value before = beforeText(b, scan.getLoc());
    scan.getSlicesMutable().append(before);
    unsigned at = scan.getCarriedCount() + scan.getSlices().size() - 1;
    Value here = scan.getBlock().insertArgument(at, sliceOf(typeOf(before), time.getName()), scan.getLoc());
    Operation *yield = scan.getBlock().getTerminator();
    b.setInsertionPoint(yield);
    for (unsigned i = 0; i < scan.getCarriedCount(); ++i) {
      Value next = yield->getOperand(i);
      Value held = WhereOp::create(b, scan.getLoc(), here, scan.getCarried(i), next);
      if (held.getType() != next.getType())
        held = PermuteOp::create(b, scan.getLoc(), next.getType(), held);
      yield->setOperand(i, held);
    }
    return true;
  }

  /// The arguments of a scan's body where what it reads has gained B; false where what it carries has.
  bool spreadInto(ScanOp scan) {
    for (auto [operand, argument] : llvm::zip(scan->getOperands(), scan.getBlock().getArguments())) {
      NamedTensorType type = sliceOf(typeOf(operand), scan.getDim().getName());
      if (argument.getArgNumber() < scan.getCarriedCount() && !type.sameSet(typeOf(argument)))
        return false;
      argument.setType(type);
    }
    return true;
  }
  /// The results of a scan, from what its body yields.
  bool spreadFrom(YieldOp yield, ScanOp scan) {
    for (auto [i, value] : llvm::enumerate(yield.getValues())) {
      NamedTensorType own = typeOf(scan.getResult(i)), made = typeOf(value);
      if (scan.isCarried(i) && !made.sameSet(own))
        return false;
      if (!scan.isCarried(i) && made.getRank() >= own.getRank())
        scan.getResult(i).setType(stackedAlong(made, scan.getDim(), batch.getName()));
    }
    return true;
  }

  /// Result types where operands have gained B. False where something is carried or kept that cannot gain it.
  bool spread() {
    bool fits = true;
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (!fits || isa<func::FuncOp>(op) || op == function.front().getTerminator())
        return;
      if (auto repeat = dyn_cast<RepeatOp>(op)) {
        for (auto [init, argument] : llvm::zip(repeat.getInits(), repeat.getBlock().getArguments()))
          fits &= typeOf(init).sameSet(typeOf(argument));
        return;
      }
      if (auto scan = dyn_cast<ScanOp>(op)) {
        fits &= spreadInto(scan);
        return;
      }
      if (auto scan = dyn_cast_if_present<ScanOp>(op->getParentOp()); scan && isa<YieldOp>(op)) {
        fits &= spreadFrom(cast<YieldOp>(op), scan);
        return;
      }
      if (auto yield = dyn_cast<YieldOp>(op)) {
        for (auto [value, result] : llvm::zip(yield.getValues(), op->getParentOp()->getResults()))
          fits &= typeOf(value).sameSet(typeOf(result));
        return;
      }
      if (llvm::none_of(op->getOperands(), [&](Value x) { return typeOf(x).has(batch.getName()); }))
        return;
      bool gains = llvm::any_of(op->getResults(), [&](Value x) { return !typeOf(x).has(batch.getName()); });
      if (!gains)
        return;
      if (isa<RememberOp>(op) || (isa<CumsumOp>(op) && cast<CumsumOp>(op).getStateAttr())) {
        fits = false; // one memory for all rows
        return;
      }
      if (isa<ExpandOp, PermuteOp>(op)) {
        SmallVector<DimAttr> dims = {batch};
        llvm::append_range(dims, typeOf(op->getResult(0)).getDims());
        op->getResult(0).setType(typeOf(op->getResult(0)).withDims(dims));
        return;
      }
      auto infer = dyn_cast<InferTypeOpInterface>(op);
      SmallVector<Type> types;
      if (!infer || failed(infer.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(),
                                                  op->getDiscardableAttrDictionary(), op->getPropertiesStorage(),
                                                  op->getRegions(), types))) {
        fits = false;
        return;
      }
      for (auto [result, type] : llvm::zip(op->getResults(), types))
        result.setType(type);
    });
    return fits;
  }
};

} // namespace

bool quern::passes::makeRagged(func::FuncOp function, DimAttr time) {
  return RaggedMaker(function, time).run();
}
