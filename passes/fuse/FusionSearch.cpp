// Takes: contractions and attentions of a function. Gives: what each takes into its kernel: the norm before it, what follows
// element by element, parts that go different ways. Why apart from FusionGroups.cpp: these rules search along operations;
// the others decide by what a value is.
#include "passes/fuse/FusionGroups.h"
#include "passes/fuse/FusionValues.h"

#include "ir/Attributes.h"
#include "ir/analysis/AssumedLengths.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Weights.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

/// A projection: one operand is a parameter, or several that are packed into one.
static bool readsWeight(ContractOp contract) {
  return llvm::any_of(contract->getOperands(), [](Value operand) {
    operand = storedBehind(operand);
    return parameterOf(operand) || joinedWeight(operand);
  });
}

/// How many operations are looked at around a contraction. It bounds compile time; what is farther away is another
/// kernel's, which a remark says.
static constexpr int searchLimit = 400;

static void remarkLimit(Value start) {
  remark::missed(start.getLoc(), remark::RemarkOpts::name("search").category("fusion"))
      << "what is computed with this was looked for among " + std::to_string(searchLimit) +
             " operations only; what is farther away is in other kernels";
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

bool quern::passes::isTapped(ContractOp contract, Value operand) {
  constexpr int64_t most = 16;
  NamedTensorType type = typeOf(operand);
  int64_t terms = 1;
  for (StringRef name : names(contract.getDims())) {
    DimAttr dim = type.dim(name);
    if (!dim || !dim.getStatic() || type.getDims().back() == dim)
      return false;
    terms *= std::min(*dim.getStatic(), most + 1);
  }
  return terms <= most && llvm::all_of(contract->getOperands(), [&](Value other) {
           return llvm::all_of(typeOf(other).getDims(), [&](DimAttr dim) { return type.has(dim.getName()); });
         });
}

/// Numbers that are read once are made where they are read, up to what they are gathered from.
void FusionGroups::takeTaps(Value value) {
  Operation *op = value.getDefiningOp();
  if (isBuffer(value) || isCheap(value))
    return;
  if (auto gather = dyn_cast<GatherOp>(op); gather && value.hasOneUse()) {
    require(gather.getX());
    require(gather.getPositions());
  } else if (value.hasOneUse() && isElementwise(op)) {
    for (Value operand : op->getOperands())
      if (typeOf(operand).elements() == typeOf(value).elements())
        takeTaps(operand);
      else
        require(operand);
  } else {
    require(value);
  }
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

/// The largest number of a row, which a cache's codes are counted in: few numbers, of the very kernel that has the row.
static bool isScale(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.getReduction() == Reduction::max &&
         !overRunTimeDim(typeOf(reduce.getX()), names(reduce.getDims()));
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
    bool scale = isScale(op);
    bool along = (isElementwise(op) || shape || scale) && op->getNumResults() == 1 &&
                 op->hasAttr(onceAttr) == contract->hasAttr(onceAttr) && elements(op->getResult(0)) <= elements(start);
    if (!along)
      continue;
    parts |= isa<CutOp, ConcatOp>(op) || scale;
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

/// Codes of a cache's new rows, and the scales that they are counted in: one kernel gives both, whatever makes the rows.
void FusionGroups::joinCodes() {
  for (Operation *op : order) {
    auto codes = dyn_cast<NarrowOp>(op);
    if (!codes || typeOf(codes.getResult()).getStorage() != Storage::I8 || jointOf.contains(codes.getResult()))
      continue;
    SmallVector<Value> work = {codes.getX()};
    while (!work.empty()) {
      Operation *from = work.pop_back_val().getDefiningOp();
      if (auto scale = dyn_cast_or_null<NarrowOp>(from); scale && roots.contains(scale.getResult())) {
        if (!jointOf.contains(scale.getResult()))
          makeJoint({scale.getResult(), codes.getResult()});
        break;
      }
      if (from && isElementwise(from))
        work.append(from->operand_begin(), from->operand_end());
    }
  }
}

/// What an update gives, element by element: one kernel, so that memory is read once, and each result may be written over
/// what it is made of.
void FusionGroups::joinUpdate(func::FuncOp function) {
  if (roleOf(function) != Role::Update)
    return;
  ValueRange results = function.getBody().front().getTerminator()->getOperands();
  bool together = llvm::all_of(results, [&](Value result) {
    Operation *op = result.getDefiningOp();
    return op && isElementwise(op) && typeOf(result).getDims() == typeOf(results[0]).getDims();
  });
  if (together)
    makeJoint(llvm::to_vector(results));
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
    if (!isa<ContractOp, AttentionOp>(op) && !(scatter && summedByRoute(scatter)))
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
