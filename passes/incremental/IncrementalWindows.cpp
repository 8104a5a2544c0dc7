// Takes: a causal function with its time analysis, and what it keeps. Gives: how many positions of each remembered
// value are ever looked at, and step forms that keep just these, in rings.
//
// A mask `index(T) - 4 < index(S) <= index(T)` implies that nothing further back than 3 positions has weight. So every
// value over S that only meets such masks needs a window of 4: backwards from reductions and gathers (`findWindows`),
// the largest need of all values over S that meet in one operation.
//
//   %k = quern.remember %u "T" to <S = "past + T">      =>  %k = quern.remember %u "T" to <S.4 = "T + filled(4)">
//   %i = quern.index : [S]                                  %i = the position that is in slot index : [S.4]
//
// Slots before filled(4), which is min(past, 4), are the ring: position p is in slot p mod 4. After them come the new rows, in
// their order. Reductions do not mind the order of slots; positions and gathers come from `positionsOf`, `slotOf`.
#include "passes/incremental/IncrementalWindows.h"

#include "ir/Attributes.h"
#include "ir/analysis/Window.h"
#include "passes/time/TimeTransfer.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

constexpr int64_t everything = std::numeric_limits<int64_t>::max();

/// Values over a twin, by what they need of the past.
class WindowFinder {
public:
  WindowFinder(func::FuncOp function, const TimeAnalysis &analysis, MemoryPlan &plan) : analysis(analysis), plan(plan) {
    function.walk([&](Operation *op) { visit(op); });
    function.walk([&](RenameOp op) { joinSharers(op); });
    function.walk([&](RenameOp op) {
      for (DimAttr to : op.getTo().getAsRange<DimAttr>())
        if (analysis.isTwin(to) && isData(op.getResult()))
          if (int64_t window = windowOf(node(op.getResult(), to.getName())); window && window != everything)
            op->setAttr(windowAttr, WindowAttr::get(op.getContext(), window));
    });
  }

private:
  const TimeAnalysis &analysis;
  MemoryPlan &plan;
  std::map<std::pair<void *, Label>, int> nodes;
  llvm::EquivalenceClasses<int> classes;
  std::map<int, int64_t> needs;  // by node
  std::map<void *, int> keepers; // a stored value -> a node that reads it

  bool isData(Value value) const { return analysis.facts(value).data; }

  int node(Value value, StringRef label) {
    auto [at, isNew] = nodes.try_emplace({value.getAsOpaquePointer(), label.str()}, nodes.size());
    if (isNew)
      classes.insert(at->second);
    return at->second;
  }
  void join(int a, int b) { classes.unionSets(a, b); }
  void need(int node, int64_t window) {
    int64_t &known = needs[node];
    known = std::max(known, std::max<int64_t>(window, 1));
  }
  int64_t windowOf(int node) {
    int64_t window = 0;
    for (auto [other, needed] : needs)
      if (classes.isEquivalent(other, node))
        window = std::max(window, needed);
    return window;
  }

  /// What `T - a <= c` leaves of the past.
  int64_t seen(const Bounds &unless, StringRef label) {
    if (unless.isNever())
      return 1;
    std::optional<int64_t> c = unless.get(analysis.time(), label.str());
    return c ? *c + 1 : everything;
  }

  int64_t neededBy(Operation *op, StringRef label) {
    return TypeSwitch<Operation *, int64_t>(op)
        .Case([&](ReduceOp reduce) {
          const Facts &x = analysis.facts(reduce.getX());
          switch (reduce.getReduction()) {
          case Reduction::any:
            return seen(x.whenTrue, label);
          case Reduction::all:
            return seen(x.whenFalse, label);
          case Reduction::max:
            return seen(absentOf(x, -infinity), label);
          case Reduction::min:
            return seen(absentOf(x, infinity), label);
          case Reduction::sum:
            return seen(absentOf(x, 0), label);
          default: // a mean divides by the whole length
            return everything;
          }
        })
        .Case([&](ContractOp contract) {
          auto product = productAbsent(analysis.facts(contract.getA()), analysis.facts(contract.getB()));
          auto zero = product.find(0);
          return zero == product.end() ? everything : seen(zero->second, label);
        })
        .Case([&](SoftmaxOp softmax) { return seen(absentOf(analysis.facts(softmax.getX()), -infinity), label); })
        .Case([&](GatherOp gather) {
          const auto &low = analysis.facts(gather.getPositions()).low;
          auto at = low.find(analysis.time());
          return at == low.end() ? everything : 1 - at->second;
        })
        .Case([&](RenameOp rename) { // to T itself: the new rows
          for (auto [from, to] : llvm::zip(names(rename.getFrom()), rename.getTo().getAsRange<DimAttr>()))
            if (from == label && to.getName() == analysis.time())
              return int64_t(1);
          return everything;
        })
        .Default(everything);
  }

