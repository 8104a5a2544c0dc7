// Takes: functions of quern operations. Gives: functions of launches, loops and views, and one quern.kernel for each
// distinct fusion group.
// Why outlining: what follows (schedules, compilation, caching) works on one kernel at a time, and equal layers or
// functions share theirs.
//
//   before: %c = quern.contract %x, %w over ["I"] ...    after: %r = quern.launch @contract_0 [...] (%x, %w)
//           %y = quern.add %c, %b ...                           quern.kernel @contract_0(...) { contract; add; yield }
#include "ir/Attributes.h"
#include "ir/Chunk.h"
#include "ir/Scan.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Weights.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/fuse/ExpandStates.h"
#include "passes/fuse/FusionGroups.h"
#include "passes/fuse/KernelBody.h"
#include "passes/fuse/PackWeights.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

namespace {

class Outliner {
public:
  Outliner(ModuleOp module, const PackingRule &tileFor, const Without &without)
      : module(module), tileFor(tileFor), without(without) {}
  void run(func::FuncOp function);

private:
  void normalize(func::FuncOp function);
  void copyIfNeeded(Operation *user, unsigned operand, Type type);
  using Roots = SmallVector<Operation *>; // of one kernel, in program order
  void outline(const Roots &roots, FusionGroups &groups);
  SmallVector<Operation *> slice(const Roots &roots, FusionGroups &groups, SmallVectorImpl<Value> &inputs);
  KernelBody cutOut(const Roots &roots, FusionGroups &groups);
  void unitStrideLast(KernelBody &body);
  KernelOp merge(KernelBody &body);

  ModuleOp module;
  const PackingRule &tileFor;
  const Without &without;
  std::map<std::string, KernelOp> known; // text -> kernel
  llvm::DenseMap<Operation *, unsigned> position;
};

/// The order of storage in which a state keeps the value that is remembered in it.
NamedTensorType orderOf(RememberOp remember) {
  auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(remember, remember.getStateAttr());
  auto type = cast<NamedTensorType>(state.getType());
  ArrayRef<DimAttr> dims = type.getDims().take_back(typeOf(remember.getX()).getRank());
  SmallVector<DimAttr> order;
  for (DimAttr dim : dims) {
    DimAttr own = typeOf(remember.getX()).dim(dim.getName());
    order.push_back(own ? own : typeOf(remember.getX()).dim(remember.getFrom()));
  }
  return typeOf(remember.getX()).withDims(order);
}

static void copyOperand(Operation *user, unsigned operand, Type type) {
  OpBuilder builder(user);
  auto copy = PermuteOp::create(builder, user->getLoc(), type, user->getOperand(operand));
  if (user->hasAttr(onceAttr))
    copy->setAttr(onceAttr, builder.getUnitAttr());
  user->setOperand(operand, copy);
}

/// What the loop around `user`, or one before it, carries: a loop that goes on with it has it in its order already, and
/// planning lets both have one place.
static bool isCarriedHere(Value value, Operation *user, unsigned operand, Type type) {
  auto around = dyn_cast<YieldOp>(user) ? cast<RepeatOp>(user->getParentOp()) : dyn_cast<RepeatOp>(user);
  auto loop = value.getDefiningOp<RepeatOp>();
  unsigned number = loop ? cast<OpResult>(value).getResultNumber() : 0;
  if (auto argument = dyn_cast<BlockArgument>(value); argument && isa<RepeatOp>(user)) {
    loop = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp());
    number = argument.getArgNumber();
  }
  return loop && around && loop.isCarried(number) && around.isCarried(operand) && !chunkOf(loop) && !chunkOf(around) &&
         value.getParentBlock() == user->getBlock() && loop.getResult(number).getType() == type;
}

/// What a consumer takes over must be a value of its own, in the consumer's order of dimensions.
void Outliner::copyIfNeeded(Operation *user, unsigned operand, Type type) {
  Value value = user->getOperand(operand);
  Operation *def = value.getDefiningOp();
  unsigned takers = llvm::count_if(value.getUses(), [](OpOperand &use) {
    return isa<func::ReturnOp, YieldOp, RepeatOp, RememberOp, StoreOp>(use.getOwner());
  });
  auto loop = dyn_cast_or_null<RepeatOp>(def);
  // A loop writes its stacks, and what it carries from chunk to chunk, where they are returned, or where the loop
  // around it has them.
  bool given = loop && !loop.isCarried(cast<OpResult>(value).getResultNumber());
  auto around = dyn_cast<YieldOp>(user) ? cast<RepeatOp>(user->getParentOp()) : RepeatOp();
  bool stack = loop && ((isa<func::ReturnOp>(user) && (given || chunkOf(loop))) ||
                        (around && given && !around.isCarried(operand)));
  bool own = def && (stack || !isa<ParamOp, RememberOp, RecallOp, RepeatOp, ConstOp, ValuesOp, SizeOp, IndexOp>(def)) &&
             def->getBlock() == user->getBlock() && value.getType() == type && takers == 1;
  own |= takers == 1 && isCarriedHere(value, user, operand, type);
  if (!own)
    copyOperand(user, operand, type);
}

