// Takes: a function in the dialect. Gives: the values that are stored; a kernel computes each from stored values alone.
// Why in this order: what must be stored (arguments of contractions, loop results) is fixed first; then each attention
// and each contraction takes along what can be computed in passing; what still flows into two kernels is stored too.
//
//   before: %h = add(%x, contract(%a, %w)); ... many small operations
//   after:  roots {%h, ...}: "contract, add" is one group, whose only buffers are %x, %a, %w and %h
#include "passes/fuse/FusionGroups.h"
#include "passes/fuse/FusionValues.h"

#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "ir/analysis/AssumedLengths.h"
#include "ir/analysis/Distances.h"
#include "ir/analysis/Weights.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

static bool isLeaf(Operation *op) {
  return isa<ConstOp, ValuesOp, SizeOp, IndexOp>(op);
}

bool quern::passes::isBuffer(Value value) {
  Operation *op = value.getDefiningOp();
  return !op || isa<ParamOp, RememberOp, RecallOp, RepeatOp, LaunchOp>(op) || op->hasAttr(weightAttr);
}

/// Whether what is gathered from is in memory, or is made of parameters alone: the same for all that pick.
static bool isTable(GatherOp gather) {
  NamedTensorType type = typeOf(gather.getX());
  bool alone = llvm::all_of(type.getDims(), [&](DimAttr dim) {
    return dim.getStatic() && !typeOf(gather.getPositions()).has(dim.getName());
  });
  return isBuffer(gather.getX()) || (alone && type.getRank() > 2);
}

/// Rows of a table in codes: codes that are gathered are never stored, so what they stand for is.
static bool looksUpCodes(Operation *op) {
  auto gather = op && isa<DequantizeOp>(op) ? op->getOperand(0).getDefiningOp<GatherOp>() : GatherOp();
  return gather && typeOf(gather.getX()).getRank() == 2;
}

bool quern::passes::overRunTimeDim(NamedTensorType type, ArrayRef<StringRef> dims) {
  return llvm::any_of(dims, [&](StringRef name) { return !type.dim(name).getStatic(); });
}

FusionGroups::FusionGroups(func::FuncOp function, const Without &without) {
  collect(function.getBody().front());
  force(without);
  joinAttentions();
  if (!without.has("fuse-elementwise"))
    joinUpdate(function);
  separate(without);
  if (!without.has("fuse-branches"))
    branch();
  joinCodes();
  if (!without.has("fuse-epilogues"))
    extendEpilogues();
  splitShared();
  roundOnReading();
  dropImpossible();
  joinCodes(); // of what was dropped
  computeViews();
  remarkFusion(order, roots, [&](ContractOp contract) -> size_t {
    for (auto [index, source] : jointSource)
      if (source == contract.getResult() && !roots.contains(source))
        return joint[index].size();
    return 1;
  });
}

void FusionGroups::collect(Block &block) {
  for (Operation &op : block) {
    order.push_back(&op);
    if (auto repeat = dyn_cast<RepeatOp>(op))
      collect(repeat.getBlock());
  }
}

