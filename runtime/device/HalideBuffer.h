// halide_buffer_t of Halide 21 (HalideRuntime.h), as generated code lays it out.
#ifndef QUERN_RUNTIME_DEVICE_HALIDEBUFFER_H
#define QUERN_RUNTIME_DEVICE_HALIDEBUFFER_H

#include <cstdint>

namespace quern::runtime {

struct HalideBuffer {
  uint64_t device; ///< an address in the device's memory (AddressSpace.h)
  const void *interface;
  uint8_t *host;
  uint64_t flags;
  uint8_t code, bits;
  uint16_t lanes;
  int32_t dimensions;
  struct Dim {
    int32_t min, extent, stride;
    uint32_t flags;
  } *dim;
  void *padding;
};
static_assert(sizeof(HalideBuffer) == 56);

} // namespace quern::runtime
#endif
