// A kernel's loops, for a reader.
#ifndef QUERN_CODEGEN_HALIDE_LOOPNEST_H
#define QUERN_CODEGEN_HALIDE_LOOPNEST_H

#include "codegen/Targets.h"
#include "codegen/halide/Family.h"
#include "codegen/kernel/KernelGraph.h"
#include "codegen/kernel/KernelPlan.h"

namespace quern::codegen {

/// Halide's loops around each Func of the kernel as scheduled, one line a loop: parallel, vectorized and unrolled ones
/// are marked. Throws std::runtime_error with Halide's words where it fails.
std::string loopNest(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target,
                     const KernelFamilies &families);

} // namespace quern::codegen
#endif