  void visit(Operation *op) {
    bool carries = isa<RepeatOp, YieldOp, func::ReturnOp>(op);
    std::map<Label, int> met; // of this operation
    auto meet = [&](Value value) {
      if (!isa<NamedTensorType>(value.getType()) || !isData(value))
        return;
      for (const Label &label : analysis.twins(value)) {
        int own = node(value, label);
        auto [at, isNew] = met.try_emplace(label, own);
        if (!isNew)
          join(at->second, own);
        if (carries || isOdd(value))
          need(own, everything);
      }
    };
    for (Value x : op->getOperands())
      meet(x);
    if (auto timed = dyn_cast<TimeOpInterface>(op))
      for (StringRef touched : timed.getTouchedDims())
        if (auto at = met.find(touched.str()); at != met.end())
          need(at->second, neededBy(op, touched));
    // A rename's new labels are its own values'.
    if (!isa<RenameOp>(op))
      for (Value result : op->getResults()) {
        meet(result);
        for (const Label &label : analysis.twins(result)) { // cut out of something that is no twin
          bool has = llvm::any_of(op->getOperands(), [&](Value x) { return typeOf(x).has(label); });
          if (!has && !isa<ExpandOp>(op) && isData(result))
            need(node(result, label), everything);
        }
      }
    if (auto repeat = dyn_cast<RepeatOp>(op))
      for (Value argument : repeat.getBlock().getArguments())
        meet(argument);
    if (auto rename = dyn_cast<RenameOp>(op))
      for (const Label &label : analysis.twins(rename.getResult()))
        if (auto at = met.find(label); at != met.end() && isData(rename.getResult()))
          join(at->second, node(rename.getResult(), label));
  }

  /// Along a dimension made from T (scores and a sink) slots would have to move.
  bool isOdd(Value value) const {
    return llvm::any_of(typeOf(value).getDims(), [&](DimAttr dim) {
      return !analysis.isTime(dim) && dim.getSize().mentions(analysis.symbol());
    });
  }

  /// Renames that read one cache have one window.
  void joinSharers(RenameOp op) {
    for (DimAttr to : op.getTo().getAsRange<DimAttr>())
      if (analysis.isTwin(to) && isData(op.getResult()))
        join(op.getX(), node(op.getResult(), to.getName()));
  }
  void join(Value made, int reader) {
    if (plan.isStored(made)) {
      auto [at, isNew] = keepers.try_emplace(made.getAsOpaquePointer(), reader);
      if (!isNew)
        join(at->second, reader);
      return;
    }
    if (Operation *op = made.getDefiningOp(); op && !plan.isMadeFromPositions(made))
      for (Value x : op->getOperands())
        if (typeOf(x).has(analysis.time()))
          join(x, reader);
  }
};

/// Rewrites what is over S to what is over slots of a ring.
class RingMaker {
public:
  RingMaker(func::FuncOp function, DimAttr time) : function(function), time(time) {}

  void run() {
    SmallVector<Operation *> order;
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { order.push_back(op); });
    for (Operation *op : order)
      visit(op);
    eraseDead(function);
  }

