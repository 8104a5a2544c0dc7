// Takes: a function in the dialect. Gives: the values that are stored; a kernel computes each from stored values alone.
// Why in this order: what must be stored (arguments of contractions, loop results) is fixed first; then each attention
// and each contraction takes along what can be computed in passing; what still flows into two kernels is stored too.
//
//   before: %h = add(%x, contract(%a, %w)); ... many small operations
//   after:  roots {%h, ...}: "contract, add" is one group, whose only buffers are %x, %a, %w and %h
#include "passes/FusionGroups.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

bool quern::passes::isElementwise(Operation *op) {
  return isa<NegOp, AbsOp, ExpOp, LogOp, Log1pOp, SqrtOp, SinOp, CosOp, TanhOp, SigmoidOp, ErfOp, FloorOp, CeilOp,
             RoundOp, ToIntOp, ToRealOp, NotOp, AddOp, SubOp, MulOp, DivOp, FloorDivOp, ModOp, PowOp, MaxOp, MinOp,
             AndOp, OrOp, CompareOp, WhereOp>(op);
}

static bool isLeaf(Operation *op) { return isa<ConstOp, ValuesOp, SizeOp, IndexOp>(op); }

/// Stored before any kernel runs: arguments, parameters, caches.
static bool isBuffer(Value value) {
  Operation *op = value.getDefiningOp();
  return !op || isa<ParamOp, RememberOp, RecallOp, RepeatOp, LaunchOp>(op);
}

static bool overRunTimeDim(NamedTensorType type, ArrayRef<StringRef> dims) {
  return llvm::any_of(dims, [&](StringRef name) { return !type.dim(name).getStatic(); });
}

FusionGroups::FusionGroups(func::FuncOp function, const Without &without) {
  collect(function.getBody().front());
  force();
  if (!without.has("fuse-attention"))
    findAttention();
  separate(without);
  if (!without.has("fuse-epilogues"))
    extendEpilogues();
  splitShared();
  computeViews();
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
  bool simple = op && (isLeaf(op) || isa<NegOp, AbsOp, NotOp, AddOp, SubOp, MulOp, FloorDivOp, ModOp, MaxOp, MinOp, AndOp,
                                         OrOp, CompareOp, WhereOp, ToIntOp, ToRealOp, RenameOp, ExpandOp>(op));
  simple = simple && llvm::all_of(op->getOperands(), [&](Value operand) { return isCheap(operand); });
  return cheap[value] = simple;
}

/// The value that `value` is a window of, as far as strides can say it if that one is stored densely.
static Value windowed(Value value) {
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
  if (isBuffer(value) || isCheap(value) || inner.contains(value))
    return;
  Value base = windowed(value);
  if (!isBuffer(base) && !isCheap(base))
    roots.insert(base);
}

void FusionGroups::force() {
  for (Operation *op : order) {
    // Whatever hands a buffer on needs exactly this value stored, in this order of dimensions.
    if (isa<func::ReturnOp, YieldOp, RepeatOp, RememberOp, StoreOp>(op))
      for (Value operand : op->getOperands())
        roots.insert(operand);
    if (isa<ArgmaxOp, TopKOp, CumsumOp>(op))
      for (Value result : op->getResults())
        roots.insert(result);
    if (auto contract = dyn_cast<ContractOp>(op))
      for (Value operand : contract->getOperands()) {
        // Weights of chosen experts are read where they lie: no copy of them is stored.
        if (auto gather = operand.getDefiningOp<GatherOp>(); gather && gather->hasOneUse() && isBuffer(gather.getX())) {
          require(gather.getPositions());
          continue;
        }
        require(operand);
      }
    // Made outside of a loop and used inside: once, not in every turn. Also what only the first call makes.
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!def || isLeaf(def))
        continue;
      bool outside = def->getBlock() != op->getBlock();
      bool once = def->hasAttr("quern.once") && !op->hasAttr("quern.once");
      if (outside || once)
        require(operand);
    }
  }
  for (Operation *op : order) {
    auto reduce = dyn_cast<ReduceOp>(op);
    if (reduce && overRunTimeDim(typeOf(reduce.getX()), names(reduce.getDims())))
      roots.insert(reduce.getResult());
  }
}