bool FusionGroups::isCheap(Value value) {
  if (auto it = cheap.find(value); it != cheap.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  bool simple = op && (isLeaf(op) || isa<NegOp, AbsOp, NotOp, AddOp, SubOp, MulOp, FloorDivOp, ModOp, MaxOp, MinOp,
                                         AndOp, OrOp, CompareOp, WhereOp, ToIntOp, ToRealOp, RenameOp, ExpandOp>(op));
  simple = simple && llvm::all_of(op->getOperands(), [&](Value operand) { return isCheap(operand); });
  return cheap[value] = simple;
}

Value quern::passes::windowed(Value value) {
  SmallVector<Operation *> chain;
  Value base = value;
  while (Operation *op = base.getDefiningOp()) {
    if (!isViewLike(op))
      break;
    chain.push_back(op);
    base = op->getOperand(0);
  }
  // The longest part of the chain that strides can say, seen from `value`.
  while (!chain.empty()) {
    std::optional<View> view = View::dense(base);
    for (Operation *op : llvm::reverse(chain))
      if (view)
        view = viewThrough(op, *view);
    if (view)
      return base;
    base = chain.back()->getResult(0);
    chain.pop_back();
  }
  return value;
}

void FusionGroups::require(Value value) {
  if (looksUpCodes(value.getDefiningOp()))
    return store(value);
  if (Operation *widen = value.getDefiningOp(); widensStored(widen)) { // by whoever reads what is stored in fewer bits
    for (Value stored : widen->getOperands())
      require(stored);
    return;
  }
  if (auto codes = value.getDefiningOp<QuantizeOp>(); codes && !isBuffer(value)) // codes of rows are never stored
    return require(codes.getX());
  if (isBuffer(value) || isCheap(value) || inner.contains(value))
    return;
  Value base = windowed(value);
  if (isBuffer(base) || isCheap(base))
    return;
  if (base == value)
    return store(value);
  if (roots.insert(base).second)
    forWindows.insert(base);
}

void FusionGroups::store(Value value) {
  if (value.getDefiningOp<RepeatOp>()) // a loop stores its results itself
    return;
  roots.insert(value);
  forWindows.erase(value);
}

void FusionGroups::force(const Without &without) {
  for (Operation *op : order) {
    // Whatever hands a buffer on needs exactly this value stored, in this order of dimensions.
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      for (Value init : repeat.getInits())
        if (init.getDefiningOp()) // what the loop around carries is stored there
          store(init);
      for (Value stack : repeat.getStacks()) {
        auto copy = stack.getDefiningOp<PermuteOp>();
        if (copy && copy.getX().getType() == copy.getType()) // OutlineKernels: it has gaps where it is
          roots.insert(stack);
        else
          require(stack);
      }
    } else if (isa<func::ReturnOp, YieldOp, RememberOp, StoreOp>(op))
      for (Value operand : op->getOperands())
        store(operand);
    if (auto scatter = dyn_cast<ScatterAddOp>(op))
      if (MulOp product = summedByRoute(scatter)) { // as a contraction: its factors are read again and again
        require(product.getA());
        require(product.getB());
        inner.insert(product);
      }
    if (op->getNumResults() == 1 && distanceLookup(op->getResult(0))) // of every query and key, once for each distance
      require(op->getOperand(0));
    if (isa<ArgmaxOp, TopKOp, CumsumOp>(op))
      for (Value result : op->getResults())
        store(result);
    if (isa<ScanOp>(op)) { // a kernel of its own
      for (Value operand : op->getOperands())
        require(operand);
      for (Value result : op->getResults())
        if (!result.use_empty())
          store(result);
    }
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      for (ValueRange read : {ValueRange(attention.getQueries()), ValueRange(attention.getKeys())})
        for (Value operand : read)
          require(operand);
      require(attention.getValues());
    }
    if (auto gradient = dyn_cast<AttentionGradientOp>(op))
      for (ValueRange read :
           {ValueRange(gradient.getRows()), ValueRange(gradient.getOthers()), ValueRange(gradient.getValues())})
        for (Value operand : read)
          require(operand);
    if (auto contract = dyn_cast<ContractOp>(op))
      for (Value operand : contract->getOperands()) {
        // Weights of chosen experts are read where they are stored, without a copy.
        Value gathered = operand.hasOneUse() ? storedBehind(operand) : operand;
        if (auto gather = gathered.getDefiningOp<GatherOp>(); gather && gather->hasOneUse() && isTable(gather)) {
          require(gather.getX());
          require(gather.getPositions());
          continue;
        }
        if (!without.has("fuse-elementwise") && isTapped(contract, operand)) {
          takeTaps(operand);
          continue;
        }
        bool prologues = !without.has("fuse-prologues") && !without.has("fuse-norms");
        if (!prologues || !takePrologue(operand, contract))
          require(operand);
      }
    // Made outside of a loop and used inside: once, not in every iteration. Also what only the first call makes.
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!def || isLeaf(def))
        continue;
      bool outside = def->getBlock() != op->getBlock();
      bool once = def->hasAttr(onceAttr) && !op->hasAttr(onceAttr);
      if (outside || once)
        require(operand);
    }
  }
  for (Operation *op : order) {
    auto reduce = dyn_cast<ReduceOp>(op);
    if (reduce && overRunTimeDim(typeOf(reduce.getX()), names(reduce.getDims())))
      store(reduce.getResult());
  }
}

