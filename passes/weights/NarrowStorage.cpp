// Takes: a module whose `quern.precision` is "bf16", or that has `quern.quantize`. Gives: where weights do not change, functions
// whose weights of matrix products are stored in fewer bits (StoreWeights.cpp); to be trained, @loss and @loss.grad that
// keep in two bytes all that they read again from memory, and @update.* that give a parameter's bf16 copy beside it.
//
//   before: %y = contract %x, %w       [B, T, O]        after: %v = param [..] : bf16     %n = narrow %x
//           repeat ... gives real[iterations, B, T, O]         %y = contract (widen %n), (widen %v)
//             yield .., %y                                     repeat ... gives bf16[iterations, B, T, O]
//                                                                yield .., narrow %y
//
// What becomes bf16: weights and activations that a matrix product reads, queries, keys, values and gradients among
// them, and what a loop puts on stacks for the gradient's loop. A value is narrowed once, where it is made, and whoever
// else reads it reads the same numbers, so that it is not in memory twice. What stays real: all arithmetic, what loops
// carry (the residual stream and its gradient), statistics of rows, what has queries and keys of an attention,
// parameters that no product reads (norms, biases, tables that are only looked up), gradients of parameters. Of experts
// the matrices that rows are routed to are bf16, the gathered rows are read where they are stored. Why behind the differentiation: a
// gradient of the rounding would be 0. Why before fusion: `widen` then joins the kernel that reads, `narrow` the one
// that writes.
#include "passes/weights/NarrowStorage.h"

#include "ir/Attributes.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Options.h"
#include "ir/analysis/Views.h"
#include "ir/analysis/Weights.h"
#include "passes/Passes.h"
#include "passes/weights/WeightFormats.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

class Narrowing {
public:
  Narrowing(func::FuncOp function, bool ofExperts)
      : function(function), ofExperts(ofExperts), b(function.getContext()) {}
  void run();

private:
  Value narrowed(Value value);
  Value made(Value value);
  Value widened(Value narrow);
  void readNarrow(Value value, Value narrow);
  void findStream();
  void narrowStacks();
  void narrowOperands(ArrayRef<OpOperand *> reads);
  void narrowRows(RepeatOp repeat);
  void sinkWidens();
  void dropDead();
  void takeNarrow(BlockArgument argument, Value stack, OpOperand &use);

  func::FuncOp function;
  bool ofExperts;
  OpBuilder b;
  llvm::DenseMap<Value, Value> narrowOf, widenOf;
  llvm::DenseSet<Value> stream; ///< what loops carry, and what is added up to it
};

/// Weights of a softmax on the way to a sum over them: a kernel that makes both stores none.
bool isInside(Value value) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work = {value};
  while (!work.empty()) {
    Value next = work.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || !seen.insert(next).second)
      continue;
    if (isa<SoftmaxOp>(op))
      return true;
    if (isElementwise(op) || movesNarrow(op))
      work.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// Whether a loop's result is read as a stack by other loops and by nobody else.
bool onlyStacked(Value result) {
  return !result.use_empty() && llvm::all_of(result.getUses(), [](OpOperand &use) {
    if (auto loop = dyn_cast<RepeatOp>(use.getOwner()))
      return use.getOperandNumber() >= loop.getCarriedCount();
    auto around = isa<YieldOp>(use.getOwner()) ? dyn_cast<RepeatOp>(use.getOwner()->getParentOp()) : RepeatOp();
    return around && !around.isCarried(use.getOperandNumber()) && onlyStacked(around.getResult(use.getOperandNumber()));
  });
}

/// `value` in bf16: what it is made from by moves alone is narrowed instead.
Value Narrowing::narrowed(Value value) {
  if (auto widen = value.getDefiningOp<WidenOp>())
    return widen.getX();
  Value &known = narrowOf[value];
  if (known)
    return known;
  Value narrow = made(value);
  return narrowOf[value] = narrow;
}

