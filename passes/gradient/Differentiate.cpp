// Takes: a module to be trained (`quern.train`) with a function @loss, after loops are rolled. Gives: @loss.grad beside
// it: the loss, then the gradient of every parameter, or of adapters alone (`quern.lora`), as ordinary operations. Why
// before caches and kernels: what fusion and planning do for inference they then do for gradients.
//
//   func @loss(%tokens, %labels) -> real[]
//   func @loss.grad(%tokens, %labels) -> (real[], real[V, D] {quern.name = "grad.embed", quern.gradient = [["embed"]]},
//                                         real[iterations = 12, D] {quern.gradient = [["h.0.w"], ["h.1.w"] ...]})
//
// Reverse mode: the operations' rules (GradientRules.cpp) in the reverse order of the operations; a value's
// contributions are added in the order in which the walk meets them, so a result is the same bit for bit. Zeros are
// never built, but for what enters a loop. A loop's gradient is a loop from the last iteration to the first
// (DifferentiateLoop.cpp).
#include "passes/gradient/Differentiate.h"

#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "ir/analysis/Options.h"
#include "passes/Passes.h"
#include "passes/weights/NarrowStorage.h"

#include "ir/analysis/Functions.h"
#include "ir/analysis/Weights.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

// ---- what is active: real, and made from a parameter that is trained

bool Differentiator::isTrained(ParamOp param) const {
  return !adaptersAlone || param->hasAttr(adapterAttr);
}

/// The largest value that is taken off before exponentials are added up: whatever it were, a softmax and its logarithm
/// would be the same, so nothing flows through it.
static bool onlyShifts(Operation *op) {
  auto largest = dyn_cast<ReduceOp>(op);
  if (!largest || largest.getReduction() != Reduction::max || largest.use_empty())
    return false;
  auto all = [](Value value, function_ref<bool(Operation *)> test) { return llvm::all_of(value.getUsers(), test); };
  return all(largest, [&](Operation *user) {
    auto shifted = dyn_cast<SubOp>(user);
    if (!shifted || shifted.getA() != largest.getX() || shifted.getB() != largest.getResult())
      return false;
    Value power, sum;
    for (Operation *next : shifted->getUsers())
      if (isa<ExpOp>(next) && !power)
        power = next->getResult(0);
    if (!power)
      return false;
    for (Operation *next : power.getUsers())
      if (auto reduce = dyn_cast<ReduceOp>(next);
          reduce && reduce.getReduction() == Reduction::sum && reduce.getDims() == largest.getDims())
        sum = reduce.getResult();
    auto isQuotient = [&](Operation *next) {
      return isa<DivOp>(next) && next->getOperand(0) == power && next->getOperand(1) == sum;
    };
    auto isLogarithm = [&](Operation *next) {
      return isa<SubOp>(next) && next->getOperand(0) == shifted.getResult() &&
             next->getOperand(1) != shifted.getResult() &&
             isa_and_nonnull<LogOp>(next->getOperand(1).getDefiningOp()) &&
             next->getOperand(1).getDefiningOp()->getOperand(0) == sum;
    };
    return sum && all(shifted, [&](Operation *next) { return next == power.getDefiningOp() || isLogarithm(next); }) &&
           all(power, [&](Operation *next) { return next == sum.getDefiningOp() || isQuotient(next); }) &&
           all(sum, [&](Operation *next) {
             return isQuotient(next) || (isa<LogOp>(next) && all(next->getResult(0), isLogarithm));
           });
  });
}

bool Differentiator::isActiveResult(Operation *op, Value result) const {
  if (auto param = dyn_cast<ParamOp>(op))
    return isTrained(param);
  auto attention = dyn_cast<AttentionOp>(op);
  if (onlyShifts(op) || (attention && result != attention.getAttended()))
    return false;
  auto entry = gradientRules().find(op->getName().stripDialect());
  return entry != gradientRules().end() && entry->second.rule && typeOf(result).isReal() &&
         llvm::any_of(op->getOperands(), [&](Value operand) { return active.contains(operand); });
}

