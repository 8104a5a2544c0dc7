// The next token, chosen on a device: kernels that every program for a device carries beside the model's.
#ifndef QUERN_CODEGEN_HALIDE_GPU_SAMPLING_H
#define QUERN_CODEGEN_HALIDE_GPU_SAMPLING_H

#include "codegen/Targets.h"

#include <Halide.h>

namespace quern::codegen {

/// The functions that runtime/device/DeviceSampler.cpp declares.
Halide::Module samplingModule(const CpuTarget &target);

} // namespace quern::codegen
#endif