Value Narrowing::made(Value value) {
  Operation *op = value.getDefiningOp();
  if (op)
    b.setInsertionPointAfter(op);
  else
    b.setInsertionPointToStart(cast<BlockArgument>(value).getOwner());
  NamedTensorType type = typeOf(value).withStorage(Storage::BF16);
  if (isa_and_nonnull<ParamOp>(op)) {
    Value narrow = copyStoredIn(Storage::BF16, b, op);
    readNarrow(value, narrow);
    return narrow;
  }
  if (movesNarrow(op) && llvm::all_of(op->getOperandTypes(), [](Type t) { return cast<NamedTensorType>(t).isF32(); })) {
    SmallVector<Value> operands;
    for (Value operand : SmallVector<Value>(op->getOperands()))
      operands.push_back(narrowed(operand));
    Value copy = copyStoredIn(Storage::BF16, b, op, operands);
    if (llvm::all_of(op->getOperands(), [](Value operand) { return operand.getDefiningOp<WidenOp>() != nullptr; }))
      readNarrow(value, copy); // as those of what is moved do
    return copy;
  }
  while (op && op->getNumResults() > 1 && isa<NarrowOp, WidenOp>(*b.getInsertionPoint()))
    b.setInsertionPointAfter(&*b.getInsertionPoint());
  Value narrow = NarrowOp::create(b, value.getLoc(), type, value);
  if (!stream.contains(value) && op && !isa<RepeatOp>(op))
    readNarrow(value, narrow);
  return narrow;
}

Value Narrowing::widened(Value narrow) {
  Value &known = widenOf[narrow];
  if (!known) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfterValue(narrow);
    known = WidenOp::create(b, narrow.getLoc(), typeOf(narrow).withKind(Kind::Real), narrow);
  }
  return known;
}

/// Whoever reads `value` reads the bf16 numbers.
void Narrowing::readNarrow(Value value, Value narrow) {
  Value wide = widened(narrow);
  value.replaceUsesWithIf(wide, [&](OpOperand &use) { return use.getOwner() != narrow.getDefiningOp(); });
}

/// Carried values and the sums that lead to them keep what f32 has: rounding them would add up over the layers.
void Narrowing::findStream() {
  SmallVector<Value> work;
  function.walk([&](RepeatOp repeat) {
    for (unsigned i = 0; i < repeat.getCarriedCount(); ++i)
      work.append({repeat.getBlock().getArgument(i), repeat.getYield().getValues()[i], repeat.getInits()[i]});
  });
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!stream.insert(value).second || !op || !(isa<AddOp, SubOp>(op) || isViewLike(op)))
      continue;
    for (Value operand : op->getOperands())
      if (typeOf(operand).getRank() == typeOf(value).getRank())
        work.push_back(operand);
  }
}

/// `argument` of a loop is bf16 from now on, as the stack that it is a part of.
void Narrowing::takeNarrow(BlockArgument argument, Value stack, OpOperand &use) {
  use.set(stack);
  argument.setType(typeOf(argument).withStorage(Storage::BF16));
  b.setInsertionPointToStart(argument.getOwner());
  auto wide = WidenOp::create(b, argument.getLoc(), typeOf(argument).withKind(Kind::Real), argument);
  argument.replaceAllUsesExcept(wide, wide);
  widenOf[argument] = wide;
}

