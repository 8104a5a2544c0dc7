// bf16, the upper half of an f32: what `quern.narrow` and `quern.widen` do to one number.
#ifndef QUERN_IR_REFERENCE_BF16_H
#define QUERN_IR_REFERENCE_BF16_H

#include <bit>
#include <cstdint>

namespace quern::ir {

/// To the nearest, halves to the even one; NaN stays NaN, with a bit that no rounding carries away.
inline uint16_t toBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float fromBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

} // namespace quern::ir
#endif
