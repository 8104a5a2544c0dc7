// From a quern.kernel to plain data.
#ifndef QUERN_CODEGEN_READKERNEL_H
#define QUERN_CODEGEN_READKERNEL_H

#include "codegen/kernel/KernelGraph.h"

#include <vector>

namespace mlir {
class Location;
class ModuleOp;
} // namespace mlir
namespace quern::ir {
class KernelOp;
class LayoutAttr;
} // namespace quern::ir

namespace quern::codegen {

/// Throws std::runtime_error where the module has none.
ir::KernelOp kernelNamed(mlir::ModuleOp module, const std::string &name);

Layout readLayout(ir::LayoutAttr attr);

/// Throws std::runtime_error for an operation that cannot stand in a kernel (a param, say): a broken invariant of
/// outlining, never a user's mistake. `places`: of each node its operation's, where asked for.
KernelGraph readKernel(ir::KernelOp kernel, std::vector<mlir::Location> *places = nullptr);

} // namespace quern::codegen
#endif