/// Stores what a rule that is left out would have kept inside of a kernel.
void FusionGroups::separate(const Without &without) {
  for (Operation *op : order) {
    bool apart = (isa<ContractOp, AttentionOp>(op) && without.has("fuse-epilogues")) ||
                 (isa<ReduceOp>(op) && without.has("fuse-norms")) ||
                 (isElementwise(op) && without.has("fuse-elementwise"));
    if (!apart || inner.contains(op->getResult(0)) || isCheap(op->getResult(0)))
      continue;
    roots.insert(op->getResult(0));
  }
}

/// A step from one stored value of the same size, with smaller ones (x - max of each row): who reads the stored value
/// instead reads no more, and the result is never written. Not with a state: the later of two readers would find the
/// next one there.
bool FusionGroups::isLight(Operation *op) {
  if (!isa<NegOp, AddOp, SubOp, MulOp>(op) || !typeOf(op->getResult(0)).isReal())
    return false;
  Size count = typeOf(op->getResult(0)).elements();
  Value large;
  for (Value operand : op->getOperands()) {
    if (operand.getDefiningOp<RecallOp>())
      return false;
    if (typeOf(operand).elements() != count)
      continue;
    if (large && large != operand)
      return false;
    large = operand;
  }
  large = large ? storedBehind(large) : large;
  return large && (isBuffer(large) || roots.contains(large));
}

/// What flows into two kernels is stored, unless it is cheap; and softmax along time is a kernel of its own.
void FusionGroups::splitShared() {
  DenseMap<Value, SmallVector<Value, 2>> reach; // the roots that a value flows into without passing another
  for (Operation *op : llvm::reverse(order))
    for (Value result : op->getResults()) {
      if (isBuffer(result) || roots.contains(result))
        continue;
      SmallVector<Value, 2> &into = reach[result];
      for (Operation *user : result.getUsers())
        for (Value next : user->getResults()) {
          SmallVector<Value, 2> targets =
              roots.contains(next) || isBuffer(next) ? SmallVector<Value, 2>{next} : reach[next];
          for (Value &target : targets) // results of one kernel count once
            if (auto group = jointOf.find(target); group != jointOf.end())
              target = joint[group->second][0];
          for (Value target : targets)
            if (!llvm::is_contained(into, target))
              into.push_back(target);
        }
      bool timed = isa<SoftmaxOp>(op) && !inner.contains(result) &&
                   overRunTimeDim(typeOf(op->getOperand(0)), names(cast<SoftmaxOp>(op).getDims()));
      bool shared = into.size() > 1 && (!widensStored(op) || looksUpCodes(op)) && !isa<QuantizeOp>(op) &&
                    !isCheap(result) && !isLeaf(op) && typeOf(result).getRank() && !isLight(op) &&
                    !inner.contains(result);
      if (!timed && !shared)
        continue;
      Value base = timed ? result : windowed(result);
      if (isBuffer(base))
        continue;
      roots.insert(base);
      into = {base};
    }
}

/// What is stored as real in any case is not stored a second time in bf16 for those who compute with it: they round
/// what they read, on its way into their copies, and read what they would in f32. A launch and a copy less.
void FusionGroups::roundOnReading() {
  for (Operation *op : order) {
    auto narrow = dyn_cast<NarrowOp>(op);
    if (!narrow || !roots.contains(narrow.getResult()) || jointOf.contains(narrow.getResult()))
      continue;
    Value real = narrow.getX(), base = windowed(real);
    bool stored = llvm::any_of(ArrayRef<Value>{real, base},
                               [&](Value value) { return isBuffer(value) || roots.contains(value); });
    if (stored && llvm::all_of(narrow->getUsers(), [](Operation *user) { return isa<WidenOp>(user); }))
      roots.erase(narrow.getResult());
  }
}

void FusionGroups::computeViews() {
  auto dense = [&](Value value) { views[value] = View::dense(value); };
  for (Operation *op : order) {
    if (auto function = dyn_cast<func::FuncOp>(op->getParentOp()))
      for (BlockArgument argument : function.getArguments())
        if (!views.contains(argument))
          dense(argument);
    if (auto repeat = dyn_cast<RepeatOp>(op))
      for (BlockArgument argument : repeat.getBlock().getArguments())
        dense(argument);
    for (Value result : op->getResults()) {
      if (isBuffer(result) || roots.contains(result)) {
        views[result] = ownView(result);
      } else if (isViewLike(op)) {
        if (const View *operand = viewOf(op->getOperand(0)))
          if (std::optional<View> view = viewThrough(op, *operand))
            views[result] = *view;
      }
    }
  }
}
