// Kernels for CPUs through Halide.
#ifndef QUERN_CODEGEN_HALIDE_HALIDEPRODUCER_H
#define QUERN_CODEGEN_HALIDE_HALIDEPRODUCER_H

#include "codegen/kernel/KernelProducer.h"

namespace quern::codegen {

/// The producer named `halide`.
const KernelProducer &halideProducer();

} // namespace quern::codegen
#endif
