// Takes: rows of numbers. Gives: blocks of codes, bit for bit as ggml's reference makes them.
#include "runtime/formats/BlockFormat.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::runtime {

namespace {

constexpr int block = 32;

void store(uint8_t *to, float scale) {
  const uint16_t bits = support::floatToHalf(scale);
  std::memcpy(to, &bits, 2);
}

} // namespace

void encodeQ8_0(const float *from, int64_t count, uint8_t *to) {
  for (; count > 0; count -= block, from += block, to += 2 + block) {
    float largest = 0;
    for (int i = 0; i < block; ++i)
      largest = std::max(largest, std::fabs(from[i]));
    const float scale = largest / 127, inverse = scale == 0 ? 0 : 1 / scale;
    store(to, scale);
    for (int i = 0; i < block; ++i)
      to[2 + i] = uint8_t(int8_t(std::round(from[i] * inverse)));
  }
}

void encodeQ4_0(const float *from, int64_t count, uint8_t *to) {
  for (; count > 0; count -= block, from += block, to += 2 + block / 2) {
    float largest = 0;
    for (int i = 0; i < block; ++i)
      if (std::fabs(from[i]) > std::fabs(largest))
        largest = from[i];
    const float scale = largest / -8, inverse = scale == 0 ? 0 : 1 / scale;
    store(to, scale);
    auto code = [&](int i) { return unsigned(std::clamp(int(from[i] * inverse + 8.5f), 0, 15)); };
    for (int i = 0; i < block / 2; ++i)
      to[2 + i] = uint8_t(code(i) | code(i + block / 2) << 4);
  }
}

} // namespace quern::runtime
