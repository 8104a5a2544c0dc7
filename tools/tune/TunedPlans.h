// Plans that tuning found, as a text to keep and edit, and in a module.
#ifndef QUERN_TOOLS_TUNE_TUNEDPLANS_H
#define QUERN_TOOLS_TUNE_TUNEDPLANS_H

#include "codegen/Producers.h"
#include "tools/tune/TuningDatabase.h"

#include "mlir/IR/BuiltinOps.h"

namespace quern::tools {

/// Reads plansText: a line for each plan, `KERNEL | TARGET | MACHINE | WORK | GAIN | PLAN | TITLE`; `#` begins a comment. Throws std::runtime_error "NAME:LINE: ...".
std::vector<TunedPlan> parsePlans(const std::string &text, const std::string &name);

/// What came of plans for a module's kernels.
struct AppliedPlans {
  int kernels = 0, applied = 0;
  std::vector<std::string> refused; ///< those that no producer makes today, with the reason
};

/// Gives the kernels of a module (phase `kernels`) that have no plan theirs.
AppliedPlans applyPlans(mlir::ModuleOp module, const std::vector<TunedPlan> &plans,
                        const codegen::PlanOptions &options);

} // namespace quern::tools
#endif
