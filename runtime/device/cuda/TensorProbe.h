// How fast the device's tensor cores multiply.
#ifndef QUERN_RUNTIME_DEVICE_CUDA_TENSORPROBE_H
#define QUERN_RUNTIME_DEVICE_CUDA_TENSORPROBE_H

#include "runtime/device/GpuDevice.h"

namespace quern::runtime {

/// Operations a second of products of bf16 with sums in f32, each product and sum counted as two; 0 where the program has no
/// kernel for that, or the device no such cores.
double measureTensorCores(GpuDevice &device);

} // namespace quern::runtime
#endif
