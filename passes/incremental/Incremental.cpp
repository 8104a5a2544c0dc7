// Takes: a module whose `forward` (or `decode`) is defined over the whole text T. Gives, where the time analysis proves
// that rows of the past never change:
//
//   @forward        the same function over T new rows after `past` old ones (past = 0: full evaluation)
//   @forward.last   for generation: optional inputs at their defaults, the result for the last new row only (of several
//                   results `logits`)
//   @forward.step   the same for few rows, where another form reads less: latents instead of keys and values made of them
//                   (AbsorbProjections.cpp)
//   @forward.ragged the same for rows that began at different times (IncrementalRagged.cpp); @forward.ragged.step for few
//   @forward.epoch  if what is remembered depends on T through comparisons: these; when an answer changes, past is redone
//   quern.state     one for each cache and running sum, shared by all variants
//
// and attributes on the functions: `quern.limits` (longest text), `quern.recompute` (nothing can be kept). A function
// that looks ahead stays as it is and gets `quern.refusal`, the reason with its place in the spec.
#include "ir/Attributes.h"
#include "passes/incremental/IncrementalWindows.h"

#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "ir/analysis/Functions.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "passes/Passes.h"
#include "passes/raise/InlineDefaults.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// What the remembered values know of T as a number.
struct NumberUse {
  bool raw = false;
  llvm::SetVector<Operation *> comparisons;
};

NumberUse numbersOf(func::FuncOp function, const TimeAnalysis &analysis, const MemoryPlan &plan) {
  NumberUse use;
  auto add = [&](Value value) {
    const Facts &facts = analysis.facts(value);
    use.raw |= facts.raw;
    function.walk([&](Operation *op) { // in the function's order
      if (facts.comparisons.count(op))
        use.comparisons.insert(op);
    });
  };
  for (Value value : plan.values())
    add(value);
  function.walk([&](CumsumOp op) {
    if (op.getDim() == analysis.time())
      add(op);
  });
  function.walk([&](ScanOp op) {
    if (op.getDim().getName() == analysis.time())
      add(op.getResult(0));
  });
  return use;
}

/// `@f.epoch`: the comparisons, made from lengths alone. False if one of them needs more.
bool makeEpoch(func::FuncOp function, StringRef base, ArrayRef<Operation *> comparisons, DimAttr time) {
  OpBuilder builder(function);
  auto epoch =
      func::FuncOp::create(builder, function.getLoc(), (base + ".epoch").str(), builder.getFunctionType({}, {}));
  setRole(epoch, Role::Epoch, base);
  Block *block = epoch.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  IRMapping mapping;
  auto copy = [&](Operation *op, auto &&self) -> bool {
    if (op->getNumRegions() || isa<ParamOp>(op))
      return false;
    for (Value x : op->getOperands()) {
      if (mapping.contains(x))
        continue;
      if (!x.getDefiningOp() || !self(x.getDefiningOp(), self))
        return false;
    }
    builder.clone(*op, mapping);
    return true;
  };
  SmallVector<Value> results;
  for (Operation *op : comparisons) {
    if (typeOf(op->getResult(0)).getRank() || (!mapping.contains(op->getResult(0)) && !copy(op, copy))) {
      epoch.erase();
      return false;
    }
    results.push_back(mapping.lookup(op->getResult(0)));
  }
  func::ReturnOp::create(builder, function.getLoc(), results);
  epoch.setType(builder.getFunctionType({}, TypeRange(ValueRange(results))));
  countFromPast(epoch, time);
  return true;
}

/// Of several results a step needs the one that scores text; the others may look ahead. All stay where none does.
void keepScored(func::FuncOp function) {
  const int scored = scoredResult(function);
  for (int i = int(function.getNumResults()) - 1; scored >= 0 && i >= 0; --i)
    if (i != scored) {
      (void)function.eraseResult(unsigned(i));
      function.front().getTerminator()->eraseOperand(unsigned(i));
    }
  eraseDead(function);
}