/// How the loop wants what an iteration yields: as the next iteration's value, or as part of a stack.
static Type yieldedType(RepeatOp repeat, unsigned i) {
  NamedTensorType type = typeOf(repeat.getResult(i));
  return repeat.isCarried(i) ? type : partOfStack(repeat, type);
}

/// Whether a value has gaps, or another order, within what it is a view of.
static bool isPartOfMore(Value value) {
  for (Operation *op = value.getDefiningOp(); op && isViewLike(op); op = op->getOperand(0).getDefiningOp())
    if (isa<CutOp, PermuteOp>(op))
      return true;
  return false;
}

void Outliner::normalize(func::FuncOp function) {
  expandStates(function);
  // Each contraction picks its weights itself: shared, a copy of them for each row would be stored.
  SmallVector<GatherOp> picks;
  function.walk([&](GatherOp op) { picks.push_back(op); });
  for (GatherOp pick : picks) {
    NamedTensorType table = typeOf(pick.getX());
    if (table.getRank() < 3 || !llvm::all_of(table.getDims(), [](DimAttr dim) { return dim.getStatic().has_value(); }))
      continue;
    Operation *widen = pick->hasOneUse() ? *pick->getUsers().begin() : nullptr;
    if (!widensStored(widen))
      widen = nullptr;
    Value gathered = widen ? Value(widen->getResult(0)) : Value(pick.getResult());
    for (OpOperand &use : llvm::make_early_inc_range(gathered.getUses()))
      if (isa<ContractOp>(use.getOwner()) && !gathered.hasOneUse()) {
        OpBuilder builder(use.getOwner());
        IRMapping own;
        Operation *copy = builder.clone(*pick, own);
        use.set((widen ? builder.clone(*widen, own) : copy)->getResult(0));
      }
  }
  SmallVector<Operation *> takers;
  function.walk([&](Operation *op) {
    bool ofAttention = isa<YieldOp>(op) && isa<AttentionOp, AttentionGradientOp, ScanOp>(op->getParentOp());
    if (isa<func::ReturnOp, YieldOp, RepeatOp, RememberOp, StoreOp>(op) && !ofAttention)
      takers.push_back(op);
  });
  for (Operation *op : takers)
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      Type type = op->getOperand(i).getType();
      if (isa<YieldOp>(op))
        type = yieldedType(cast<RepeatOp>(op->getParentOp()), i);
      else if (auto repeat = dyn_cast<RepeatOp>(op); repeat && !repeat.isCarried(i)) {
        if (isPartOfMore(
                op->getOperand(i))) // else a stack is read where it is stored: its iterations follow each other
          copyOperand(op, i, type);
        continue;
      } else if (repeat)
        type = op->getResult(i).getType();
      else if (auto remember = dyn_cast<RememberOp>(op))
        type = orderOf(remember);
      else if (isa<func::ReturnOp>(op))
        type = function.getResultTypes()[i];
      copyIfNeeded(op, i, type);
    }
  // What comes out of a cache has the cache's order: strides are counted by position (ownView).
  function.walk([&](RememberOp remember) {
    SmallVector<DimAttr> dims(orderOf(remember).getDims());
    for (DimAttr &dim : dims)
      if (dim.getName() == remember.getFrom())
        dim = remember.getTo();
    remember.getResult().setType(typeOf(remember.getResult()).withDims(dims));
  });
  // A loop's arguments have its results' order, or that of their stacks.
  function.walk([&](RepeatOp repeat) {
    for (auto [i, argument] : llvm::enumerate(repeat.getBlock().getArguments()))
      argument.setType(repeat.isCarried(i)
                           ? typeOf(repeat.getResult(i))
                           : partOfStack(repeat, typeOf(repeat.getStacks()[i - repeat.getCarriedCount()])));
  });
}

SmallVector<Operation *> Outliner::slice(const Roots &roots, FusionGroups &groups, SmallVectorImpl<Value> &inputs) {
  llvm::SetVector<Operation *> ops(roots.begin(), roots.end());
  SmallVector<Operation *> work(roots);
  auto stored = [&](Value value) {
    const View *view = groups.viewOf(value);
    return view && !llvm::is_contained(roots, view->base.getDefiningOp()); // results of this kernel are at hand
  };
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    for (Value operand : op->getOperands()) {
      if (stored(operand)) {
        if (!llvm::is_contained(inputs, operand))
          inputs.push_back(operand);
      } else if (ops.insert(operand.getDefiningOp())) {
        work.push_back(operand.getDefiningOp());
      }
    }
  }
  SmallVector<Operation *> ordered(ops.begin(), ops.end());
  llvm::sort(ordered, [&](Operation *a, Operation *b) { return position[a] < position[b]; });
  return ordered;
}

