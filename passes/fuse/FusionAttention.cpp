// Takes: a function whose gradient was derived by attention's own rule (DifferentiateAttention.cpp). Gives: which of
// its values with both queries and keys no kernel stores, and which results one kernel gives together. Why by marks:
// the products at which such values begin are marked; what follows from them element by element, up to the sums over
// keys or queries, is found from there.
//
//   forward:   o = sum[S](softmax(x) v), shift, share      one kernel with three results
//   gradient:  dq = sum[S](ds k)                           one kernel; p, dp and ds are made in it
//              dv = sum[T](p g), dk = sum[T](ds q)         one kernel with both results; p, dp and ds are made again in it
//              db = scatter(ds at index(S) - index(T))     one kernel; of a table by distance (TabulateDistances.cpp)
//
// What does not end so (a number of its own for each query and key that learns) is stored as ever.
#include "passes/fuse/FusionGroups.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

namespace {
/// All values that hang together with some marked products, and what they end in.
struct Matrices {
  SmallVector<Value> values;
  SmallVector<ContractOp, 4> sums;
  SmallVector<ScatterAddOp, 1> scatters; // along diagonals
  SmallVector<ReduceOp, 2> reductions;
  bool softmax = false, escapes = false;
};
} // namespace

static bool staysInside(Operation *op) {
  return isElementwise(op) || isa<SoftmaxOp, ConcatOp, CutOp, RenameOp, PermuteOp, ExpandOp>(op);
}

static SmallVector<Matrices> collectMatrices(ArrayRef<Operation *> order) {
  DenseMap<Value, unsigned> of;
  llvm::EquivalenceClasses<unsigned> joined;
  unsigned count = 0;
  SmallVector<std::pair<Operation *, unsigned>> ends;
  for (Operation *op : order) {
    if (isa<ContractOp>(op) && op->hasAttr(insideAttr)) {
      joined.insert(count);
      of[op->getResult(0)] = count++;
      continue;
    }
    std::optional<unsigned> own;
    for (Value operand : op->getOperands())
      if (auto found = of.find(operand); found != of.end()) {
        if (own)
          joined.unionSets(*own, found->second);
        own = found->second;
      }
    if (!own)
      continue;
    if (staysInside(op))
      of[op->getResult(0)] = *own;
    else
      ends.push_back({op, *own});
  }
  llvm::MapVector<unsigned, Matrices> groups;
  for (Operation *op : order)
    if (op->getNumResults())
      if (auto found = of.find(op->getResult(0)); found != of.end()) {
        Matrices &group = groups[joined.getLeaderValue(found->second)];
        group.values.push_back(op->getResult(0));
        group.softmax |= isa<SoftmaxOp>(op);
      }
  for (auto [op, index] : ends) {
    Matrices &group = groups[joined.getLeaderValue(index)];
    if (auto sum = dyn_cast<ContractOp>(op); sum && sum->getBlock() == group.values[0].getParentBlock())
      group.sums.push_back(sum);
    else if (auto reduce = dyn_cast<ReduceOp>(op))
      group.reductions.push_back(reduce);
    else if (auto scatter = dyn_cast<ScatterAddOp>(op); scatter && op->hasAttr(insideAttr))
      group.scatters.push_back(scatter);
    else
      group.escapes = true;
  }
  return llvm::map_to_vector(groups, [](auto &entry) { return std::move(entry.second); });
}

/// What is kept of a row: the marked value that follows from a reduction of the scores.
static Value statisticOf(ReduceOp reduce) {
  SmallVector<Value> work = {reduce.getResult()};
  for (unsigned i = 0; i < work.size() && i < 8; ++i)
    for (Operation *user : work[i].getUsers()) {
      if (!isElementwise(user) || typeOf(user->getResult(0)).getRank() != typeOf(reduce.getResult()).getRank())
        continue;
      if (user->hasAttr(statisticAttr))
        return user->getResult(0);
      work.push_back(user->getResult(0));
    }
  return {};
}

