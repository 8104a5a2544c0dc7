// Takes: calls that the host's side of a tile program makes (codegen/tile/LaunchIr.cpp). Gives: its image on the device, memory
// between its launches, launches. A failure ends the call that they are in with its message (GpuDevice::inLaunch).
#include "runtime/device/GpuDevice.h"

using quern::runtime::GpuDevice;

namespace {
enum Kind : uint8_t { Number, Address, Tensor };
}

extern "C" {

/// Whether the device runs the image: 1, or 0. `*known`: asked before, and what was said.
int quern_tile_takes(int32_t *known, const char *ptx, int64_t bytes) {
  enum { Unknown, Takes, Refuses };
  GpuDevice::inLaunch([&](GpuDevice &device) {
    if (*known == Unknown)
      *known = device.takes(ptx, size_t(bytes)) ? Takes : Refuses;
  });
  return *known == Takes;
}

/// `*state`: what the driver made of the image, once.
int quern_tile_build(void **state, const char *ptx, int64_t bytes) {
  return GpuDevice::inLaunch([&](GpuDevice &device) {
    if (!*state)
      *state = device.build(ptx, size_t(bytes));
  });
}

/// 0 where there is none.
int64_t quern_tile_take(int64_t bytes) {
  int64_t address = 0;
  GpuDevice::inLaunch(
      [&](GpuDevice &device) { address = reinterpret_cast<int64_t>(device.takeBlock(size_t(bytes > 0 ? bytes : 1))); });
  return address;
}

void quern_tile_give(int64_t address) {
  GpuDevice::inLaunch([&](GpuDevice &device) { device.giveBlock(reinterpret_cast<void *>(address)); });
}

/// `values`: addresses, numbers of 32 bits, and where a GpuDevice::Tensor is, as `kinds` says.
int quern_tile_launch(void *built, const char *name, int64_t x, int64_t y, int64_t z, int32_t threads, int32_t shared,
                      int32_t count, const uint8_t *kinds, const int64_t *values) {
  return GpuDevice::inLaunch([&](GpuDevice &device) {
    std::vector<GpuDevice::Argument> arguments;
    for (int32_t i = 0; i < count; ++i) {
      if (kinds[i] == Tensor) {
        const auto *tensor = reinterpret_cast<const GpuDevice::Tensor *>(values[i]);
        arguments.push_back({tensor->address, 1, true, tensor});
      } else if (kinds[i] == Address) {
        arguments.push_back({reinterpret_cast<const void *>(values[i]), 1, true});
      } else {
        arguments.push_back({&values[i], 4, false}); // its low half comes first
      }
    }
    device.launch(built, name, {{size_t(x), size_t(y), size_t(z)}, {size_t(threads), 1, 1}, size_t(shared)}, arguments);
  });
}

} // extern "C"
