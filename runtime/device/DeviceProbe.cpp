// Takes: a device. Gives: how fast it reads its memory, and multiplies and adds, by kernels that the compiler adds to each
// program for a device (codegen/halide/gpu/Probes.cpp).
#include "runtime/device/GpuDevice.h"
#include "runtime/device/HalideVector.h"

#include <algorithm>
#include <functional>

// Weak: absent from tests of single kernels.
extern "C" {
__attribute__((weak)) int quern_probe_read(int32_t parts, int32_t iterations, quern::runtime::HalideBuffer *numbers,
                                           quern::runtime::HalideBuffer *sums);
__attribute__((weak)) int quern_probe_multiply(int32_t parts, int32_t iterations, float factor, float added,
                                               quern::runtime::HalideBuffer *ends);
}

namespace quern::runtime {

double GpuDevice::leastSeconds(const std::function<void()> &launches) {
  constexpr int tries = 3;
  double least = 0;
  for (int i = 0; i < tries; ++i) {
    double took = std::max(timed(launches), 1e-9);
    least = i ? std::min(least, took) : took;
  }
  return least;
}

DeviceLimits GpuDevice::measureLimits() {
  if (!quern_probe_read)
    return {};
  constexpr int32_t mostParts = 1 << 18; // work-items: more than any card runs at one time
  auto best = [&](const std::function<int32_t()> &code) { return leastSeconds([&] { launching(code); }); };
  DeviceLimits limits;
  // Reading: until it takes long enough, and beyond what caches hold.
  constexpr int64_t mostBytes = int64_t(1) << 29;
  for (int64_t bytes = int64_t(1) << 20; bytes <= mostBytes; bytes *= 4) {
    int32_t parts = int32_t(std::min<int64_t>(mostParts, bytes / 64)), iterations = int32_t(bytes / 4 / parts);
    void *numbers = allocate(size_t(bytes));
    if (!numbers)
      break;
    void *sums = takeBlock(size_t(parts) * 4);
    HalideVector<2> given(numbers, HalideVector<2>::Real, 32, {parts, iterations});
    HalideVector<1> result(sums, HalideVector<1>::Real, 32, {parts});
    double took = best([&] { return quern_probe_read(parts, iterations, &given.buffer, &result.buffer); });
    giveBlock(sums);
    release(numbers, size_t(bytes));
    limits.bytes = double(bytes) / took;
    if (took > enoughToMeasure)
      break;
  }
  constexpr int chains = 8;
  for (int64_t work = 1 << 14; work <= int64_t(1) << 32; work *= 4) {
    int32_t parts = int32_t(std::min<int64_t>(mostParts, work / 16)), iterations = int32_t(work / parts);
    void *ends = takeBlock(size_t(parts) * 4);
    HalideVector<1> result(ends, HalideVector<1>::Real, 32, {parts});
    double took = best([&] { return quern_probe_multiply(parts, iterations, 0.999f, 1e-3f, &result.buffer); });
    giveBlock(ends);
    limits.flops = double(parts) * iterations * chains * 2 / took;
    if (took > enoughToMeasure)
      break;
  }
  return limits;
}

} // namespace quern::runtime