/// A kernel for sums: of one dimension, the weights from inside, one column dimension that only the value has.
static bool isSumOfMatrices(ContractOp sum, const DenseSet<Value> &inside) {
  if (sum.getDims().size() != 1 || inside.contains(sum.getA()) == inside.contains(sum.getB()))
    return false;
  bool first = inside.contains(sum.getA());
  NamedTensorType weights = typeOf(first ? sum.getA() : sum.getB()), value = typeOf(first ? sum.getB() : sum.getA());
  unsigned columns = 0;
  for (DimAttr dim : value.getDims())
    if (!weights.has(dim.getName())) {
      columns += 1;
      if (!dim.getStatic())
        return false;
    }
  return columns == 1;
}

/// One kernel gives `ends`; each is stored as it is.
void FusionGroups::makeJoint(SmallVector<Value> ends) {
  llvm::sort(ends, [](Value a, Value b) { return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp()); });
  for (Value end : ends) {
    store(end);
    branched.insert(end);
    if (ends.size() > 1)
      jointOf[end] = joint.size();
  }
  if (ends.size() > 1)
    joint.push_back(std::move(ends));
}

/// A sum as it is stored: what narrows it is the kernel's result where nobody else reads it.
static Value storedSum(ContractOp sum) {
  auto narrow = sum->hasOneUse() ? dyn_cast<NarrowOp>(*sum->getUsers().begin()) : NarrowOp();
  return narrow ? narrow.getResult() : sum.getResult();
}

/// Masks, learned distances and the like, with all of `dims`, that `values` are made of: made again in each kernel
/// rather than stored for two.
static void addMasks(SmallVectorImpl<Value> &values, DenseSet<Value> &inside, ArrayRef<StringRef> dims) {
  for (size_t i = 0; i < values.size(); ++i)
    for (Value operand : values[i].getDefiningOp()->getOperands()) {
      Operation *op = operand.getDefiningOp();
      bool both = llvm::all_of(dims, [&](StringRef name) { return typeOf(operand).has(name); });
      bool again = op && (isElementwise(op) || isa<ExpandOp>(op) || (isa<GatherOp>(op) && op->hasAttr(insideAttr)));
      if (again && both && op->getBlock() == values[i].getParentBlock() && inside.insert(operand).second)
        values.push_back(operand);
    }
}

void FusionGroups::findRaisedAttention() {
  for (Matrices &group : collectMatrices(order)) {
    DenseSet<Value> inside(group.values.begin(), group.values.end());
    SmallVector<SmallVector<Value>> kernels;
    bool fits = !group.escapes;
    if (group.softmax) {
      SmallVector<Value> ends;
      for (ContractOp sum : group.sums)
        ends.push_back(storedSum(sum));
      for (ReduceOp reduce : group.reductions) {
        Value statistic = reduce->hasAttr(insideAttr) ? statisticOf(reduce) : Value();
        fits &= statistic != nullptr;
        ends.push_back(statistic);
      }
      fits &= group.sums.size() == 1 && group.reductions.size() == 2 && group.scatters.empty();
      kernels.push_back(ends);
    } else {
      llvm::MapVector<StringRef, SmallVector<Value>> over;
      for (ContractOp sum : group.sums) {
        fits &= isSumOfMatrices(sum, inside);
        over[names(sum.getDims())[0]].push_back(sum.getResult());
      }
      fits &= group.reductions.empty();
      SmallVector<StringRef> dims;
      for (auto &[name, ends] : over) {
        kernels.push_back(ends);
        dims.push_back(name);
      }
      for (ScatterAddOp scatter : group.scatters) {
        kernels.push_back({scatter.getResult()});
        for (StringRef name : names(scatter.getDims()))
          if (!llvm::is_contained(dims, name))
            dims.push_back(name);
      }
      if (fits && dims.size() > 1)
        addMasks(group.values, inside, dims);
    }
    if (!fits)
      continue;
    for (ReduceOp reduce : group.reductions)
      group.values.push_back(reduce.getResult());
    for (Value value : group.values) {
      inner.insert(value);
      roots.erase(value);
      forWindows.erase(value);
    }
    for (SmallVector<Value> &ends : kernels)
      makeJoint(ends);
  }
}
