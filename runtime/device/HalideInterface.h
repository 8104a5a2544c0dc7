// The functions that Halide's code calls by the name of a device's interface, and the one by which a program opens the device: all
// that a driver's folder needs to be an archive of its own (runtime/machine/Device.h).
#ifndef QUERN_RUNTIME_DEVICE_HALIDEINTERFACE_H
#define QUERN_RUNTIME_DEVICE_HALIDEINTERFACE_H

#include "runtime/device/GpuDevice.h"

/// `interface`: opencl, cuda or vulkan; `type`: its GpuDevice, made when it is first asked for. Why a macro: the names are made of
/// the interface's.
#define QUERN_HALIDE_INTERFACE(interface, type)                                                                        \
  extern "C" {                                                                                                         \
  quern::runtime::Device *quern_open_device() {                                                                        \
    static type device;                                                                                                \
    return &device;                                                                                                    \
  }                                                                                                                    \
  int halide_##interface##_initialize_kernels(void *, void **state, const char *source, int bytes) {                   \
    return quern::runtime::buildForHalide(state, source, bytes);                                                       \
  }                                                                                                                    \
  void halide_##interface##_finalize_kernels(void *, void *) {}                                                        \
  const void *halide_##interface##_device_interface() {                                                                \
    return nullptr;                                                                                                    \
  }                                                                                                                    \
  int halide_##interface##_run(void *, void *state, const char *name, int blocksX, int blocksY, int blocksZ,           \
                               int threadsX, int threadsY, int threadsZ, int, size_t bytes[], void *values[],          \
                               int8_t isBuffer[]) {                                                                    \
    return quern::runtime::launchForHalide(                                                                            \
        state, name,                                                                                                   \
        {{size_t(blocksX), size_t(blocksY), size_t(blocksZ)}, {size_t(threadsX), size_t(threadsY), size_t(threadsZ)}}, \
        bytes, values, isBuffer);                                                                                      \
  }                                                                                                                    \
  }

#endif