private:
  func::FuncOp function;
  DimAttr time;
  llvm::DenseMap<Value, Relabelling> rings; // what a value's labels have become
  std::map<std::pair<void *, void *>, Value> textFree;

  DimAttr slotsOf(DimAttr twin, int64_t window) {
    return DimAttr::get(twin.getContext(), (twin.getName() + "." + Twine(window)).str(),
                        time.getSize() + filledSlots(window));
  }

  void visit(Operation *op) {
    if (auto remember = dyn_cast<RememberOp>(op)) {
      auto window = remember->getAttrOfType<WindowAttr>(windowAttr);
      if (!window)
        return;
      remember->removeAttr(windowAttr);
      DimAttr twin = remember.getTo();
      DimAttr slots = slotsOf(twin, window.getPositions());
      Relabelling table = {{twin.getName().str(), slots}};
      remember.setToAttr(slots);
      remember.getResult().setType(relabelled(typeOf(remember.getResult()), table));
      rings[remember.getResult()] = table;
      return;
    }
    Relabelling table;
    for (Value x : op->getOperands())
      if (auto known = rings.find(x); known != rings.end())
        table.insert(known->second.begin(), known->second.end());
    if (table.empty())
      return;
    for (OpOperand &x : op->getOpOperands())
      if (!rings.count(x.get()))
        x.set(remade(x.get(), table));
    if (auto gather = dyn_cast<GatherOp>(op))
      if (auto ring = table.find(gather.getDim().str()); ring != table.end())
        gather.getPositionsMutable().set(slotOf(gather, ring->second));
    if (auto cut = dyn_cast<CutOp>(op))
      if (auto ring = table.find(cut.getDim().str()); ring != table.end() && cut.getInto() == time)
        cut.setOffset(
            (cut.getOffsetSize() - Size::symbol("past") + filledSlots(*windowOf(ring->second.getSize()))).str());
    if (auto rename = dyn_cast<RenameOp>(op)) // a cache read along another twin
      for (auto [from, to] : llvm::zip(names(rename.getFrom()), rename.getTo().getAsRange<DimAttr>()))
        if (auto ring = table.find(from.str()); ring != table.end())
          table[to.getName().str()] = slotsOf(to, *windowOf(ring->second.getSize()));
    relabel(op, table);
    for (Value result : op->getResults())
      for (auto &[label, ring] : table)
        if (typeOf(result).has(ring.getName()))
          rings[result][label] = ring;
  }

  /// A text-free value over slots: the same of the positions that are there.
  Value remade(Value value, const Relabelling &table) {
    for (auto &[label, ring] : table)
      if (typeOf(value).has(label))
        value = remade(value, label, ring);
    return value;
  }
  Value remade(Value value, const Label &label, DimAttr ring) {
    if (!typeOf(value).has(label))
      return value;
    Value &known = textFree[{value.getAsOpaquePointer(), const_cast<void *>(ring.getAsOpaquePointer())}];
    if (known)
      return known;
    Operation *op = value.getDefiningOp();
    assert(op && !isa<RepeatOp>(op) && "what a loop carries over a twin keeps everything");
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    if (isa<IndexOp>(op)) {
      Value made = positionsOf(builder, op->getLoc(), ring);
      return textFree[{value.getAsOpaquePointer(), const_cast<void *>(ring.getAsOpaquePointer())}] = made;
    }
    SmallVector<Value> operands;
    for (Value x : op->getOperands())
      operands.push_back(remade(x, label, ring));
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    relabel(copy, {{label, ring}});
    Value made = copy->getResult(cast<OpResult>(value).getResultNumber());
    return textFree[{value.getAsOpaquePointer(), const_cast<void *>(ring.getAsOpaquePointer())}] = made;
  }

  /// where(slot < filled, last - (last - slot) mod W, past + slot - filled)
  static Value positionsOf(OpBuilder &builder, Location loc, DimAttr ring) {
    int64_t window = *windowOf(ring.getSize());
    Size past = Size::symbol("past"), filled = filledSlots(window);
    Value slot = IndexOp::create(builder, loc, ring);
    auto size = [&](const Size &value) -> Value { return SizeOp::create(builder, loc, value); };
    Value last = size(past - Size(1)), w = ConstOp::create(builder, loc, window);
    Value age = ModOp::create(builder, loc, SubOp::create(builder, loc, last, slot).getResult(), w);
    Value old = SubOp::create(builder, loc, last, age);
    Value fresh = AddOp::create(builder, loc, slot, size(past - filled));
    Value isOld = CompareOp::create(builder, loc, Predicate::lt, slot, size(filled));
    return WhereOp::create(builder, loc, isOld, old, fresh);
  }

  /// where(position < past, position mod W, position - past + filled)
  static Value slotOf(GatherOp gather, DimAttr ring) {
    OpBuilder builder(gather);
    Location loc = gather.getLoc();
    int64_t window = *windowOf(ring.getSize());
    Size past = Size::symbol("past"), filled = filledSlots(window);
    Value position = gather.getPositions(), w = ConstOp::create(builder, loc, window);
    Value isOld =
        CompareOp::create(builder, loc, Predicate::lt, position, SizeOp::create(builder, loc, past).getResult());
    Value old = ModOp::create(builder, loc, position, w);
    Value fresh = SubOp::create(builder, loc, position, SizeOp::create(builder, loc, past - filled).getResult());
    return WhereOp::create(builder, loc, isOld, old, fresh);
  }
};

} // namespace

void quern::passes::findWindows(func::FuncOp function, const TimeAnalysis &analysis, MemoryPlan &plan) {
  WindowFinder(function, analysis, plan);
}

std::optional<int64_t> quern::passes::windowFor(RenameOp rename) {
  auto window = rename->getAttrOfType<WindowAttr>(windowAttr);
  return window ? std::optional(window.getPositions()) : std::nullopt;
}

void quern::passes::noteWindow(RememberOp remember, std::optional<int64_t> window) {
  if (window)
    remember->setAttr(windowAttr, WindowAttr::get(remember.getContext(), *window));
}

void quern::passes::makeRings(func::FuncOp function, DimAttr time) {
  RingMaker(function, time).run();
}
