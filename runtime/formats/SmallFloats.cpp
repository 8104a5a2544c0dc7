// Takes: bits of small floating-point formats, or a float. Gives: the other.
#include "runtime/formats/SmallFloats.h"

#include "runtime/files/Safetensors.h"

#include <bit>
#include <cmath>

namespace quern::runtime {

uint16_t floatToHalf(float value) {
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

float e4m3ToFloat(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float value = (bits & 0x7f) == 0x7f ? NAN
                      : exponent            ? std::ldexp(float(8 + mantissa), exponent - 10)
                                            : std::ldexp(float(mantissa), -9);
  return bits & 0x80 ? -value : value;
}

float e5m2ToFloat(uint8_t bits) {
  return halfToFloat(uint16_t(bits << 8));
}

} // namespace quern::runtime