void Differentiator::findActive(Block &block) {
  for (Operation &op : block) {
    if (isa<ScanOp>(op)) {
      findActiveIn(&op);
      continue;
    }
    auto repeat = dyn_cast<RepeatOp>(op);
    if (!repeat) {
      for (Value result : op.getResults())
        if (isActiveResult(&op, result))
          active.insert(result);
      continue;
    }
    Block &body = repeat.getBlock();
    for (auto [argument, init] : llvm::zip(body.getArguments(), repeat.getInits()))
      if (active.contains(init))
        active.insert(argument);
    for (bool changed = true; changed;) {
      changed = false;
      findActive(body);
      for (auto [argument, value] : llvm::zip(body.getArguments(), repeat.getYield().getValues()))
        if (active.contains(value) && active.insert(argument).second)
          changed = true;
    }
    for (auto [argument, result] : llvm::zip(body.getArguments(), repeat.getResults()))
      if (active.contains(argument))
        active.insert(result);
  }
}

// ---- contributions

/// `part`, the gradient of what `cut` takes, with zeros before and after it.
static Value padded(GradientBuilder &make, Value part, CutOp cut) {
  DimAttr whole = typeOf(cut.getX()).dim(cut.getDim()), own = cut.getInto();
  SmallVector<Value> parts;
  SmallVector<StringRef> names;
  std::string before = (own.getName() + ".before").str(), after = (own.getName() + ".after").str();
  auto zeros = [&](StringRef name, const Size &size) {
    if (size == Size(0))
      return;
    DimAttr dim = DimAttr::get(make.b.getContext(), name, size);
    parts.push_back(make.zeros(typeOf(part).withDims(dim)));
    names.push_back(name);
  };
  zeros(before, cut.getOffsetSize());
  parts.push_back(part);
  names.push_back(own.getName());
  zeros(after, whole.getSize() - cut.getOffsetSize() - own.getSize());
  return make.make<ConcatOp>(parts, labelArray(make.b, names), whole);
}

/// Gradients of parts of one dimension, if they follow each other from its start to its end: then nothing is added up.
/// Removes them from `parts`.
static Value tiled(GradientBuilder &make, SmallVectorImpl<GradientPart> &parts) {
  for (GradientPart &first : parts) {
    if (!first.cut || first.cut.getOffsetSize() != Size(0))
      continue;
    DimAttr whole = typeOf(first.cut.getX()).dim(first.cut.getDim());
    SmallVector<GradientPart *> chain = {&first};
    Size at = first.cut.getInto().getSize();
    while (at != whole.getSize()) {
      auto next = llvm::find_if(parts, [&](GradientPart &part) {
        return part.cut && part.cut.getDim() == first.cut.getDim() && part.cut.getOffsetSize() == at &&
               !llvm::is_contained(chain, &part);
      });
      if (next == parts.end())
        break;
      chain.push_back(&*next);
      at = at + next->cut.getInto().getSize();
    }
    if (at != whole.getSize() || chain.size() < 2)
      continue;
    SmallVector<Value> values;
    SmallVector<StringRef> names;
    for (GradientPart *part : chain) {
      values.push_back(part->value);
      names.push_back(part->cut.getInto().getName());
    }
    Value joined = make.make<ConcatOp>(values, labelArray(make.b, names), whole);
    SmallVector<GradientPart> rest;
    for (GradientPart &part : parts)
      if (!llvm::is_contained(chain, &part))
        rest.push_back(part);
    parts.assign(rest.begin(), rest.end());
    return joined;
  }
  return {};
}

Value Differentiator::gradientOf(Value value, OpBuilder &builder) {
  auto found = pending.find(value);
  if (found == pending.end())
    return {};
  SmallVector<GradientPart> parts = found->second;
  pending.erase(found);
  GradientBuilder make(builder, value.getLoc());
  Value total;
  auto add = [&](Value part) { total = total ? make.add(total, part) : part; };
  while (Value whole = tiled(make, parts))
    add(whole);
  for (GradientPart &part : parts)
    add(part.cut ? padded(make, part.value, part.cut) : part.value);
  return total;
}

