// Takes: calls that generated launch code makes about its buffers. Gives: memory of the device whose function runs. Halide
// keeps a buffer in two places and copies where it thinks one is stale; here all that a kernel reads is on the device and
// stays there, so nothing is ever copied but the tables that kernels carry. Of halide_malloc, which it names for memory of
// the host, there is the processor's (HalideHooks.cpp): outside of its calls that gives none.
#include "runtime/Error.h"
#include "runtime/device/GpuDevice.h"
#include "runtime/device/HalideBuffer.h"

using quern::runtime::GpuDevice;
using quern::runtime::HalideBuffer;

/// Bytes from the first element to behind the last.
static size_t bytesOf(const HalideBuffer &buffer) {
  int64_t last = 0;
  for (int32_t d = 0; d < buffer.dimensions; ++d)
    last += int64_t(buffer.dim[d].extent - 1) * buffer.dim[d].stride;
  return size_t(last + 1) * ((buffer.bits + 7) / 8);
}

int quern::runtime::buildForHalide(void **state, const char *source, int bytes) {
  if (*state)
    return 0;
  return GpuDevice::inLaunch([&](GpuDevice &device) { *state = device.build(source, size_t(bytes)); });
}

int quern::runtime::launchForHalide(void *state, const char *name, const GpuDevice::Grid &grid, const size_t bytes[],
                                    void *const values[], const int8_t isBuffer[]) {
  return GpuDevice::inLaunch([&](GpuDevice &device) {
    std::vector<GpuDevice::Argument> arguments;
    for (int i = 0; bytes[i]; ++i) {
      if (!isBuffer[i]) {
        arguments.push_back({values[i], bytes[i], false});
        continue;
      }
      const auto &buffer = *static_cast<const HalideBuffer *>(values[i]);
      arguments.push_back({reinterpret_cast<const void *>(buffer.device), bytesOf(buffer), true});
    }
    device.launch(state, name, grid, arguments);
  });
}

extern "C" {

int halide_device_malloc(void *, HalideBuffer *buffer, const void *) {
  return GpuDevice::inLaunch([&](GpuDevice &device) {
    for (int32_t d = 0; d < buffer->dimensions; ++d)
      if (buffer->dim[d].extent <= 0) // nothing is written
        return;
    if (!buffer->device)
      buffer->device = reinterpret_cast<uint64_t>(device.takeBlock(bytesOf(*buffer)));
  });
}

int halide_device_free(void *, HalideBuffer *buffer) {
  int status =
      buffer->device
          ? GpuDevice::inLaunch([&](GpuDevice &device) { device.giveBlock(reinterpret_cast<void *>(buffer->device)); })
          : 0;
  buffer->device = 0;
  return status;
}

void halide_device_free_as_destructor(void *context, void *buffer) {
  halide_device_free(context, static_cast<HalideBuffer *>(buffer));
}

int halide_copy_to_device(void *, HalideBuffer *buffer, const void *) {
  return GpuDevice::inLaunch([&](GpuDevice &device) {
    if (!buffer->device && !buffer->host)
      throw quern::runtime::MachineError("a kernel has no address for a buffer");
    if (!buffer->device)
      buffer->device = reinterpret_cast<uint64_t>(device.keepConstants(buffer->host, bytesOf(*buffer)));
  });
}

int halide_copy_to_host(void *, HalideBuffer *) {
  return GpuDevice::inLaunch(
      [](GpuDevice &) { throw quern::runtime::MachineError("a kernel reads a result on the host"); });
}

} // extern "C"