KernelBody Outliner::cutOut(const Roots &roots, FusionGroups &groups) {
  SmallVector<Value> inputs;
  SmallVector<Operation *> ops = slice(roots, groups, inputs);
  // Buffers in the order of their first use.
  SmallVector<Value> ordered;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (llvm::is_contained(inputs, operand) && !llvm::is_contained(ordered, operand))
        ordered.push_back(operand);

  KernelBody body;
  OpBuilder builder(module.getContext());
  ArrayAttr none = builder.getArrayAttr({});
  body.kernel = KernelOp::create(builder, roots[0]->getLoc(), "kernel", none, none, IntegerAttr());
  Block *block = &body.kernel.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value value : ordered) {
    mapping.map(value, block->addArgument(value.getType(), value.getLoc()));
    body.inputs.push_back({value, groups.viewOf(value)->strides, std::nullopt, {}});
  }
  builder.setInsertionPointToEnd(block);
  for (Operation *op : ops) {
    Operation *clone = builder.clone(*op, mapping);
    clone->removeAttr(onceAttr);
    clone->removeAttr(againAttr);
  }
  SmallVector<Value> results;
  for (Operation *root : roots)
    for (Value result : root->getResults()) {
      if (!groups.isRoot(result) || (result.use_empty() && root->getNumResults() > 1))
        continue;
      results.push_back(mapping.lookup(result));
      SmallVector<Size> strides = View::denseStrides(typeOf(result));
      for (Operation *user : result.getUsers())
        if (auto remember = dyn_cast<RememberOp>(user))
          strides = groups.viewOf(remember.getResult())->strides;
      body.outputs.push_back({result, strides, std::nullopt, {}});
    }
  YieldOp::create(builder, roots[0]->getLoc(), results);
  return body;
}

/// Buffers are read along their unit stride: that dimension comes last.
void Outliner::unitStrideLast(KernelBody &body) {
  for (auto [i, buffer] : llvm::enumerate(body.inputs)) {
    unsigned rank = buffer.strides.size();
    if (buffer.tile || !rank || buffer.strides.back() == Size(1))
      continue;
    auto unit = llvm::find(buffer.strides, Size(1));
    if (unit == buffer.strides.end())
      continue;
    SmallVector<unsigned> order;
    for (unsigned d = 0; d < rank; ++d)
      if (d != unit - buffer.strides.begin())
        order.push_back(d);
    order.push_back(unit - buffer.strides.begin());
    reorder(body, i, order);
  }
}

/// A name that says what a kernel is about: its heaviest operation.
static StringRef anchorName(KernelOp kernel) {
  StringRef name = "map";
  bool contract = false;
  for (Operation &op : kernel.getBlock()) {
    auto scatter = dyn_cast<ScatterAddOp>(op);
    contract |= isa<ContractOp>(op) || (scatter && summedByRoute(scatter));
    if (isa<AttentionOp, AttentionGradientOp>(op))
      return op.getName().stripDialect();
    if (isa<ScanOp>(op))
      return "scan";
    if (isa<ReduceOp, SoftmaxOp, CumsumOp, TopKOp, ArgmaxOp>(op))
      name = op.getName().stripDialect();
    if (isa<GatherOp>(op) && name == "map")
      name = "gather";
  }
  return contract ? "contract" : name;
}

/// The kernel with this text: an earlier one, or this one, named and put into the module.
KernelOp Outliner::merge(KernelBody &body) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  body.kernel->print(stream, OpPrintingFlags().useLocalScope());
  auto [it, isNew] = known.try_emplace(text, body.kernel);
  if (!isNew) {
    body.kernel->erase();
    return it->second;
  }
  body.kernel.setSymName((anchorName(body.kernel) + "_" + Twine(known.size() - 1)).str());
  module.push_back(body.kernel);
  return body.kernel;
}

