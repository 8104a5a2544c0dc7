// Takes: operations and a machine. Gives: seconds. Why work and not flops: what a reader calls an operation and what a
// processor takes for it differ by a factor of 200 between an addition and a step of a running sum.
#include "ir/analysis/Price.h"

using namespace mlir;
using namespace quern::ir;

double quern::ir::secondsToCompute(Operation *op, const quern::support::Machine &machine,
                                   llvm::function_ref<double(const Size &)> at) {
  auto cost = dyn_cast<CostOpInterface>(op);
  if (!cost)
    return 0;
  return at(cost.getWork()) / (isa<ContractOp>(op) ? machine.products : machine.operations);
}

double quern::ir::secondsToMove(Storage storage, const quern::support::Machine &machine) {
  return static_cast<double>(quern::support::bytesOf(storage)) / machine.bandwidth;
}

double quern::ir::secondsToNarrow(Storage storage, const quern::support::Machine &machine) {
  constexpr double roundAndWiden = 7; // NarrowOp and WidenOp in ir/rules/Cost.cpp
  return quern::support::isComputed(storage) ? 0 : roundAndWiden / machine.operations;
}
