// What a device can do at most: kernels that `bench` measures beside the model's.
#ifndef QUERN_CODEGEN_HALIDE_GPU_PROBES_H
#define QUERN_CODEGEN_HALIDE_GPU_PROBES_H

#include "codegen/Targets.h"

#include <Halide.h>

namespace quern::codegen {

/// The functions that runtime/device/DeviceProbe.cpp declares.
Halide::Module probeModule(const CpuTarget &target);

} // namespace quern::codegen
#endif
