// Takes: a function in the dialect. Gives: the values that are stored; a kernel computes each from stored values alone.
// Why in this order: what must be stored (arguments of contractions, loop results) is fixed first; then each attention
// and each contraction takes along what can be computed in passing; what still flows into two kernels is stored too.
//
//   before: %h = add(%x, contract(%a, %w)); ... many small operations
//   after:  roots {%h, ...}: "contract, add" is one group, whose only buffers are %x, %a, %w and %h
#include "passes/fuse/FusionGroups.h"

#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "ir/analysis/AssumedLengths.h"
#include "ir/analysis/Weights.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

static bool isLeaf(Operation *op) {
  return isa<ConstOp, ValuesOp, SizeOp, IndexOp>(op);
}

/// Stored before any kernel runs: arguments, parameters, caches.
static bool isBuffer(Value value) {
  Operation *op = value.getDefiningOp();
  return !op || isa<ParamOp, RememberOp, RecallOp, RepeatOp, LaunchOp>(op) || op->hasAttr(weightAttr);
}

/// Whether what is picked from lies in memory, or is made of parameters alone: the same for all that pick.
static bool isTable(GatherOp gather) {
  NamedTensorType type = typeOf(gather.getX());
  bool alone = llvm::all_of(type.getDims(), [&](DimAttr dim) {
    return dim.getStatic() && !typeOf(gather.getPositions()).has(dim.getName());
  });
  return isBuffer(gather.getX()) || (alone && type.getRank() > 2);
}

/// A projection: one operand is a parameter, or several that are packed into one.
static bool readsWeight(ContractOp contract) {
  return llvm::any_of(contract->getOperands(), [](Value operand) {
    operand = storedBehind(operand);
    return parameterOf(operand) || joinedWeight(operand);
  });
}

static bool overRunTimeDim(NamedTensorType type, ArrayRef<StringRef> dims) {
  return llvm::any_of(dims, [&](StringRef name) { return !type.dim(name).getStatic(); });
}

