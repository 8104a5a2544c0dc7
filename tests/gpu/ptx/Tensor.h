// What stands in a tensor map of 128 bytes, which the driver makes and nobody else reads. Here: these fields.
#ifndef QUERN_TESTS_GPU_PTX_TENSOR_H
#define QUERN_TESTS_GPU_PTX_TENSOR_H

#include <cstddef>
#include <cstdint>

namespace quern::ptx {

/// Of numbers of two bytes.
struct alignas(64) TensorMap {
  uint64_t mark = 0, address = 0;
  uint64_t strides[4] = {}; ///< in bytes, of all dimensions but the first
  uint32_t extents[5] = {}, rank = 0, swizzle = 0;
  uint16_t box[5] = {};
};
static_assert(sizeof(TensorMap) == 128);
inline constexpr uint64_t tensorMark = 0x7265736e6554;

/// What a driver refuses (cuTensorMapEncodeTiled); `swizzle`: 1, 2, 3 for 32, 64, 128 bytes. False: refused.
inline bool encode(TensorMap &map, uint32_t rank, uint64_t address, const uint64_t *extents, const uint64_t *strides,
                   const uint32_t *box, uint32_t swizzle) {
  if (reinterpret_cast<uintptr_t>(&map) % 64 || rank < 1 || rank > 5 || address % 16 || swizzle < 1 || swizzle > 3 ||
      2 * box[0] > (16u << swizzle) || 2 * box[0] % 16)
    return false;
  map = {};
  map.mark = tensorMark, map.address = address, map.rank = rank, map.swizzle = swizzle;
  for (uint32_t d = 0; d < rank; ++d) {
    if (!extents[d] || extents[d] > uint64_t(1) << 32 || !box[d] || box[d] > 256)
      return false;
    map.extents[d] = uint32_t(extents[d]), map.box[d] = uint16_t(box[d]);
    if (d + 1 < rank) {
      if (strides[d] % 16 || strides[d] >= uint64_t(1) << 40)
        return false;
      map.strides[d] = strides[d];
    }
  }
  return true;
}

} // namespace quern::ptx
#endif