Value Differentiator::gradientOrZeros(Value value, OpBuilder &builder) {
  Value gradient = gradientOf(value, builder);
  return gradient ? gradient : GradientBuilder(builder, value.getLoc()).zeros(typeOf(value));
}

void Differentiator::give(Value value, Value gradient, CutOp cut) {
  if (active.contains(value))
    pending[value].push_back({gradient, cut});
}

// ---- the walk

LogicalResult Differentiator::reverseOp(Operation *op, OpBuilder &builder) {
  Value gradient = op->getNumResults() ? gradientOf(op->getResult(0), builder) : Value();
  if (!gradient)
    return success();
  auto entry = gradientRules().find(op->getName().stripDialect());
  if (entry == gradientRules().end() || !entry->second.rule)
    return op->emitError("has no gradient rule");
  auto needed = [&](Value value) { return active.contains(value); };
  auto take = [&](Value value, Value part, CutOp cut) { give(value, part, cut); };
  RuleInput input(builder, op, gradient, needed, take);
  entry->second.rule(input);
  return success();
}

LogicalResult Differentiator::reverseBlock(Block &block, OpBuilder &builder, std::vector<ParameterGradient> &found) {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops)) {
    if (auto param = dyn_cast<ParamOp>(op); param && isTrained(param)) {
      Value gradient = gradientOrZeros(param, builder);
      found.push_back({param.getPaths(), typeOf(param), gradient});
    } else if (isa<ScanOp>(op)) {
      if (failed(reverseScan(op, builder)))
        return failure();
    } else if (auto repeat = dyn_cast<RepeatOp>(op)) {
      if (failed(reverseLoop(repeat, builder, found)))
        return failure();
    } else if (failed(reverseOp(op, builder))) {
      return failure();
    }
  }
  return success();
}

// ---- the function

/// A parameter that all iterations of a loop share belongs to the function; and each that is trained is there once.
LogicalResult Differentiator::liftParameters() {
  llvm::MapVector<Attribute, SmallVector<ParamOp>> byPaths;
  llvm::StringMap<Attribute> owner;
  LogicalResult status = success();
  function.walk([&](ParamOp param) {
    ArrayAttr paths = param.getPaths();
    if (llvm::all_of(paths, [&](Attribute iteration) { return iteration == paths[0]; }))
      paths = ArrayAttr::get(param.getContext(), {paths[0]});
    byPaths[paths].push_back(param);
    for (Attribute iteration : paths) {
      auto name = cast<StringAttr>(cast<ArrayAttr>(iteration)[0]);
      if (owner.try_emplace(name.getValue(), paths).first->second != paths && isTrained(param)) {
        param.emitError("the parameter ")
            << name << " is used by two loops that have it in different iterations; training needs "
            << "one place for each parameter";
        status = failure();
      }
    }
  });
  OpBuilder top = OpBuilder::atBlockBegin(&function.front());
  SmallVector<ParamOp> replaced; // erased at the end: the first of them is where `top` stands
  for (auto &[paths, params] : byPaths) {
    bool shared = cast<ArrayAttr>(paths).size() == 1;
    if (!shared && params.size() > 1 && isTrained(params[0])) {
      params[1].emitError(
          "a parameter of each iteration is used by two loops; training needs one place for each parameter");
      status = failure();
    }
    if (!shared)
      continue;
    auto lifted = ParamOp::create(top, params[0].getLoc(), params[0].getResult().getType(), cast<ArrayAttr>(paths),
                                  params[0].getInitAttr());
    lifted->setDiscardableAttrs(params[0]->getDiscardableAttrDictionary());
    for (ParamOp param : params) {
      Value value = lifted;
      if (param.getResult().getType() != lifted.getResult().getType()) {
        OpBuilder here(param);
        value = PermuteOp::create(here, param.getLoc(), param.getResult().getType(), value);
      }
      param.replaceAllUsesWith(value);
      replaced.push_back(param);
    }
  }
  for (ParamOp param : replaced)
    param.erase();
  return status;
}

