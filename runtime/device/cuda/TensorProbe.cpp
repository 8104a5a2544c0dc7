// Takes: a device. Gives: how fast it multiplies bf16, by a kernel that the compiler adds to programs with tile kernels
// (codegen/tile/ptx/TensorProbe.cpp). It grows until it takes long enough, as the other probes do (DeviceProbe.cpp).
#include "runtime/device/cuda/TensorProbe.h"

#include <algorithm>
#include <cstring>

// Weak: absent from programs without tile kernels.
extern "C" __attribute__((weak)) const char quern_tensor_probe[];

namespace quern::runtime {

double measureTensorCores(GpuDevice &device) {
  if (!quern_tensor_probe || !device.takes(quern_tensor_probe, std::strlen(quern_tensor_probe)))
    return 0;
  constexpr size_t threads = 256, warps = threads / 32, mostBlocks = 1 << 10;
  constexpr double ofIteration = 8 * 2.0 * 16 * 8 * 16; // chains of m16n8k16
  static void *built = device.build(quern_tensor_probe, std::strlen(quern_tensor_probe) + 1);
  double rate = 0;
  for (int64_t work = 4; work <= int64_t(1) << 32; work *= 4) { // iterations of all blocks
    size_t blocks = std::min<size_t>(mostBlocks, size_t(work) / 4);
    int32_t iterations = int32_t(size_t(work) / blocks);
    size_t bytes = blocks * threads * sizeof(float);
    void *ends = device.takeBlock(bytes);
    double least = device.leastSeconds([&] {
      device.launch(built, "tensor_probe", {{blocks, 1, 1}, {threads, 1, 1}},
                    {{ends, bytes, true}, {&iterations, sizeof iterations, false}});
    });
    device.giveBlock(ends);
    rate = double(blocks * warps) * iterations * ofIteration / least;
    if (least > GpuDevice::enoughToMeasure)
      break;
  }
  return rate;
}

} // namespace quern::runtime