void Outliner::outline(const Roots &roots, FusionGroups &groups) {
  KernelBody body = cutOut(roots, groups);
  packWeights(body, tileFor, without, /*codedAlone=*/roots[0]->getParentOfType<func::FuncOp>()->hasAttr(changingAttr));
  unitStrideLast(body);
  SmallVector<NamedTensorType> callerTypes; // of the arguments, in the caller's names
  for (BlockArgument argument : body.kernel.getBlock().getArguments())
    callerTypes.push_back(typeOf(argument));
  bool remembered = llvm::any_of(body.outputs, [](const KernelBuffer &output) {
    return llvm::any_of(output.value.getUsers(), [](Operation *user) { return isa<RememberOp>(user); });
  });
  collapseSummedDims(body);
  if (!remembered && body.outputs.size() == 1)
    collapseDims(body);
  else
    collapseInputDims(body);

  Operation *place = roots[0];
  for (const KernelBuffer &input : body.inputs)
    moveBefore(input.value, place);
  Location loc = place->getLoc();
  OpBuilder builder(place);
  SmallVector<Value> operands;
  for (auto [buffer, type] : llvm::zip(body.inputs, callerTypes)) {
    Value value = buffer.value;
    if (value.getType() != type)
      value = PermuteOp::create(builder, loc, type, value);
    for (auto [a, b] : buffer.merged) {
      DimAttr both = DimAttr::get(builder.getContext(), a.getName(), a.getSize() * b.getSize());
      value = MergeOp::create(builder, loc, value, labelArray(builder, {a.getName(), b.getName()}), both);
    }
    operands.push_back(value);
  }
  SmallVector<Type> resultTypes;
  for (Value value : body.kernel.getYield().getValues())
    resultTypes.push_back(value.getType());
  SmallVector<KernelBuffer> outputs = body.outputs;
  SmallVector<StringAttr> symbols;
  for (const Size &size : canonicalize(body))
    symbols.push_back(builder.getStringAttr(size.str()));
  KernelOp kernel = merge(body);
  auto launch = LaunchOp::create(builder, loc, resultTypes, FlatSymbolRefAttr::get(kernel.getSymNameAttr()), operands,
                                 builder.getArrayAttr(SmallVector<Attribute>(symbols.begin(), symbols.end())),
                                 place->hasAttr(onceAttr) ? builder.getUnitAttr() : UnitAttr());
  for (auto [output, result] : llvm::zip(outputs, launch.getResults())) {
    Value value = result;
    for (auto [a, b] : llvm::reverse(output.merged))
      value = SplitOp::create(builder, loc, value, a.getName(), builder.getArrayAttr({a, b}));
    if (value.getType() != output.value.getType())
      value = PermuteOp::create(builder, loc, output.value.getType(), value);
    output.value.replaceAllUsesWith(value);
  }
}

void Outliner::run(func::FuncOp function) {
  normalize(function);
  FusionGroups groups(function, without);
  SmallVector<Operation *> roots;
  unsigned count = 0;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    position[op] = count++;
    if (llvm::any_of(op->getResults(), [&](Value result) { return groups.isRoot(result); }))
      roots.push_back(op);
  });
  // Kernels are cut out of the untouched function from the end, so that every slice sees original operations.
  // A joint kernel comes where its first result stood: by then all that reads any of them has been cut out.
  for (Operation *root : llvm::reverse(roots)) {
    Roots together;
    for (Value result : root->getResults())
      for (Value value : groups.jointWith(result))
        if (!llvm::is_contained(together, value.getDefiningOp()))
          together.push_back(value.getDefiningOp());
    if (together.empty())
      outline({root}, groups);
    else if (together[0] == root)
      outline(together, groups);
  }
  // What is left without users was taken into kernels.
  SmallVector<Operation *> ops;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    ops.push_back(op);
    return isa<AttentionOp, AttentionGradientOp, ScanOp>(op) ? WalkResult::skip()
                                                             : WalkResult::advance(); // its body goes with it
  });
  for (bool again = true; again;) {
    again = false;
    for (Operation *&op : llvm::reverse(ops))
      if (op && op->use_empty() && op->getNumResults() && !isa<LaunchOp, RepeatOp, RememberOp>(op)) {
        op->erase();
        op = nullptr;
        again = true;
      }
  }
}

class OutlineKernelsPass : public PassWrapper<OutlineKernelsPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OutlineKernelsPass)
  OutlineKernelsPass(PackingRule rule, Without without) : rule(std::move(rule)), without(std::move(without)) {}
  OutlineKernelsPass(const OutlineKernelsPass &other) : PassWrapper(other), rule(other.rule), without(other.without) {}
  StringRef getArgument() const final { return "outline-kernels"; }
  StringRef getDescription() const final { return "Cut fusion groups out as kernels; equal ones are merged"; }
  void runOnOperation() final {
    try {
      for (const std::string &name : leftOut)
        without.add(name);
    } catch (const std::exception &error) {
      getOperation().emitError(error.what());
      return signalPassFailure();
    }
    Outliner outliner(getOperation(), rule, without);
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp function : functions)
      if (!isEpoch(function))
        outliner.run(function);
  }

private:
  PackingRule rule;
  Without without;
  ListOption<std::string> leftOut{*this, "without", llvm::cl::desc("rules that are left out")};
};

} // namespace

std::unique_ptr<Pass> quern::passes::createOutlineKernelsPass(PackingRule rule, Without without) {
  return std::make_unique<OutlineKernelsPass>(std::move(rule), std::move(without));
}