LogicalResult Differentiator::run() {
  if (failed(liftParameters()))
    return failure();
  segmentLoops(function, recomputing.segment);
  findActive(function.front());
  prepareAttentions(function, active);
  active.clear();
  findActive(function.front());
  auto end = cast<func::ReturnOp>(function.front().getTerminator());
  Value loss = end.getOperand(0);
  if (end.getNumOperands() != 1 || typeOf(loss).getRank() || !typeOf(loss).isReal())
    return function.emitError("a loss is one real number, not ") << loss.getType();
  OpBuilder builder(end);
  std::vector<ParameterGradient> found;
  Value seed = GradientBuilder(builder, loss.getLoc()).number(1.0); // the first operation of the gradient
  give(loss, seed, CutOp());
  if (failed(reverseBlock(function.front(), builder, found)))
    return failure();
  std::reverse(found.begin(), found.end()); // in the order of the parameters
  if (recomputing.allowed)
    repeatForGradient(seed.getDefiningOp(), recomputing);

  SmallVector<Value> results = {loss};
  SmallVector<Attribute> attributes = {function.getResultAttrDict(0)};
  if (!attributes[0])
    attributes[0] = builder.getDictionaryAttr({});
  for (ParameterGradient &parameter : found) {
    Value gradient = parameter.gradient;
    if (gradient.getType() != parameter.type)
      gradient = PermuteOp::create(builder, gradient.getLoc(), parameter.type, gradient);
    results.push_back(gradient);
    StringRef name = names(cast<ArrayAttr>(parameter.paths[0])).front();
    attributes.push_back(
        builder.getDictionaryAttr({builder.getNamedAttr(nameAttr, builder.getStringAttr("grad." + name)),
                                   builder.getNamedAttr(gradientAttr, parameter.paths)}));
  }
  end->setOperands(results);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
  function.setResAttrsAttr(builder.getArrayAttr(attributes));
  return success();
}

namespace {
class DifferentiatePass : public PassWrapper<DifferentiatePass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DifferentiatePass)
  DifferentiatePass(quern::support::Machine machine, bool recompute)
      : machine(std::move(machine)), recompute(recompute) {}
  StringRef getArgument() const final { return "differentiate"; }
  StringRef getDescription() const final {
    return "Add @loss.grad: the loss and the gradient of every parameter that is trained";
  }

  void runOnOperation() final {
    ModuleOp module = getOperation();
    ProgramOptions options = optionsOf(module);
    if (!options.train)
      return;
    auto loss = module.lookupSymbol<func::FuncOp>("loss");
    if (!loss) {
      module.emitError("there is no loss to train on: the model needs `loss`, or `forward` or `decode` to [B, T, V]");
      return signalPassFailure();
    }
    loss->setAttr(changingAttr, UnitAttr::get(&getContext()));
    func::FuncOp gradient = loss.clone();
    gradient.setSymName("loss.grad");
    setRole(gradient, Role::Gradient, "loss");
    // Inputs that may be left out take the same defaults.
    for (unsigned i = 0; i < loss.getNumArguments(); ++i)
      if (func::FuncOp fallback = defaultOf(loss, i))
        gradient.setArgAttr(i, defaultAttr, FlatSymbolRefAttr::get(fallback.getSymNameAttr()));
    module.insert(std::next(Block::iterator(loss)), gradient);
    Recomputing recomputing{recompute, options.savingPrice, options.trainsNarrow(), options.segmentIterations, machine};
    if (failed(Differentiator(gradient, recomputing, options.trainsAdapters()).run()))
      signalPassFailure();
  }

private:
  quern::support::Machine machine;
  bool recompute;
};
} // namespace

std::unique_ptr<Pass> quern::passes::createDifferentiatePass(const support::Machine &machine, bool recompute) {
  return std::make_unique<DifferentiatePass>(machine, recompute);
}
