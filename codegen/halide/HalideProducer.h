// Kernels for CPUs through Halide.
#ifndef QUERN_CODEGEN_HALIDE_HALIDEPRODUCER_H
#define QUERN_CODEGEN_HALIDE_HALIDEPRODUCER_H

#include "codegen/kernel/KernelProducer.h"

namespace quern::codegen {

/// The producer named `halide`.
const KernelProducer &halideProducer();

/// Halide's runtime as an object, for kernels that run where Quern's is not; programs have Quern's alone. It takes as long as
/// several kernels. Throws std::runtime_error.
void emitHalideRuntime(const CpuTarget &target, const std::string &path);

} // namespace quern::codegen
#endif
