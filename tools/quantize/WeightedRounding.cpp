// Takes: a group of numbers, and how much each counts. Gives: its scale and codes.
#include "tools/quantize/WeightedRounding.h"

#include "runtime/files/Safetensors.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>

namespace quern::tools {
namespace {

constexpr double narrowest = 0.75, widest = 1.25, step = 1.0 / 32; // scales that are tried, relative to the usual ones

/// The nearest codes for a scale; false where the scale is nothing to divide by.
bool fillCodes(RoundedGroup &group, const float *numbers, int64_t count, int least, int most) {
  const float scale = support::halfToFloat(group.scale);
  if (!std::isnormal(scale))
    return false;
  for (int64_t i = 0; i < count; ++i)
    group.codes[i] = int8_t(std::clamp<float>(std::nearbyint(numbers[i] / scale), float(least), float(most)));
  return true;
}

/// The scale that loses least with these codes.
double bestScale(const RoundedGroup &group, const float *numbers, const float *weights, int64_t count) {
  double product = 0, square = 0;
  for (int64_t i = 0; i < count; ++i) {
    product += double(weights[i]) * numbers[i] * group.codes[i];
    square += double(weights[i]) * group.codes[i] * group.codes[i];
  }
  return square > 0 ? product / square : 0;
}

} // namespace

double lossOf(const RoundedGroup &group, const float *numbers, const float *weights, int64_t count) {
  const double scale = support::halfToFloat(group.scale);
  double loss = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double difference = numbers[i] - scale * group.codes[i];
    loss += weights[i] * difference * difference;
  }
  return loss;
}

RoundedGroup roundWeighted(const RoundedGroup &usual, const float *numbers, const float *weights, int64_t count,
                           support::Storage storage) {
  const bool wide = bitsOfCode(storage) == 8;
  const int least = wide ? -127 : -8, most = wide ? 127 : 7;
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(numbers[i]))
      return usual;
    largest = std::max(largest, std::fabs(numbers[i]));
  }
  RoundedGroup best = usual;
  double loss = lossOf(usual, numbers, weights, count);
  for (double sign : {1.0, -1.0}) // codes of 4 bits reach one further below 0
    for (double factor = narrowest; factor <= widest && !(wide && sign < 0); factor += step) {
      RoundedGroup group;
      group.scale = support::floatToHalf(float(sign * factor * largest / (wide ? 127 : 8)));
      if (!fillCodes(group, numbers, count, least, most))
        continue;
      group.scale = support::floatToHalf(float(bestScale(group, numbers, weights, count)));
      if (!fillCodes(group, numbers, count, least, most))
        continue;
      if (double own = lossOf(group, numbers, weights, count); own < loss) {
        loss = own;
        best = group;
      }
    }
  return best;
}

} // namespace quern::tools
