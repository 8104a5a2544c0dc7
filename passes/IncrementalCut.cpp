// Takes: a causal function with its renames sunk. Gives: which values over T are kept between steps. What is needed at
// old positions is the operand of a rename `u, T -> S`.
#include "passes/Incremental.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

bool MemoryPlan::isMadeFromPositions(Value value) {
  if (analysis.times(value).empty())
    return true;
  if (auto known = fromPositions.find(value); known != fromPositions.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  bool is = op && op->getNumRegions() == 0 && !analysis.facts(value).data &&
            llvm::all_of(op->getOperands(), [&](Value x) { return isMadeFromPositions(x); });
  return fromPositions[value] = is;
}

MemoryPlan::MemoryPlan(func::FuncOp function, const TimeAnalysis &analysis) : analysis(analysis) {
  function.walk([&](RenameOp op) {
    if (llvm::is_contained(names(op.getFrom()), analysis.time()) && !isMadeFromPositions(op.getX()))
      stored.insert(op.getX());
  });
}
