// Floating-point numbers of two bytes: bf16, the upper half of an f32, and f16, IEEE 754's binary16; of one byte, as codes.
#ifndef QUERN_SUPPORT_NUMBERS_SMALLFLOATS_H
#define QUERN_SUPPORT_NUMBERS_SMALLFLOATS_H

#include "support/CodedGroups.h"

#include <algorithm>
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

/// E2M1, of which the fourth bit is the sign.
inline float numberOfFourBits(unsigned code) {
  constexpr float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -values[code & 7] : values[code & 7];
}

/// The f16 that a code is, but for the unit; of the code that says so not NaN.
constexpr uint16_t halfOfCode(const FloatCodes &form, uint8_t code) {
  return uint16_t(uint16_t(int8_t(code)) << form.shift) & form.mask;
}
inline bool isNaNOfCodes(const FloatCodes &form, uint8_t code) {
  return form.nan && (code & 0x7f) == form.nan;
}
inline float numberOfCode(const FloatCodes &form, uint8_t code) {
  return isNaNOfCodes(form, code) ? std::bit_cast<float>(0x7fc00000u | uint32_t(code & 0x80) << 24)
                                  : halfToFloat(halfOfCode(form, code)) * form.unit;
}

/// To the nearest, halves to the even one; beyond the largest that. Not of NaN.
inline uint8_t codeOfFloat(const FloatCodes &form, float value) {
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 31 << 7;
  const float magnitude = std::min(value < 0 ? -value : value, form.most) / form.unit;
  const uint32_t mantissa = 10 - uint32_t(form.shift), dropped = 23 - mantissa;
  if (magnitude < 0x1p-14f) { // as in floatToHalf: adding one leaves the least steps, rounded, in the last bits
    const uint32_t one = (136 - mantissa) << 23;
    return uint8_t(sign | (std::bit_cast<uint32_t>(magnitude + std::bit_cast<float>(one)) - one));
  }
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude) - 0x38000000;
  return uint8_t(sign | (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped);
}

} // namespace quern::support
#endif
