// Takes: a causal function over the full text, renames sunk, with its time analysis. Gives: its step form. Every
// `rename u, T -> S` becomes what is known about u at all positions so far: u's cache (`quern.remember`), or, for what is
// made from positions alone, the same thing recomputed over S. Running sums along T continue from a state.
//
//   %k = quern.rename %u ["T"] to [S]          =>  %k = quern.remember %u "T" to <S = "past + T"> in @forward.state0
//   %i = quern.index : [T]                     =>  %i = index + past
//   %n = quern.size "T"                        =>  %n = quern.size "past + T"
//
// With past = 0 this is the function itself, so one form serves full evaluation, prefill and single steps.
#include "ir/Scan.h"
#include "ir/analysis/Window.h"
#include "passes/incremental/IncrementalWindows.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

class Stepper {
public:
  Stepper(func::FuncOp function, const TimeAnalysis &analysis, MemoryPlan &plan, StateTable &states)
      : function(function), analysis(analysis), states(states), plan(plan) {
    time = timeDimension(function);
    batch = typeOf(function.getArgument(0)).getDims().front();
  }

  void run() {
    SmallVector<RenameOp> renames;
    function.walk([&](RenameOp op) {
      bool alongT = llvm::is_contained(names(op.getFrom()), time.getName()) ||
                    llvm::any_of(op.getTo().getAsRange<DimAttr>(), [&](DimAttr to) { return to == time; });
      if (alongT)
        renames.push_back(op);
    });
    // All from the values as they were analysed, then all at once.
    SmallVector<Value> by;
    for (RenameOp op : renames)
      by.push_back(replacement(op));
    for (auto [op, value] : llvm::zip(renames, by))
      op.replaceAllUsesWith(value);
    eraseDead(function);
    function.walk([&](CumsumOp op) {
      if (op.getDim() == time.getName())
        op.setStateAttr(states.get(stateType(op.getResult(), /*cache=*/false), op.getLoc()));
    });
    function.walk([&](ScanOp op) { // what is carried is all that is kept, whatever the length
      if (op.getDim() != time)
        return;
      SmallVector<Attribute> kept;
      for (unsigned i = 0; i < op.getCarriedCount(); ++i) {
        // What vectors run along is contiguous: a step reads and writes nothing but the state.
        NamedTensorType type = stateType(op.getResult(i), /*cache=*/false);
        SmallVector<DimAttr> dims(type.getDims());
        if (auto *lane = llvm::find(dims, laneOf(op, i, batch)); lane != dims.end())
          std::rotate(lane, lane + 1, dims.end());
        kept.push_back(states.get(type.withDims(dims), op.getLoc()));
      }
      op.setStatesAttr(ArrayAttr::get(op.getContext(), kept));
    });
  }

private:
  func::FuncOp function;
  const TimeAnalysis &analysis;
  StateTable &states;
  MemoryPlan &plan;
  DimAttr time, batch;
  llvm::DenseMap<Value, Value> caches; // stored value -> its remember
  std::map<std::pair<void *, std::vector<std::pair<Label, void *>>>, Value> memories;
  std::optional<int64_t> window; // of the rename that is being replaced
  unsigned fresh = 0;

  Value replacement(RenameOp op) {
    window = windowFor(op);
    Relabelling all, alongTime, others;
    for (auto [from, to] : llvm::zip(names(op.getFrom()), op.getTo().getAsRange<DimAttr>())) {
      all[from.str()] = to;
      (analysis.isTime(to) ? alongTime : others)[from.str()] = to;
    }
    Value x = op.getX();
    if (plan.isMadeFromPositions(x))
      return memory(x, all);
    OpBuilder builder(op);
    auto &[from, twin] = *alongTime.begin();
    if (from == time.getName())
      return renamed(builder, op.getLoc(), memory(x, alongTime), others);
    // A twin's rows at the new positions: the last ones.
    Value rest = renamed(builder, op.getLoc(), x, others);
    return CutOp::create(builder, op.getLoc(), relabelled(typeOf(rest), alongTime), rest,
                         LabelAttr::get(builder.getContext(), from), builder.getStringAttr("0"), time);
  }

  /// `value` with T standing for all positions so far (and other labels replaced): kept, or recomputed.
  Value memory(Value value, const Relabelling &table) {
    bool affected =
        llvm::any_of(typeOf(value).getDims(), [&](DimAttr dim) { return table.count(dim.getName().str()); });
    if (!affected)
      return value;
    std::vector<std::pair<Label, void *>> key;
    for (auto &[label, dim] : table)
      key.emplace_back(label, const_cast<void *>(dim.getAsOpaquePointer()));
    Value &known = memories[{value.getAsOpaquePointer(), key}];
    if (known)
      return known;
    OpBuilder builder(value.getContext());
    bool alongTime = llvm::any_of(analysis.times(value), [&](const Label &label) { return table.count(label); });
    if (!alongTime || plan.isStored(value)) {
      Relabelling rest = table;
      rest.erase(time.getName().str());
      Value whole = alongTime ? recalled(value, table.at(time.getName().str())) : value;
      builder.setInsertionPointAfterValue(whole);
      return known = renamed(builder, value.getLoc(), whole, alongTime ? rest : table);
    }

    Operation *op = value.getDefiningOp();
    if (auto rename = dyn_cast<RenameOp>(op)) { // both renames at once
      Relabelling both;
      for (auto &[from, to] : table)
        if (typeOf(value).has(from) && typeOf(rename.getX()).has(from) &&
            !llvm::is_contained(names(rename.getFrom()), from))
          both[from] = to;
      for (auto [from, to] : llvm::zip(names(rename.getFrom()), rename.getTo().getAsRange<DimAttr>())) {
        auto at = table.find(to.getName().str());
        both[from.str()] = at == table.end() ? to : at->second;
      }
      Value result = memory(rename.getX(), both);
      return memories[{value.getAsOpaquePointer(), key}] = result;
    }
    // A label that the operation reduces, and that the result's new labels would capture, gets out of the way.
    Relabelling inner = table;
    for (Value x : op->getOperands())
      for (DimAttr dim : typeOf(x).getDims()) {
        bool captured = llvm::any_of(table, [&](auto &entry) { return entry.second.getName() == dim.getName(); });
        if (captured && !table.count(dim.getName().str()) && !typeOf(value).has(dim.getName()))
          inner.try_emplace(
              dim.getName().str(),
              DimAttr::get(dim.getContext(), (dim.getName() + ".m" + Twine(++fresh)).str(), dim.getSize()));
      }
    SmallVector<Value> operands;
    for (Value x : op->getOperands())
      operands.push_back(memory(x, inner));
    builder.setInsertionPointAfter(op);
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    relabel(copy, inner);
    return memories[{value.getAsOpaquePointer(), key}] = copy->getResult(cast<OpResult>(value).getResultNumber());
  }

