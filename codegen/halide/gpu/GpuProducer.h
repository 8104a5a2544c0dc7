// Kernels for GPUs through Halide.
#ifndef QUERN_CODEGEN_HALIDE_GPU_GPUPRODUCER_H
#define QUERN_CODEGEN_HALIDE_GPU_GPUPRODUCER_H

#include "codegen/kernel/KernelProducer.h"

namespace quern::codegen {

/// The producer named `gpu`: for targets with a device (Targets.h).
const KernelProducer &gpuProducer();

} // namespace quern::codegen
#endif