void Narrowing::narrowStacks() {
  SmallVector<Value> stacks;
  function.walk([&](RepeatOp repeat) { // inner loops first
    for (unsigned i = repeat.getCarriedCount(); i < repeat.getNumResults(); ++i)
      if (Value result = repeat.getResult(i);
          typeOf(result).isF32() && onlyStacked(result) && !isStatistic(repeat.getYield().getValues()[i]))
        stacks.push_back(result);
  });
  for (Value result : stacks) {
    auto repeat = result.getDefiningOp<RepeatOp>();
    unsigned i = cast<OpResult>(result).getResultNumber();
    Value part = repeat.getYield().getValues()[i];
    repeat.getYield()->setOperand(i, narrowed(part));
    result.setType(typeOf(result).withStorage(Storage::BF16));
    for (OpOperand &use : llvm::make_early_inc_range(result.getUses())) {
      auto loop = dyn_cast<RepeatOp>(use.getOwner());
      if (loop) {
        takeNarrow(loop.getBlock().getArgument(use.getOperandNumber()), result, use);
      } else { // the stack of the loop around this one, which comes later
        b.setInsertionPoint(use.getOwner());
        use.set(widened(result));
      }
    }
  }
  function.walk<WalkOrder::PreOrder>([&](RepeatOp loop) { // a part of a stack that is a stack itself, in a loop within
    for (OpOperand &use : loop->getOpOperands().drop_front(loop.getCarriedCount()))
      if (auto widen = use.get().getDefiningOp<WidenOp>())
        takeNarrow(loop.getBlock().getArgument(use.getOperandNumber()), widen.getX(), use);
  });
}

void Narrowing::narrowOperands(ArrayRef<OpOperand *> reads) {
  for (OpOperand *read : reads) {
    Value operand = read->get(), from = withoutMoves(operand);
    if (GatherOp pick = routedWeight(operand)) {
      (void)narrowed(pick.getX()); // the pick follows (sinkWidens)
      continue;
    }
    auto param = from.getDefiningOp<ParamOp>();
    bool vector = param && typeOf(param.getResult()).getRank() < 2;
    if (!typeOf(operand).isF32() || operand.getDefiningOp<WidenOp>() || from.getDefiningOp<GatherOp>() || vector ||
        isInside(operand))
      continue;
    read->set(widened(narrowed(operand)));
  }
}

/// Rows that a loop over chunks takes and only narrows are in bf16.
void Narrowing::narrowRows(RepeatOp repeat) {
  for (unsigned i = repeat.getCarriedCount(); i < repeat.getNumOperands(); ++i) {
    BlockArgument argument = repeat.getBlock().getArgument(i);
    auto narrows = [](Operation *user) { return isa<NarrowOp>(user); };
    if (!typeOf(argument).isF32() || argument.use_empty() || !llvm::all_of(argument.getUsers(), narrows))
      continue;
    Value stack = narrowed(repeat->getOperand(i));
    repeat->setOperand(i, stack);
    argument.setType(typeOf(argument).withStorage(Storage::BF16));
    for (Operation *user : llvm::make_early_inc_range(argument.getUsers())) {
      user->getResult(0).replaceAllUsesWith(argument);
      user->erase();
    }
  }
}

/// Moves of what was widened move bf16 instead.
void Narrowing::sinkWidens() {
  SmallVector<Operation *> order;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (movesNarrow(op) || isa<GatherOp>(op))
      order.push_back(op);
  });
  for (Operation *op : order) {
    auto wide = [](Value operand) { return operand.getDefiningOp<WidenOp>() != nullptr; };
    if (isa<GatherOp>(op) ? !wide(op->getOperand(0)) : !llvm::all_of(op->getOperands(), wide))
      continue;
    for (OpOperand &operand : op->getOpOperands())
      if (auto widen = operand.get().getDefiningOp<WidenOp>())
        operand.set(widen.getX());
    Value result = op->getResult(0);
    result.setType(typeOf(result).withStorage(Storage::BF16));
    b.setInsertionPointAfter(op);
    auto widen = WidenOp::create(b, op->getLoc(), typeOf(result).withKind(Kind::Real), result);
    result.replaceAllUsesExcept(widen, widen);
  }
}

/// Narrowed values leave their moves behind.
void Narrowing::dropDead() {
  SmallVector<Operation *> all;
  function.walk([&](Operation *op) { all.push_back(op); });
  for (Operation *op : llvm::reverse(all))
    if (!isa<RepeatOp>(op) && isOpTriviallyDead(op))
      op->erase();
}