  /// All rows so far of a stored value, along `twin`.
  Value recalled(Value value, DimAttr twin) {
    OpBuilder builder(value.getContext());
    Value &cache = caches[value];
    if (cache) {
      builder.setInsertionPointAfterValue(cache);
      DimAttr own = cast<RememberOp>(cache.getDefiningOp()).getTo();
      return own == twin ? cache : renamed(builder, value.getLoc(), cache, {{own.getName().str(), twin}});
    }
    builder.setInsertionPointAfterValue(value);
    cache = RememberOp::create(builder, value.getLoc(), relabelled(typeOf(value), {{time.getName().str(), twin}}),
                               value, LabelAttr::get(builder.getContext(), time.getName()), twin,
                               states.get(stateType(value, /*cache=*/true), value.getLoc()));
    noteWindow(cast<RememberOp>(cache.getDefiningOp()), window);
    return cache;
  }

  /// [iterations, B, cap, rest ...]: heads of one position are together, positions of one row follow each other.
  NamedTensorType stateType(Value value, bool cache) {
    NamedTensorType type = typeOf(value);
    MLIRContext *context = value.getContext();
    SmallVector<DimAttr> dims;
    Operation *place = value.getDefiningOp() ? value.getDefiningOp() : &value.getParentBlock()->front();
    if (int64_t iterations = iterationsAround(place))
      dims.push_back(DimAttr::get(context, "iteration", Size(iterations)));
    if (type.has(batch.getName()))
      dims.push_back(batch);
    if (cache)
      dims.push_back(DimAttr::get(context, "cap", window ? ringCapacity(*window) : Size::symbol("cap")));
    for (DimAttr dim : type.getDims())
      if (dim != time && dim != batch)
        dims.push_back(dim);
    return type.withDims(dims);
  }
};

} // namespace

void quern::passes::makeStep(func::FuncOp function, const TimeAnalysis &analysis, MemoryPlan &plan,
                             StateTable &states) {
  Stepper(function, analysis, plan, states).run();
}

void quern::passes::countFromPast(func::FuncOp function, DimAttr time) {
  std::string symbol = time.getSizeText();
  Size past = Size::symbol("past");
  std::map<std::string, Size> whole = {{symbol, past + Size::symbol(symbol)}};
  mlir::AttrTypeReplacer replacer;
  replacer.addReplacement([&](DimAttr dim) -> std::optional<std::pair<Attribute, WalkResult>> {
    if (dim == time)
      return std::pair<Attribute, WalkResult>(dim, WalkResult::skip());
    auto longer = DimAttr::get(dim.getContext(), dim.getName(), dim.getSize().substitute(whole));
    return std::pair<Attribute, WalkResult>(longer, WalkResult::skip());
  });
  function.walk([&](Operation *op) {
    if (auto size = dyn_cast<SizeOp>(op)) {
      size.setSize(size.getPolynomial().substitute(whole).str());
    } else if (auto cut = dyn_cast<CutOp>(op); cut && cut.getDim() != time.getName()) {
      Size offset = cut.getOffsetSize().substitute(whole);
      cut.setOffset((cut.getInto() == time ? offset + past : offset).str());
    }
    replacer.replaceElementsIn(op, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
  });
  function.walk([&](IndexOp index) {
    if (index.getDim() != time)
      return;
    OpBuilder builder(index.getContext());
    builder.setInsertionPointAfter(index);
    auto start = SizeOp::create(builder, index.getLoc(), past);
    auto position = AddOp::create(builder, index.getLoc(), index.getResult(), start.getResult());
    index.getResult().replaceAllUsesExcept(position, position);
  });
}

FlatSymbolRefAttr StateTable::get(NamedTensorType type, Location location) {
  std::vector<FlatSymbolRefAttr> &known = states[type];
  size_t &at = next[type.getAsOpaquePointer()];
  if (at == known.size()) {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    if (!known.empty() || count)
      for (Operation &op : *module.getBody()) // after the states that exist
        if (isa<StateOp>(op))
          builder.setInsertionPointAfter(&op);
    auto name = builder.getStringAttr(function + ".state" + std::to_string(count++));
    auto state =
        StateOp::create(builder, location, name, TypeAttr::get(type), builder.getStringAttr(function), StringAttr());
    known.push_back(FlatSymbolRefAttr::get(state.getSymNameAttr()));
  }
  return known[at++];
}
