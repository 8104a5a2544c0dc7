// Takes: bits of small floating-point formats, or a float. Gives: the other.
#include "runtime/formats/SmallFloats.h"

#include "runtime/files/Safetensors.h"
#include "support/numbers/SmallFloats.h"

#include <bit>
#include <cmath>

namespace quern::runtime {

float e4m3ToFloat(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float value = (bits & 0x7f) == 0x7f ? NAN
                      : exponent            ? std::ldexp(float(8 + mantissa), exponent - 10)
                                            : std::ldexp(float(mantissa), -9);
  return bits & 0x80 ? -value : value;
}

float e5m2ToFloat(uint8_t bits) {
  return support::halfToFloat(uint16_t(bits << 8));
}

} // namespace quern::runtime
