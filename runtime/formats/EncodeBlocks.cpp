// Takes: rows of numbers. Gives: blocks of codes: of 32 bit for bit as ggml's reference makes them, super-blocks as `quern.quantize` says.
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

/// What the largest is counted in, in f16, rounded down. A little more than its share, as what has been rounded may have
/// become a little less.
uint16_t unitFor(float largest, int most) {
  const float share = largest / float(most) * 1.00002f;
  const uint16_t half = support::floatToHalf(share);
  return half && support::halfToFloat(half) > share ? uint16_t(half - 1) : half;
}

int unitsIn(float x, float unit, int most) {
  return unit == 0 ? 0 : int(std::min(std::floor(x / unit + 0.01f), float(most)));
}

} // namespace

void encodeByteGroup(const float *from, int64_t count, uint8_t *to) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::fabs(from[i]));
  const float scale = largest / 127, inverse = scale == 0 ? 0 : 1 / scale;
  store(to, scale);
  for (int64_t i = 0; i < count; ++i)
    to[2 + i] = uint8_t(int8_t(std::round(from[i] * inverse)));
}

void encodeQ8_0(const float *from, int64_t count, uint8_t *to) {
  for (; count > 0; count -= block, from += block, to += 2 + block)
    encodeByteGroup(from, block, to);
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

SuperCodes encodeSuperBlock(const support::SuperBlocks &form, const float *from, int64_t count) {
  constexpr int mostScale = 127, mostMinimum = 255;
  SuperCodes result;
  result.group = form.group;
  const int groups = int((count + form.group - 1) / form.group);
  float least[maxBlockGroups] = {}, greatest[maxBlockGroups] = {}, minimums[maxBlockGroups] = {};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t g = i / form.group;
    least[g] = std::min(least[g], from[i]);
    const bool first = i % form.group == 0;
    if (form.hasSign ? std::fabs(from[i]) > std::fabs(greatest[g]) : first || from[i] > greatest[g])
      greatest[g] = from[i];
  }
  if (!form.hasSign) {
    result.unitOfMinimums = unitFor(-*std::min_element(least, least + groups), mostMinimum);
    const float unit = support::halfToFloat(result.unitOfMinimums);
    for (int g = 0; g < groups; ++g) {
      result.minimums[g] = uint8_t(unitsIn(-least[g], unit, mostMinimum));
      minimums[g] = unit * float(result.minimums[g]);
    }
  }
  float scales[maxBlockGroups] = {};
  for (int g = 0; g < groups; ++g)
    scales[g] = form.hasSign ? std::fabs(greatest[g]) / float(-form.least())
                             : std::max((greatest[g] + minimums[g]) / float(form.most()), 0.0f);
  result.unit = unitFor(*std::max_element(scales, scales + groups), mostScale);
  const float unit = support::halfToFloat(result.unit);
  for (int g = 0; g < groups; ++g) {
    const int units = unitsIn(scales[g], unit, mostScale);
    result.scales[g] = int8_t(form.hasSign && greatest[g] > 0 ? -units : units);
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t g = i / form.group;
    const float scale = unit * float(result.scales[g]);
    if (scale != 0)
      result.codes[i] = int8_t(
          std::clamp(std::floor((from[i] + minimums[g]) / scale + 0.5f), float(form.least()), float(form.most())));
  }
  return result;
}

} // namespace quern::runtime
