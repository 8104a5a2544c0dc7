// Plans of the kernels of a module: chosen, written down, verified.
#ifndef QUERN_CODEGEN_PLANKERNELS_H
#define QUERN_CODEGEN_PLANKERNELS_H

#include "codegen/Producers.h"

#include "mlir/IR/BuiltinOps.h"

namespace quern::ir {
class KernelOp;
}

namespace quern::codegen {

/// Gives every kernel of the module a plan (`ir::planAttr`); those that have one keep it. Fails, with errors at the kernels,
/// where a plan is not in the space of its producer, or no producer can make the kernel.
mlir::LogicalResult planKernels(mlir::ModuleOp module, const PlanOptions &options);

/// Writes a plan down, whether it can be or not.
void setPlan(ir::KernelOp kernel, const KernelPlan &plan);

/// The plan of a kernel: its own, or the one that would be chosen. Throws std::runtime_error with the kernel's name.
KernelPlan planOf(ir::KernelOp kernel, const KernelGraph &graph, const PlanOptions &options);

} // namespace quern::codegen
#endif