struct IncrementalPass : PassWrapper<IncrementalPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(IncrementalPass)
  IncrementalPass(quern::support::Machine machine, bool withRagged, bool absorb)
      : machine(std::move(machine)), withRagged(withRagged), absorb(absorb) {}
  quern::support::Machine machine;
  bool withRagged, absorb;

  StringRef getArgument() const override { return "incremental"; }
  StringRef getDescription() const override { return "derive the step form, with caches, from the whole function"; }

  void runOnOperation() override {
    for (StringRef name : {"forward", "decode"})
      if (auto function = getOperation().lookupSymbol<func::FuncOp>(name); function && timeDimension(function))
        run(function);
  }

  void run(func::FuncOp function) {
    std::string base = function.getName().str();
    StateTable states(getOperation(), base);
    auto last = cast<func::FuncOp>(OpBuilder(function).clone(*function));
    last->moveAfter(function);
    keepScored(last);
    inlineDefaults(last); // by its old name, with which the defaults' names begin
    last.setName(base + ".last");
    setRole(last, Role::Last, base);
    // For few rows other forms of the same function read less; what they remember is the same.
    auto step = cast<func::FuncOp>(OpBuilder(last).clone(*last));
    step->moveAfter(last);
    step.setName(base + ".step");
    setRole(step, Role::Step, base);
    func::FuncOp ragged;
    if (withRagged) {
      ragged = cast<func::FuncOp>(OpBuilder(last).clone(*last));
      ragged->moveAfter(step);
      ragged.setName(base + ".ragged");
      setRole(ragged, Role::Ragged, base);
    }
    auto keep = [&](func::FuncOp from) { // what is true of the function, whatever form it has
      for (StringRef attr : {limitsAttr, recomputeAttr})
        if (Attribute value = from->getAttr(attr))
          function->setAttr(attr, value);
    };
    int64_t rows = 0; // up to how many another form pays
    if (std::string refusal = extend(last, base, states, /*lastRow=*/true, /*isRagged=*/false, &rows);
        !refusal.empty()) {
      keep(last);
      last.erase();
      if (ragged)
        ragged.erase();
      step.erase();
      function->setAttr(refusalAttr, StringAttr::get(&getContext(), refusal));
      return;
    }
    if (!rows)
      step.erase();
    else if (!extend(step, base, states, /*lastRow=*/true).empty())
      llvm_unreachable("as causal as the form for many rows");
    else
      step->setAttr(fewRowsAttr, OpBuilder(step).getI64IntegerAttr(rows));
    func::FuncOp raggedStep;
    if (ragged && rows) {
      raggedStep = cast<func::FuncOp>(OpBuilder(ragged).clone(*ragged));
      raggedStep->moveAfter(ragged);
      raggedStep.setName(base + ".ragged.step");
      setRole(raggedStep, Role::RaggedStep, base);
    }
    for (func::FuncOp form : {ragged, raggedStep})
      if (form && !extend(form, base, states, /*lastRow=*/true, /*isRagged=*/true).empty())
        form.erase();
      else if (form && form == raggedStep)
        form->setAttr(fewRowsAttr, OpBuilder(form).getI64IntegerAttr(rows));
    // With a mask or positions from outside the function may still look ahead; then it is only evaluated as a whole.
    auto whole = cast<func::FuncOp>(OpBuilder(function).clone(*function));
    if (!extend(whole, base, states, /*lastRow=*/false).empty()) {
      whole.erase();
      keep(last);
      return;
    }
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (func::FuncOp given = defaultOf(function, i)) // positions left out are those of the new rows
        countFromPast(given, timeDimension(function));
    whole->moveAfter(function);
    function.erase();
  }

  /// Rewrites to the step form; or gives the reason why that cannot be, and leaves a function of no use.
  std::string extend(func::FuncOp function, StringRef base, StateTable &states, bool lastRow, bool isRagged = false,
                     int64_t *absorbing = nullptr) {
    DimAttr time = timeDimension(function);
    sinkRenames(function, time);
    TimeAnalysis analysis(function);
    if (ArrayAttr limits = findLimits(function, analysis); !limits.empty())
      function->setAttr(limitsAttr, limits);
    if (!analysis.refusals().empty())
      return analysis.describeRefusals();

    MemoryPlan plan(function, analysis, machine, absorb);
    if (absorbing)
      *absorbing = plan.rowsWhereAbsorbingPays();
    NumberUse numbers = numbersOf(function, analysis, plan);
    if (!numbers.raw && !numbers.comparisons.empty() && !formOf(getOperation(), base, Role::Epoch))
      numbers.raw = !makeEpoch(function, base, numbers.comparisons.getArrayRef(), time);
    if (numbers.raw)
      function->setAttr(recomputeAttr, UnitAttr::get(&getContext()));

    states.beginVariant();
    if (!numbers.raw)
      findWindows(function, analysis, plan);
    makeStep(function, analysis, plan, states);
    if (lastRow)
      keepLastRow(function, time);
    countFromPast(function, time);
    if (isRagged && !makeRagged(function, time))
      return "what is made from positions is carried or remembered for all rows at once";
    makeRings(function, time);
    markOnce(function, time);
    return "";
  }
};

} // namespace

std::unique_ptr<Pass> quern::passes::createIncrementalPass(const support::Machine &machine, bool ragged, bool absorb) {
  return std::make_unique<IncrementalPass>(machine, ragged, absorb);
}