void Narrowing::run() {
  findStream();
  narrowStacks();
  SmallVector<OpOperand *> reads;
  function.walk([&](Operation *op) {
    llvm::append_range(reads, productOperands(op));
    auto scatter = dyn_cast<ScatterAddOp>(op);
    if (MulOp product = scatter && ofExperts ? summedByRoute(scatter) : MulOp())
      for (OpOperand &factor : product->getOpOperands())
        reads.push_back(&factor);
  });
  narrowOperands(reads);
  function.walk([&](RepeatOp repeat) { narrowRows(repeat); });
  sinkWidens();
  dropDead();
}

/// @update.*: a result `p.narrow` after all others.
void giveNarrow(func::FuncOp update) {
  Operation *end = update.getBody().front().getTerminator();
  OpBuilder b(end);
  for (unsigned i = 0; i < update.getNumResults(); ++i) {
    auto name = update.getResultAttrOfType<StringAttr>(i, nameAttr);
    if (!name || name.getValue() != "p")
      continue;
    Value p = end->getOperand(i);
    Value narrow = NarrowOp::create(b, p.getLoc(), typeOf(p).withStorage(Storage::BF16), p);
    unsigned last = update.getNumResults();
    end->insertOperands(last, narrow);
    (void)update.insertResult(last, narrow.getType(),
                              b.getDictionaryAttr(b.getNamedAttr(nameAttr, b.getStringAttr("p.narrow"))));
    return;
  }
}

/// A product for each expert sums over the depth that its codes are along; no kernel has the other direction.
LogicalResult checkExperts(ModuleOp module) {
  auto result = module.walk([](DequantizeOp op) -> WalkResult {
    if (!routedWeight(op.getX()))
      return WalkResult::advance();
    return op.emitError(
        "--quantize: weights that rows are routed to (experts) are in codes only in programs that are not "
        "trained; keep them as they are: --quantize FORMAT,*experts*=f32");
  });
  return failure(result.wasInterrupted());
}

class NarrowStoragePass : public PassWrapper<NarrowStoragePass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NarrowStoragePass)
  StringRef getArgument() const final { return "narrow-storage"; }
  StringRef getDescription() const final {
    return "Store in bf16 the weights of products, and what training reads again";
  }

  explicit NarrowStoragePass(RowsOfExperts rounded) : rounded(rounded) {}

  void runOnOperation() final {
    ModuleOp module = getOperation();
    ProgramOptions options = optionsOf(module);
    if (!options.train || (options.trainsAdapters() && !options.quantize.empty())) {
      WeightFormats formats = WeightFormats::of(options);
      CodedParameters ofLoss;
      for (auto function : module.getOps<func::FuncOp>())
        if (!function.isExternal() && roleOf(function) != Role::Gradient) {
          CodedParameters coded = storeWeights(function, formats, rounded);
          if (function.getSymName() == "loss")
            ofLoss = std::move(coded);
        }
      for (auto function : module.getOps<func::FuncOp>())
        if (roleOf(function) == Role::Gradient)
          storeWeightsOfGradient(function, formats, ofLoss);
      if (options.train && failed(checkExperts(module)))
        return signalPassFailure();
    }
    if (options.caches != Storage::F32)
      narrowCaches(module, options.caches, options.cachesOfSteps);
    if (!options.trainsNarrow())
      return;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.getSymName() == "loss" || roleOf(function) == Role::Gradient)
        Narrowing(function, rounded.bf16).run();
      if (roleOf(function) == Role::Update)
        giveNarrow(function);
    }
  }

private:
  RowsOfExperts rounded;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createNarrowStoragePass(RowsOfExperts rounded) {
  return std::make_unique<NarrowStoragePass>(rounded);
}
