// Plans of kernels, chosen by a rule that the code generator gives.
#ifndef QUERN_PASSES_CHOOSEPLANS_H
#define QUERN_PASSES_CHOOSEPLANS_H

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <memory>

namespace mlir {
class Pass;
}

namespace quern::passes {

/// Gives each kernel of a module its plan (codegen/PlanKernels.h).
using PlanningRule = std::function<mlir::LogicalResult(mlir::ModuleOp)>;

/// Chooses how each kernel is made.
std::unique_ptr<mlir::Pass> createChoosePlansPass(PlanningRule rule);

} // namespace quern::passes
#endif
