// Takes: a function with `quern.attention`, or with an attention's gradient derived by its own rule
// (DifferentiateAttention.cpp). Gives: which of the gradient's values with both queries and keys no kernel stores, and
// which results one kernel gives together. Why by marks: the products at which such values begin are marked; what
// follows from them element by element, up to the sums over keys or queries, is found from there.
//
//   forward:   o, shift, share = attention             one kernel with three results
//   gradient:  dq = sum[S](ds k)                       one kernel; p, dp and ds are made in it
//              dv = sum[T](p g), dk = sum[T](ds q)     one kernel with both results; p, dp and ds are made again in it
//              db = scatter(ds at index(S) - index(T)) one kernel; of a table by distance (TabulateDistances.cpp)
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
  bool escapes = false;
};
} // namespace

static bool staysInside(Operation *op) {
  return isElementwise(op) || isa<ConcatOp, CutOp, RenameOp, PermuteOp, ExpandOp>(op);
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
      if (auto found = of.find(op->getResult(0)); found != of.end())
        groups[joined.getLeaderValue(found->second)].values.push_back(op->getResult(0));
  for (auto [op, index] : ends) {
    Matrices &group = groups[joined.getLeaderValue(index)];
    if (auto sum = dyn_cast<ContractOp>(op); sum && sum->getBlock() == group.values[0].getParentBlock())
      group.sums.push_back(sum);
    else if (auto scatter = dyn_cast<ScatterAddOp>(op); scatter && op->hasAttr(insideAttr))
      group.scatters.push_back(scatter);
    else
      group.escapes = true;
  }
  return llvm::map_to_vector(groups, [](auto &entry) { return std::move(entry.second); });
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
static Value storedSum(Value sum) {
  auto narrow = sum.hasOneUse() ? dyn_cast<NarrowOp>(*sum.getUsers().begin()) : NarrowOp();
  return narrow ? narrow.getResult() : sum;
}

void FusionGroups::joinStatistics() {
  for (Operation *op : order)
    if (auto attention = dyn_cast<AttentionOp>(op); attention && attention.hasStatistics())
      makeJoint({storedSum(attention.getAttended()), attention.getShift(), attention.getShare()});
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

void FusionGroups::findAttentionGradient() {
  for (Matrices &group : collectMatrices(order)) {
    DenseSet<Value> inside(group.values.begin(), group.values.end());
    if (group.escapes)
      continue;
    bool fits = true;
    SmallVector<SmallVector<Value>> kernels;
    llvm::MapVector<StringRef, SmallVector<Value>> over;
    for (ContractOp sum : group.sums) {
      fits &= isSumOfMatrices(sum, inside);
      over[names(sum.getDims())[0]].push_back(sum.getResult());
    }
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
    if (!fits)
      continue;
    if (dims.size() > 1)
      addMasks(group.values, inside, dims);
    for (Value value : group.values) {
      inner.insert(value);
      roots.erase(value);
      forWindows.erase(value);
    }
    for (SmallVector<Value> &ends : kernels)
      makeJoint(ends);
  }
}
