// Takes: a causal function with its renames sunk. Gives: which values over T are kept between steps. What is needed at
// old positions is the operand of a rename `u, T -> S`.
#include "passes/Incremental.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

MemoryPlan::MemoryPlan(func::FuncOp function, const TimeAnalysis &analysis) {
  function.walk([&](RenameOp op) {
    if (llvm::is_contained(names(op.getFrom()), analysis.time()) && analysis.facts(op.getX()).data)
      stored.insert(op.getX());
  });
}