FusionGroups::FusionGroups(func::FuncOp function, const Without &without) {
  collect(function.getBody().front());
  force(without);
  joinStatistics();
  findAttentionGradient();
  separate(without);
  if (!without.has("fuse-branches"))
    branch();
  if (!without.has("fuse-epilogues"))
    extendEpilogues();
  splitShared();
  roundOnReading();
  dropImpossible();
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
  if (widensStored(value.getDefiningOp())) // whoever reads what is stored in fewer bits widens it
    return require(storedBehind(value));
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
        roots.insert(init);
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
      if (MulOp product = summedByPick(scatter)) { // as a contraction: its factors are read again and again
        require(product.getA());
        require(product.getB());
        inner.insert(product);
      }
    if (op->hasAttr(distanceAttr)) // looked up for every query and key, made once for each distance
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
    if (auto contract = dyn_cast<ContractOp>(op))
      for (Value operand : contract->getOperands()) {
        // Weights of chosen experts are read where they lie: no copy of them is stored.
        Value picked = operand.hasOneUse() ? storedBehind(operand) : operand;
        if (auto gather = picked.getDefiningOp<GatherOp>(); gather && gather->hasOneUse() && isTable(gather)) {
          require(gather.getX());
          require(gather.getPositions());
          continue;
        }
        bool prologues = !without.has("fuse-prologues") && !without.has("fuse-norms");
        if (!prologues || !takePrologue(operand, contract))
          require(operand);
      }
    // Made outside of a loop and used inside: once, not in every turn. Also what only the first call makes.
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

/// How many operations are looked at around a contraction. It bounds compile time; what lies farther away is another
/// kernel's, which a remark says.
static constexpr int searchLimit = 400;

static void remarkLimit(Value start) {
  remark::missed(start.getLoc(), remark::RemarkOpts::name("search").category("fusion"))
      << "what is computed with this was looked for among " + std::to_string(searchLimit) +
             " operations only; what lies farther away is in other kernels";
}

/// Whether something that `region` holds is used at or behind `end`, where a search stopped.
static bool goesOn(ArrayRef<Value> region, Operation *end) {
  return llvm::any_of(region, [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return user->getBlock() == end->getBlock() && !user->isBeforeInBlock(end);
    });
  });
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
  for (int steps = 0; next != block->end(); ++next) {
    Operation *op = &*next;
    if (++steps > searchLimit) {
      if (goesOn(llvm::to_vector(region), op))
        remarkLimit(start);
      return;
    }
    if (llvm::none_of(op->getOperands(), [&](Value v) { return region.contains(v); }))
      continue;
    if (!allowed(op))
      return;
    region.insert(op->getResult(0));
    // Closed: only the newest value is used by anything outside of the region.
    bool only = llvm::all_of(region, [&](Value v) {
      return v == op->getResult(0) || llvm::all_of(v.getUsers(), [&](Operation *user) {
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

/// A norm that only this contraction reads: computed in its kernel, once per row. What it is made from is stored.
bool FusionGroups::takePrologue(Value value, ContractOp contract) {
  Operation *last = value.getDefiningOp();
  if (!value.hasOneUse() || !readsWeight(contract) || !last || last->getBlock() != contract->getBlock())
    return false;
  auto fits = [&](Operation *op) {
    auto reduce = dyn_cast<ReduceOp>(op);
    bool along = reduce && !overRunTimeDim(typeOf(reduce.getX()), names(reduce.getDims()));
    return (isElementwise(op) || along || isa<QuantizeOp>(op)) && op->hasAttr(onceAttr) == contract->hasAttr(onceAttr);
  };
  // Backwards: an operation belongs to it if nobody else needs its result.
  DenseSet<Operation *> ops = {contract};
  SmallVector<Value> from;
  bool reduces = false;
  Operation *op = last;
  for (int steps = 0; op; op = op->getPrevNode()) {
    if (++steps > searchLimit) {
      bool more = llvm::any_of(ops, [&](Operation *member) {
        return llvm::any_of(member->getOperands(), [&](Value operand) {
          Operation *def = operand.getDefiningOp();
          return def && def->getBlock() == op->getBlock() && !op->isBeforeInBlock(def);
        });
      });
      if (more)
        remarkLimit(contract.getResult());
      break;
    }
    auto uses = llvm::make_filter_range(op->getUsers(), [&](Operation *user) { return ops.contains(user); });
    if (uses.empty() || (op != last && llvm::is_contained(contract->getOperands(), op->getResult(0))))
      continue;
    if (fits(op) && llvm::all_of(op->getUsers(), [&](Operation *user) { return ops.contains(user); })) {
      ops.insert(op);
      reduces |= isa<ReduceOp>(op);
    } else {
      from.push_back(op->getResult(0));
    }
  }
  if (!reduces)
    return false;
  for (Value stored : from)
    require(stored);
  return true;
}

/// Whether `value` is known before `place`, once what it needs has been moved there. `within`: values of the same
/// kernel.
bool FusionGroups::availableAt(Operation *place, Value value, const DenseSet<Value> &within) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != place->getBlock() || op->isBeforeInBlock(place) || within.contains(value))
    return true;
  if (isa<ParamOp>(op) || op->hasAttr(weightAttr))
    return true;
  if (roots.contains(value) || isBuffer(value) || op->getNumRegions())
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) { return availableAt(place, operand, within); });
}

/// The values in which all of a contraction's result ends, if they are several or it is cut or joined on the way.
SmallVector<Value> FusionGroups::branchesOf(ContractOp contract) {
  Value start = contract.getResult();
  auto elements = [](Value value) { return atAssumedLengths(typeOf(value).elements()); };
  auto stays = [&](Value value) { return roots.contains(value) && !forWindows.contains(value); };
  llvm::SetVector<Value> region, ends;
  region.insert(start);
  bool parts = false;
  auto next = ++Block::iterator(contract);
  for (int steps = 0; next != contract->getBlock()->end(); ++next) {
    Operation *op = &*next;
    if (++steps > searchLimit) {
      if (goesOn(region.getArrayRef(), op))
        remarkLimit(start);
      break;
    }
    auto reads = [&](Value v) { return region.contains(v) && !stays(v); };
    if (llvm::none_of(op->getOperands(), reads))
      continue;
    bool shape = isa<RenameOp, SplitOp, MergeOp, CutOp, ConcatOp, UnitOp, SqueezeOp, PermuteOp>(op);
    bool along = (isElementwise(op) || shape) && op->getNumResults() == 1 &&
                 op->hasAttr(onceAttr) == contract->hasAttr(onceAttr) && elements(op->getResult(0)) <= elements(start);
    if (!along)
      continue;
    parts |= isa<CutOp, ConcatOp>(op);
    region.insert(op->getResult(0));
  }
  int64_t stored = 0;
  for (Value value : region) {
    bool all = llvm::all_of(value.getUsers(), [&](Operation *user) {
      return user->getNumResults() == 1 && region.contains(user->getResult(0)) &&
             user->getBlock() == contract->getBlock();
    });
    if (all && !stays(value))
      continue;
    ends.insert(value);
    stored += elements(value);
  }
  // Windows of one value need no kernel that writes them apart.
  bool windows =
      !ends.empty() && llvm::all_of(ends, [&](Value end) { return !stays(end) && windowed(end) == windowed(ends[0]); });
  if (!parts || ends.empty() || windows || ends.size() > 6 || ends.contains(start) || stored > elements(start) * 3 / 2)
    return {};
  for (Value value : region)
    if (forWindows.erase(value)) // its windows are stored themselves
      roots.erase(value);
  return SmallVector<Value>(ends.begin(), ends.end());
}

/// One kernel for a contraction whose parts go different ways: queries, keys and values, each with its rotation.
void FusionGroups::branch() {
  for (Operation *op : order) {
    auto contract = dyn_cast<ContractOp>(op);
    if (!contract || inner.contains(contract.getResult()) || !readsWeight(contract))
      continue;
    if (roots.contains(contract.getResult()) && !forWindows.contains(contract.getResult()))
      continue;
    SmallVector<Value> ends = branchesOf(contract);
    if (ends.empty())
      continue;
    branched.insert(contract.getResult());
    roots.insert(ends.begin(), ends.end());
    for (Value end : ends)
      jointOf[end] = joint.size();
    jointSource[joint.size()] = contract.getResult();
    joint.push_back(std::move(ends));
  }
}

/// A joint kernel runs where its first result is needed: all that it reads must be known there.
void FusionGroups::dropImpossible() {
  for (auto [index, ends] : llvm::enumerate(joint)) {
    Operation *place = ends[0].getDefiningOp();
    DenseSet<Value> within(ends.begin(), ends.end());
    SmallVector<Value> work(ends.begin(), ends.end());
    DenseSet<Value> seen;
    bool fits = true;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      if (!within.contains(value) && (roots.contains(value) || isBuffer(value))) {
        fits &= availableAt(place, value, {});
        continue;
      }
      if (Operation *op = value.getDefiningOp())
        work.append(op->operand_begin(), op->operand_end());
    }
    if (fits)
      continue;
    if (Value source = jointSource.lookup(index)) // else each result has a kernel of its own
      roots.insert(source);
    for (Value end : ends)
      jointOf.erase(end);
  }
}

void FusionGroups::extendEpilogues() {
  DenseSet<Value> taken; // values that already belong to a contraction
  for (Operation *op : order) {
    auto scatter = dyn_cast<ScatterAddOp>(op);
    if (!isa<ContractOp, AttentionOp>(op) && !(scatter && summedByPick(scatter)))
      continue;
    Value product = op->getResult(0);
    if (inner.contains(product) || branched.contains(product))
      continue;
    Value end = epilogueEnd(product);
    // A second contraction ends before what the first one took.
    if (taken.contains(end))
      end = product;
    roots.insert(end);
    taken.insert(end);
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
      bool shared = into.size() > 1 && !widensStored(op) && !isa<QuantizeOp>(op) && !isCheap(result) && !isLeaf(op) &&
                    typeOf(result).getRank() && !isLight(op) && !inner.contains(result);
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
