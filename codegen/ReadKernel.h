// From a quern.kernel to plain data.
#ifndef QUERN_CODEGEN_READKERNEL_H
#define QUERN_CODEGEN_READKERNEL_H

#include "codegen/kernel/KernelGraph.h"

namespace quern::ir {
class KernelOp;
}

namespace quern::codegen {

/// Throws std::runtime_error for an operation that cannot stand in a kernel (a param, say): a broken invariant of
/// outlining, never a user's mistake.
KernelGraph readKernel(ir::KernelOp kernel);

} // namespace quern::codegen
#endif
