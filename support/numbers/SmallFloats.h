// Floating-point numbers of two bytes: bf16, the upper half of an f32, and f16, IEEE 754's binary16.
#ifndef QUERN_SUPPORT_NUMBERS_SMALLFLOATS_H
#define QUERN_SUPPORT_NUMBERS_SMALLFLOATS_H

#include <bit>
#include <cstdint>

namespace quern::support {

/// To the nearest, halves to the even one; NaN stays NaN, with a bit that no rounding carries away.
inline uint16_t floatToBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// To the nearest, halves to the even one; from 65520 on infinite.
inline uint16_t floatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return uint16_t(sign | 0x7e00);
  if (magnitude >= 0x47800000) // 65536 and more
    return uint16_t(sign | 0x7c00);
  if (magnitude <
      0x38800000) { // below the least normal number: adding 0.5 leaves the 2^-24ths, rounded, in the last bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  return uint16_t(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

inline float halfToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude < 0x400) { // in 2^-24ths
    const float value = float(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t exponents = magnitude < 0x7c00 ? 0x38000000 : 0x70000000; // infinite and NaN keep the highest
  return std::bit_cast<float>(sign | ((magnitude << 13) + exponents));
}

} // namespace quern::support
#endif
