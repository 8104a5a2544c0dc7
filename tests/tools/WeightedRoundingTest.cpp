// Rounding where some numbers count more: never worse than the usual codes, and better where the weights differ.
#include "tools/quantize/WeightedRounding.h"

#include "runtime/files/Safetensors.h"
#include "support/numbers/SmallFloats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace quern;
using namespace quern::tools;
using support::Storage;

namespace {

/// As Q4_0 and Q8_0 have it: the largest number is at the end of the codes.
RoundedGroup usualOf(const float *numbers, int64_t count, Storage storage) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i)
    if (std::fabs(numbers[i]) > std::fabs(largest))
      largest = numbers[i];
  const bool wide = storage == Storage::Int8;
  const float scale = wide ? std::fabs(largest) / 127 : largest / -8;
  RoundedGroup group;
  group.scale = quern::support::floatToHalf(scale);
  for (int64_t i = 0; i < count && scale != 0; ++i)
    group.codes[i] = int8_t(std::clamp<float>(std::nearbyint(numbers[i] / scale), wide ? -127 : -8, wide ? 127 : 7));
  return group;
}

TEST(WeightedRounding, IsNeverWorseAndBetterWhereWeightsDiffer) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (Storage storage : {Storage::Int4, Storage::Int8}) {
    double before = 0, after = 0;
    for (int round = 0; round < 300; ++round) {
      const int64_t count = 1 + int64_t(random() % 32);
      float numbers[32], weights[32];
      for (int i = 0; i < 32; ++i) {
        numbers[i] = normal(random);
        weights[i] = std::exp(3 * normal(random));
      }
      RoundedGroup usual = usualOf(numbers, count, storage),
                   group = roundWeighted(usual, numbers, weights, count, storage);
      const double loss = lossOf(usual, numbers, weights, count), own = lossOf(group, numbers, weights, count);
      ASSERT_LE(own, loss);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_GE(group.codes[i], storage == Storage::Int4 ? -8 : -127);
        ASSERT_LE(group.codes[i], storage == Storage::Int4 ? 7 : 127);
      }
      before += loss;
      after += own;
    }
    EXPECT_LT(after, (storage == Storage::Int4 ? 0.6 : 0.95) * before);
  }
}

TEST(WeightedRounding, FindsAScaleThatOneNumberNeeds) {
  // 0.9 counts alone, and is a multiple of no scale that 8 leads to: 0 is lost for it.
  float numbers[2] = {8, 0.9f}, weights[2] = {0, 1};
  RoundedGroup usual = usualOf(numbers, 2, Storage::Int4),
               group = roundWeighted(usual, numbers, weights, 2, Storage::Int4);
  EXPECT_NEAR(lossOf(usual, numbers, weights, 2), 0.01, 1e-3);
  EXPECT_NEAR(lossOf(group, numbers, weights, 2), 0, 1e-6);
}

TEST(WeightedRounding, LeavesWhatHasNoScale) {
  float zeros[32] = {}, tiny[2] = {1e-30f, -1e-30f}, wild[2] = {INFINITY, 1}, weights[32];
  std::fill(weights, weights + 32, 1.0f);
  for (Storage storage : {Storage::Int4, Storage::Int8}) {
    EXPECT_EQ(roundWeighted({}, zeros, weights, 32, storage).scale, 0);
    EXPECT_EQ(roundWeighted({}, tiny, weights, 2, storage).scale, 0);
    RoundedGroup usual{1234, {1, 2}};
    EXPECT_EQ(roundWeighted(usual, wild, weights, 2, storage).scale, 1234);
  }
}

} // namespace
