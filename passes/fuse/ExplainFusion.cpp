// Takes: a function's operations and which of their values are stored. Gives: a remark at each contraction that says
// what its kernel takes along, and what that saves; and at each norm that is stored, why.
#include "ir/analysis/Operations.h"
#include "ir/analysis/Weights.h"
#include "passes/fuse/FusionGroups.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

namespace {

/// Bytes of one row: what does not depend on the run.
int64_t rowBytes(Value value) {
  int64_t count = 4;
  for (DimAttr dim : typeOf(value).getDims())
    count *= dim.getStatic().value_or(1);
  return count;
}

class Explain {
public:
  Explain(const llvm::DenseSet<Value> &roots, ContractOp contract) : roots(roots), contract(contract) {}

  /// Operations before it, back to what is stored. Sets `norm` if there is a reduction among them.
  void before(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || roots.contains(value) ||
        isa<ParamOp, RememberOp, RecallOp, RepeatOp, ConstOp, ValuesOp, SizeOp, IndexOp>(op) ||
        op->getBlock() != contract->getBlock() || !seen.insert(op).second)
      return;
    norm |= isa<ReduceOp>(op);
    if (!value.getDefiningOp<ParamOp>() && isElementwise(op))
      saved += rowBytes(value);
    for (Value operand : op->getOperands())
      before(operand);
  }

  /// Operations after it, up to what is stored.
  void after(Value value) {
    if (roots.contains(value))
      return;
    bool counted = false;
    for (Operation *user : value.getUsers()) {
      if (!isElementwise(user) && !isa<RenameOp, SplitOp, MergeOp, CutOp, ConcatOp, UnitOp, SqueezeOp, PermuteOp>(user))
        continue;
      if (isElementwise(user)) {
        if (!counted)
          saved += rowBytes(value);
        counted = true;
        if (seen.insert(user).second)
          ++following[user->getName().stripDialect()];
      }
      if (visited.insert(user->getResult(0)).second)
        after(user->getResult(0));
    }
  }

  void say(size_t results) {
    std::string text;
    if (norm)
      text = "the norm before it";
    if (!following.empty()) {
      text += norm ? " and " : "";
      unsigned n = 0;
      for (auto &[name, count] : following)
        text += (n++ ? ", " : "") + name.str() + (count > 1 ? " x " + std::to_string(count) : "");
      text += " after it";
    }
    if (results > 1)
      text += (text.empty() ? "" : "; ") + std::to_string(results) + " parts of it are results of their own";
    if (!text.empty())
      remark::passed(contract->getLoc(), remark::RemarkOpts::name("contraction").category("fusion"))
          << "one kernel with " << text << ": " << std::to_string(saved) << " bytes a row that are not stored";
  }

private:
  const llvm::DenseSet<Value> &roots;
  ContractOp contract;
  llvm::DenseSet<Operation *> seen;
  llvm::DenseSet<Value> visited;
  llvm::MapVector<StringRef, unsigned> following;
  bool norm = false;
  int64_t saved = 0;
};

/// Elementwise operations back to a reduction: a norm, or something like it.
bool isNorm(Value value, int steps = 8) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<ReduceOp>(op) || !steps || !isElementwise(op))
    return op && isa<ReduceOp>(op);
  return llvm::any_of(op->getOperands(), [&](Value operand) { return isNorm(operand, steps - 1); });
}

} // namespace

void quern::passes::remarkFusion(ArrayRef<Operation *> order, const llvm::DenseSet<Value> &roots,
                                 function_ref<size_t(ContractOp)> results) {
  if (order.empty() || !order[0]->getContext()->getRemarkEngine())
    return;
  llvm::DenseSet<Value> reported;
  for (Operation *op : order) {
    auto contract = dyn_cast<ContractOp>(op);
    if (!contract)
      continue;
    Explain explain(roots, contract);
    bool weight = false;
    for (Value operand : contract->getOperands()) {
      if (Value stored = storedBehind(operand); parameterOf(stored) || joinedWeight(stored)) {
        weight = true;
        continue;
      }
      explain.before(operand);
      unsigned readers = llvm::range_size(operand.getUsers());
      if (roots.contains(operand) && readers > 1 && isNorm(operand) && reported.insert(operand).second)
        remark::missed(operand.getLoc(), remark::RemarkOpts::name("norm").category("fusion"))
            << "a kernel of its own: " << std::to_string(readers) << " others read it, and each would recompute it";
    }
    if (!weight)
      continue;
    explain.after(contract.getResult());
    explain.say(results(contract));
  }
}
