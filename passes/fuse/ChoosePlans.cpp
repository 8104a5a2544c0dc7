// Takes: a module of kernels. Gives: the same with a plan for each kernel: who makes it, and with which numbers.
// Why by a rule from outside: plans follow from targets and producers, which are the code generator's; but they are chosen
// before memory is planned, as what a kernel needs beside its arguments follows from its plan.
#include "passes/ChoosePlans.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::passes;

namespace {
class ChoosePlans : public PassWrapper<ChoosePlans, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ChoosePlans)
  explicit ChoosePlans(PlanningRule rule) : rule(std::move(rule)) {}
  StringRef getArgument() const override { return "choose-plans"; }
  void runOnOperation() override {
    if (failed(rule(getOperation())))
      signalPassFailure();
  }

private:
  PlanningRule rule;
};
} // namespace

std::unique_ptr<Pass> quern::passes::createChoosePlansPass(PlanningRule rule) {
  return std::make_unique<ChoosePlans>(std::move(rule));
}