/// Follows everything that is computed from `start` through operations that `allowed` accepts. Calls `closed` with each
/// value that all of it flows into; stops at roots.
static void follow(Value start, const DenseSet<Value> &roots, function_ref<bool(Operation *)> allowed,
                   function_ref<void(Value, const DenseSet<Value> &)> closed) {
  Block *block = start.getParentBlock();
  DenseSet<Value> region = {start};
  if (!start.getDefiningOp())
    return;
  auto next = ++Block::iterator(start.getDefiningOp());
  for (int steps = 0; next != block->end() && steps < 400; ++next, ++steps) {
    Operation *op = &*next;
    if (llvm::none_of(op->getOperands(), [&](Value v) { return region.contains(v); }))
      continue;
    if (!allowed(op))
      return;
    region.insert(op->getResult(0));
    // Closed: only the newest value is used by anything outside of the region.
    bool only = llvm::all_of(region, [&](Value v) {
      return v == op->getResult(0) ||
             llvm::all_of(v.getUsers(), [&](Operation *user) {
               return user->getNumResults() == 1 && region.contains(user->getResult(0));
             });
    });
    if (only) {
      closed(op->getResult(0), region);
      if (roots.contains(op->getResult(0)))
        return;
    } else if (roots.contains(op->getResult(0))) {
      return;
    }
  }
}

/// Scores, mask, softmax and weighted sum are one group: the S x T matrix is never stored.
void FusionGroups::findAttention() {
  for (Operation *op : order) {
    auto scores = dyn_cast<ContractOp>(op);
    if (!scores)
      continue;
    DenseSet<Value> found;
    bool softmax = false;
    auto allowed = [&](Operation *user) {
      softmax |= isa<SoftmaxOp>(user);
      return isElementwise(user) || isa<SoftmaxOp, ConcatOp, CutOp, RenameOp, PermuteOp, UnitOp, SqueezeOp>(user);
    };
    follow(scores.getResult(), {}, allowed, [&](Value end, const DenseSet<Value> &region) {
      if (!softmax || !end.hasOneUse())
        return;
      auto sum = dyn_cast<ContractOp>(*end.getUsers().begin());
      auto over = [&](StringRef name) { return typeOf(end).has(name); };
      if (sum && sum->getBlock() == scores->getBlock() && llvm::all_of(names(sum.getDims()), over))
        found = region;
    });
    for (Value value : found) {
      inner.insert(value);
      roots.erase(value);
    }
  }
}

/// The last value that a contraction's result can flow into element by element.
Value FusionGroups::epilogueEnd(Value start) {
  Value end = start;
  if (roots.contains(start) || !start.getDefiningOp())
    return end;
  Size count = typeOf(start).elements();
  auto allowed = [&](Operation *op) {
    bool shape = isa<RenameOp, SplitOp, MergeOp, PermuteOp, UnitOp, SqueezeOp>(op);
    return (isElementwise(op) || shape) && typeOf(op->getResult(0)).elements() == count;
  };
  DenseSet<Value> claimed = roots;
  follow(start, claimed, allowed, [&](Value value, const DenseSet<Value> &) {
    // Shape operations at the end are left outside: they become views.
    if (!isViewLike(value.getDefiningOp()) || roots.contains(value))
      end = value;
  });
  return end;
}

void FusionGroups::extendEpilogues() {
  DenseSet<Value> taken; // values that already belong to a contraction
  for (Operation *op : order) {
    auto contract = dyn_cast<ContractOp>(op);
    if (!contract || inner.contains(contract.getResult()))
      continue;
    Value end = epilogueEnd(contract.getResult());
    // A second contraction ends before what the first one took.
    if (taken.contains(end))
      end = contract.getResult();
    roots.insert(end);
    taken.insert(end);
  }
}

/// Stores what a rule that is left out would have kept inside of a kernel.
void FusionGroups::separate(const Without &without) {
  for (Operation *op : order) {
    bool apart = (isa<ContractOp>(op) && without.has("fuse-epilogues")) || (isa<ReduceOp>(op) && without.has("fuse-norms")) ||
                 (isElementwise(op) && without.has("fuse-elementwise"));
    if (!apart || inner.contains(op->getResult(0)) || isCheap(op->getResult(0)))
      continue;
    roots.insert(op->getResult(0));
  }
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
          SmallVector<Value, 2> targets = roots.contains(next) || isBuffer(next) ? SmallVector<Value, 2>{next} : reach[next];
          for (Value target : targets)
            if (!llvm::is_contained(into, target))
              into.push_back(target);
        }
      bool timed = isa<SoftmaxOp>(op) && !inner.contains(result) &&
                   overRunTimeDim(typeOf(op->getOperand(0)), names(cast<SoftmaxOp>(op).getDims()));
      bool shared = into.size() > 1 && !isCheap(result) && !isLeaf(op) && typeOf(result).getRank();
      if (!timed && !shared)
        continue;
      Value base = timed ? result : windowed(result);
      if (isBuffer(base))
        continue;
      roots.insert(base);
      into = {base};
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
