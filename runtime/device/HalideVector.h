// Dense tensors at addresses of a device's, as generated code takes them.
#ifndef QUERN_RUNTIME_DEVICE_HALIDEVECTOR_H
#define QUERN_RUNTIME_DEVICE_HALIDEVECTOR_H

#include "runtime/device/HalideBuffer.h"

namespace quern::runtime {

/// `lengths`: of the dimension whose numbers are neighbours first.
template <int rank> struct HalideVector {
  enum Code : uint8_t { Signed, Unsigned, Real };
  HalideBuffer::Dim dims[rank];
  HalideBuffer buffer{};
  HalideVector(const void *address, Code code, uint8_t bits, const int32_t (&lengths)[rank]) {
    int32_t stride = 1;
    for (int d = 0; d < rank; ++d) {
      dims[d] = {0, lengths[d], stride, 0};
      stride *= lengths[d];
    }
    buffer.device = reinterpret_cast<uint64_t>(address);
    buffer.code = code, buffer.bits = bits, buffer.lanes = 1;
    buffer.dimensions = rank, buffer.dim = dims;
  }
};

} // namespace quern::runtime
#endif
