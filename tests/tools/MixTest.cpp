// The choice of formats: expected mixes by hand, and what holds for any.
#include "tools/quantize/Mix.h"
#include "support/Error.h"
#include "tools/quantize/ChooseMix.h"

#include <gmock/gmock.h>

#include <random>

using namespace quern::tools;
using testing::ElementsAre;

namespace {

const std::vector<GroupChoices> three = {
    {"attention", {{"f32", 400, 0}, {"int8", 110, 0.001}, {"int4", 60, 0.05}}},
    {"mlp", {{"f32", 800, 0}, {"int8", 220, 0.002}, {"int4", 120, 0.02}}},
    {"head", {{"f32", 100, 0}, {"int8", 28, 0.004}, {"int4", 15, 0.5}}},
};

std::vector<std::vector<size_t>> formatsOf(const std::vector<Mix> &mixes) {
  std::vector<std::vector<size_t>> all;
  for (const Mix &mix : mixes)
    all.push_back(mix.formats);
  return all;
}

TEST(Mix, EachStepSavesMostForWhatItLoses) {
  // Bytes for each unit of loss: attention int8 290,000, mlp int8 290,000 (a tie: the first), head int8 18,000,
  // mlp int4 100 / 0.018 = 5,556, attention int4 50 / 0.049 = 1,020, head int4 13 / 0.496 = 26.
  std::vector<Mix> mixes = mixesBySize(three);
  EXPECT_THAT(formatsOf(mixes),
              ElementsAre(ElementsAre(0, 0, 0), ElementsAre(1, 0, 0), ElementsAre(1, 1, 0), ElementsAre(1, 1, 1),
                          ElementsAre(1, 2, 1), ElementsAre(2, 2, 1), ElementsAre(2, 2, 2)));
  EXPECT_EQ(mixes[0].bytes, 1300u);
  EXPECT_EQ(mixes[3].bytes, 358u);
  EXPECT_DOUBLE_EQ(mixes[4].loss, 0.001 + 0.02 + 0.004);
  EXPECT_EQ(mixes[6].bytes, 195u);
}

TEST(Mix, ASizeTakesTheFirstThatFits) {
  std::vector<Mix> mixes = mixesBySize(three);
  EXPECT_EQ(firstWithin(mixes, 5000), 0u);
  EXPECT_EQ(firstWithin(mixes, 358), 3u);
  EXPECT_EQ(firstWithin(mixes, 357), 4u);
  EXPECT_EQ(firstWithin(mixes, 195), 6u);
  EXPECT_EQ(firstWithin(mixes, 194), std::nullopt);
}

TEST(Mix, WhatIsNeitherSmallerNorBetterIsLeftOut) {
  // A tied table: codes are beside it, so int8 saves nothing. bf16 of a checkpoint in bf16 loses nothing and is as small.
  std::vector<Mix> mixes =
      mixesBySize({{"table", {{"f32", 100, 0}, {"bf16", 100, 0}, {"int8", 100, 0.001}, {"int4", 100, 0.1}}}});
  EXPECT_THAT(formatsOf(mixes), ElementsAre(ElementsAre(1)));
}

TEST(Mix, AStepMayPassOverAFormatThatLosesTooMuchForItsBytes) {
  std::vector<Mix> mixes =
      mixesBySize({{"a", {{"f32", 100, 0}, {"int8", 90, 0.9}, {"int4", 20, 1}}}, {"b", {{"f32", 50, 0}}}});
  EXPECT_THAT(formatsOf(mixes), ElementsAre(ElementsAre(0, 0), ElementsAre(2, 0)));
}

TEST(Mix, ALossBelowZeroIsNoGain) {
  std::vector<Mix> mixes = mixesBySize({{"a", {{"f32", 100, 0}, {"int8", 50, -0.1}, {"int4", 20, 0.1}}}});
  EXPECT_THAT(formatsOf(mixes), ElementsAre(ElementsAre(1), ElementsAre(2)));
  EXPECT_EQ(mixes[0].loss, 0);
}

TEST(Mix, NothingToChooseIsOneMix) {
  EXPECT_THAT(formatsOf(mixesBySize({})), ElementsAre(ElementsAre()));
}

TEST(Mix, RandomOnesShrinkStepByStepAndAreTheSameAgain) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<GroupChoices> groups(1 + random() % 6);
    for (GroupChoices &group : groups) {
      group.formats.push_back({"f32", 1000, 0});
      for (int i = int(random() % 4); i > 0; --i)
        group.formats.push_back({"x", random() % 1200, double(random() % 100) / 50 - 0.2});
    }
    std::vector<Mix> mixes = mixesBySize(groups);
    EXPECT_EQ(formatsOf(mixes), formatsOf(mixesBySize(groups)));
    for (size_t i = 1; i < mixes.size(); ++i) {
      EXPECT_LT(mixes[i].bytes, mixes[i - 1].bytes);
      EXPECT_GE(mixes[i].loss, mixes[i - 1].loss);
    }
    uint64_t least = 0;
    for (const GroupChoices &group : groups)
      least += std::min_element(group.formats.begin(), group.formats.end(), [](auto &a, auto &b) {
                 return a.bytes < b.bytes;
               })->bytes;
    EXPECT_EQ(mixes.back().bytes, least);
  }
}

TEST(Mix, LastGoodAsksFewAndIsMonotone) {
  int asked = 0;
  auto below = [&](size_t limit) {
    asked = 0;
    return lastGood(100, [&, limit](size_t i) {
      ++asked;
      return i < limit;
    });
  };
  EXPECT_EQ(below(0), std::nullopt);
  EXPECT_EQ(below(1), 0u);
  EXPECT_EQ(below(37), 36u);
  EXPECT_EQ(below(100), 99u);
  EXPECT_LE(asked, 7);
  // A measurement that goes up and down: whoever allows more gets no larger mix.
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    std::vector<double> measured(20);
    for (double &value : measured)
      value = double(random() % 1000);
    std::optional<size_t> before;
    for (double allowed = 0; allowed <= 1000; allowed += 50) {
      std::optional<size_t> now = lastGood(measured.size(), [&](size_t i) { return measured[i] <= allowed; });
      EXPECT_TRUE(!before || (now && *now >= *before));
      EXPECT_TRUE(!now || measured[*now] <= allowed);
      before = now;
    }
    EXPECT_EQ(before, measured.size() - 1);
  }
}

TEST(Mix, LaddersGoFromTheMostBitsDown) {
  EXPECT_THAT(ladderTo("int4"), ElementsAre("f32", "bf16", "int8", "int4"));
  EXPECT_THAT(ladderTo("int8"), ElementsAre("f32", "bf16", "int8"));
  EXPECT_THAT(ladderTo("w4a8"), ElementsAre("f32", "bf16", "w8a8", "w4a8"));
  EXPECT_THAT(ladderTo("q4_k"), ElementsAre("f32", "bf16", "int8", "q6_k", "q5_k", "q4_k"));
  EXPECT_THAT(ladderTo("q6_k"), ElementsAre("f32", "bf16", "int8", "q6_k"));
  EXPECT_THAT(ladderTo("bf16"), ElementsAre("f32", "bf16"));
  EXPECT_THAT(ladderTo("f16"), ElementsAre("f32", "f16"));
  for (const char *none : {"f32", "w16a16", "int3", ""})
    EXPECT_THROW(ladderTo(none), quern::support::UserError) << none;
}

} // namespace
