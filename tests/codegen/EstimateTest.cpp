// The model behind default plans: what it chooses for known shapes on three processors, and what must hold of any.
#include "codegen/schedule/Estimate.h"
#include "codegen/schedule/ChoosePlan.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

using namespace quern::codegen;

namespace {
const char *const targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
const char *const drawnFamilies[] = {"contract", "dense", "grouped", "experts", "attention",
                                     "gradient", "row",   "map",     "scan"};

Anchor anchor(const std::string &family, const std::string &target, const Facts &more) {
  Anchor made{family, -1, factsOf(cpuTarget(target))};
  for (const auto &[name, value] : more)
    made.facts[name] = value;
  return made;
}

PlanPart chosen(const Anchor &anchor, const std::string &schedules = "") {
  ScheduleTable table;
  table.add(schedules, "test.txt");
  return chooseParts({anchor}, table)[0];
}

/// A weight as programs pack it.
Anchor weight(const std::string &target, int64_t outer, int64_t inner, int64_t bits = 32, int64_t rowBits = 32) {
  int64_t tile = weightTile(outer, inner, ScheduleTable(), cpuTarget(target));
  return anchor("contract", target,
                {{"outer", outer},
                 {"inner", inner},
                 {"tile", tile},
                 {"bits", bits},
                 {"row_bits", rowBits},
                 {"levels", bits < 16},
                 {"bytes", 4}});
}
} // namespace

/// Tiles that were measured to reach 95% and more of the peak (docs/design/schedules.md), dense ones to be faster than these.
TEST(Estimate, KnownTilesOfThreeProcessors) {
  struct Known {
    const char *target;
    int columns, rows, step, lanes, denseColumns, denseRows;
  };
  for (const Known &known : {Known{"x86-64-v2", 8, 6, 4, 12, 12, 4}, Known{"x86-64-v3", 16, 6, 6, 16, 24, 4},
                             Known{"x86-64-v4", 64, 6, 11, 32, 48, 8}}) {
    SCOPED_TRACE(known.target);
    for (auto [outer, inner] : {std::pair(768, 768), std::pair(2048, 768), std::pair(768, 2048), std::pair(32000, 768),
                                std::pair(5632, 2048)}) {
      PlanPart part = chosen(weight(known.target, outer, inner));
      EXPECT_EQ(part["columns"], known.columns) << outer << " " << inner;
      EXPECT_EQ(part["rows"], known.rows) << outer << " " << inner;
      EXPECT_EQ(part["unroll"], 4) << outer << " " << inner;
    }
    PlanPart dense = chosen(anchor("dense", known.target, {{"outer", 3072}, {"inner", 768}, {"depth", 768}}));
    EXPECT_EQ(dense["columns"], known.denseColumns);
    EXPECT_EQ(dense["rows"], known.denseRows);
    PlanPart attention = chosen(anchor("attention", known.target, {{"depth", 64}, {"values", 64}}));
    EXPECT_EQ(attention["rows"], known.lanes);
    EXPECT_EQ(attention["step"], known.step);
    EXPECT_EQ(attention["block"], 256);
  }
}

/// Measured in docs/design/attention.md: where cores begin two multiply-adds of 512 bits, a number of a key should serve more rows.
TEST(Estimate, AttentionWhereInstructionsAreScarce) {
  PlanPart attention = chosen(anchor("attention", "cascadelake", {{"depth", 64}, {"values", 64}}));
  EXPECT_EQ(attention["rows"], 64);
  EXPECT_EQ(attention["step"], 6);
}

/// Measured in docs/design/contractions.md: two rows are faster one by one with AVX2, not with AVX-512.
TEST(Estimate, FewRowsOneByOne) {
  EXPECT_EQ(chosen(weight("x86-64-v3", 32000, 768))["alone"], 2);
  EXPECT_EQ(chosen(weight("x86-64-v4", 32000, 768))["alone"], 1);
  EXPECT_EQ(chosen(weight("x86-64-v3", 32000, 768))["side"], 4);
  EXPECT_EQ(chosen(weight("x86-64-v4", 32000, 768))["side"], 1);
}

/// Measured (docs/design/schedules.md): unpacking codes costs a tile as much as a row, and the tile multiplies rows that are not
/// there. Codes that a row multiplies as they stand in their words take longer to be worth a tile: by the model, not measured there.
TEST(Estimate, CodesHaveMoreRowsOneByOne) {
  auto alone = [](int64_t bits, int64_t rowBits, int64_t levels) {
    Anchor product = weight("x86-64-v4", 2048, 768, bits, rowBits);
    product.facts["levels"] = levels;
    return chosen(product, "contract : few 0\n")["alone"];
  };
  EXPECT_EQ(alone(32, 32, 0), 1);
  EXPECT_EQ(alone(16, 32, 0), 4);
  EXPECT_EQ(alone(8, 32, 1), 6);
  EXPECT_EQ(alone(4, 32, 1), 7);
  EXPECT_EQ(alone(4, 32, 2), 7);
  EXPECT_EQ(alone(6, 32, 2), 6);
  EXPECT_EQ(alone(8, 8, 1), 1);
  EXPECT_EQ(alone(4, 8, 1), 5);
}

/// Measured (docs/design/contractions.md): rows that are no codes, beside numbers in fewer bits, share what these become in registers;
/// two are as fast one by one where codes stand in their words (measured with AVX2 alone).
TEST(Estimate, AFewRowsTogether) {
  for (auto [bits, rowBits, levels, few] : {std::tuple(32, 32, 0, 0), std::tuple(16, 32, 0, 8), std::tuple(8, 32, 1, 8),
                                            std::tuple(4, 32, 2, 8), std::tuple(8, 8, 1, 0)}) {
    Anchor product = weight("x86-64-v4", 2048, 768, bits, rowBits);
    product.facts["levels"] = levels;
    EXPECT_EQ(chosen(product)["few"], few) << bits;
    EXPECT_EQ(chosen(product, "contract : few 16\n")["few"], rowBits < 16 ? 0 : 16) << bits;
    if (few) {
      EXPECT_EQ(chosen(product)["alone"], levels ? 2 : 1) << bits;
    }
  }
}

/// Not of groups of 16 codes, as q6_k has, where it gained nothing; where the facts say that it cannot be, never.
TEST(Estimate, TilesOfAmxWhereTheyAre) {
  for (auto [bits, rowBits, levels, used] : {std::tuple(16, 16, 0, true), std::tuple(8, 8, 1, true),
                                             std::tuple(4, 8, 2, true), std::tuple(6, 8, 2, false)}) {
    Anchor product = weight("sapphirerapids", 2048, 768, bits, rowBits);
    product.facts["levels"] = levels;
    EXPECT_EQ(chosen(product)["amx"], 0) << bits;
    product.facts["amx"] = 1;
    EXPECT_EQ(chosen(product)["amx"] > 0, used) << bits;
    EXPECT_EQ(chosen(product, "contract : amx 0\n")["amx"], 0) << bits;
    EXPECT_EQ(chosen(product, "contract : amx 2\n")["amx"], 2) << bits;
  }
}

/// Measured (docs/design/attention.md): faster with tiles in f32 and, as products are three, more so in bf16.
TEST(Estimate, AttentionByAmxWhereItIs) {
  for (int64_t terms : {0, 3, 6}) {
    Anchor attention = anchor("attention", "sapphirerapids", {{"depth", 64}, {"values", 64}, {"amx", terms}});
    EXPECT_EQ(chosen(attention)["amx"] > 0, terms > 0) << terms;
    EXPECT_EQ(chosen(attention, "attention : amx 0\n")["amx"], 0) << terms;
    EXPECT_EQ(chosen(attention, "attention : amx 3\n")["amx"], terms ? 3 : 0) << terms;
  }
}

TEST(Estimate, BlocksFollowTheCaches) {
  int before = 0;
  for (int64_t kilobytes : {128, 256, 512, 1024, 2048}) {
    Anchor attention = anchor("attention", "x86-64-v4", {{"depth", 64}, {"values", 64}, {"second", kilobytes << 10}});
    PlanPart part = chosen(attention);
    EXPECT_GE(part["keys"], before) << kilobytes;
    EXPECT_LE(part["keys"] * 4 * (2 * part["rows"] + 128), kilobytes << 10);
    before = part["keys"];
  }
  before = 0;
  for (int64_t kilobytes : {256, 512, 1024, 2048}) {
    Anchor product = weight("x86-64-v3", 768, 2048);
    product.facts["second"] = kilobytes << 10;
    int block = chosen(product)["row_block"];
    EXPECT_GE(block, before) << kilobytes;
    before = block;
  }
  EXPECT_LE(chosen(weight("x86-64-v4", 768, 4096))["row_block"], chosen(weight("x86-64-v4", 768, 1024))["row_block"]);
}

/// Measured (docs/design/contractions.md): what is deeper than the second cache holds goes by parts, of one size; rows in
/// codes do not.
TEST(Estimate, DeepWeightsGoByParts) {
  EXPECT_EQ(chosen(weight("x86-64-v4", 768, 768))["depth"], 768);
  for (int64_t inner : {5632, 11008, 14336}) {
    int64_t depth = chosen(weight("x86-64-v4", 2048, inner))["depth"];
    EXPECT_LE(depth, 2048) << inner;
    EXPECT_GE(depth, 256) << inner;
    EXPECT_LT((inner + depth - 1) / depth * depth - inner, depth) << inner;
    EXPECT_EQ(chosen(weight("x86-64-v4", 2048, inner, 8, 8))["depth"], inner);
    EXPECT_EQ(chosen(weight("x86-64-v4", 2048, inner, 4))["depth"] % 256, 0) << inner;
  }
}

/// Measured (docs/design/experts.md): with AVX-512 rows in codes are worth a copy of their expert's columns early.
TEST(Estimate, FewRowsOfAnExpertHaveNoCopy) {
  auto few = [](const char *target, int64_t bits, int64_t rowBits) {
    return chosen(anchor("grouped", target,
                         {{"outer", 1792},
                          {"inner", 512},
                          {"bits", bits},
                          {"levels", 1},
                          {"row_bits", rowBits},
                          {"scaled", 32}}))["few"];
  };
  EXPECT_EQ(few("znver4", 8, 8), 6);
  EXPECT_EQ(few("znver4", 4, 8), 6);
  EXPECT_EQ(few("x86-64-v3", 8, 8), 16);
  EXPECT_EQ(few("x86-64-v3", 4, 8), 32);
  EXPECT_EQ(few("znver4", 8, 32), 12);
}

/// Measured (docs/design/contractions.md): into the second cache short runs of keys are asked for later.
TEST(Estimate, LinesOfKeysAreAskedForByTheCacheThatTakesThem) {
  for (auto [target, bytes, runs] :
       {std::tuple("znver4", 512, 2), std::tuple("x86-64-v3", 1024, 4), std::tuple("sapphirerapids", 2048, 2)}) {
    PlanPart one = chosen(anchor("attention", target, {{"depth", 64}, {"values", 64}}));
    EXPECT_EQ(one["ahead"], bytes) << target;
    EXPECT_EQ(one["runs"], runs) << target;
  }
  for (auto [target, runs] : {std::tuple("znver4", 1), std::tuple("x86-64-v3", 4), std::tuple("sapphirerapids", 2)})
    EXPECT_EQ(chosen(anchor("attention", target, {{"depth", 64}, {"values", 64}, {"key_bits", 16}}))["runs"], runs)
        << target;
  for (const char *target : {"znver4", "sapphirerapids"})
    EXPECT_EQ(chosen(weight(target, 768, 768))["ahead"], 2048) << target;
}

/// Measured (docs/design/contractions.md): codes that take many instructions for a byte want their lines earlier on AMD's AVX-512.
TEST(Estimate, CodesThatTakeManyInstructionsAskFurtherAhead) {
  auto ahead = [](const char *target, int64_t bits, int64_t rowBits, int64_t levels) {
    Anchor made = weight(target, 768, 768, bits, rowBits);
    made.facts["levels"] = levels;
    return chosen(made)["ahead"];
  };
  EXPECT_EQ(ahead("znver4", 4, 32, 1), 8192);
  EXPECT_EQ(ahead("znver4", 4, 16, 2), 8192);
  EXPECT_EQ(ahead("znver4", 6, 8, 2), 8192);
  EXPECT_EQ(ahead("znver4", 4, 8, 2), 2048);
  EXPECT_EQ(ahead("znver4", 8, 8, 1), 2048);
  EXPECT_EQ(ahead("znver4", 16, 16, 0), 2048);
  EXPECT_EQ(ahead("sapphirerapids", 4, 32, 1), 2048);
  EXPECT_EQ(ahead("x86-64-v3", 4, 32, 1), 512);
}

/// A word is two keys: steps are even, and of products that take half as long.
TEST(Estimate, PairsHaveEvenSteps) {
  for (int64_t depth : {32, 64, 128}) {
    PlanPart part = chosen(anchor("attention", "znver4", {{"depth", depth}, {"values", depth}, {"pairs", 1}}));
    EXPECT_EQ(part["step"] % 2, 0) << depth;
  }
}

TEST(Estimate, TasksFollowTheThreads) {
  Anchor few = weight("x86-64-v3", 768, 768), many = few;
  few.facts["threads"] = 2, many.facts["threads"] = 32;
  EXPECT_LE(chosen(many)["row_block"], chosen(few)["row_block"]);
  EXPECT_EQ(chosen(few)["tiles"], 4);
  EXPECT_EQ(chosen(many)["tiles"], 64);
}

/// What a person says holds, fitted to the shape; the rest is chosen beside it.
TEST(Estimate, SchedulesOverride) {
  Anchor product = weight("x86-64-v3", 80, 48);
  PlanPart part = chosen(product, "contract inner = 48 : rows 3, unroll 32\n");
  EXPECT_EQ(part["rows"], 3);
  EXPECT_EQ(part["unroll"], 16); // of a depth of 48
  EXPECT_EQ(chosen(product, "contract inner = 49 : rows 3\n")["rows"], 6);
}

/// Any shape, known or not, gives a point of the space, and no point of a number's values is cheaper.
TEST(Estimate, AnyShapeGivesAPointThatNoNeighbourBeats) {
  std::mt19937 random(11);
  auto draw = [&](std::initializer_list<int64_t> of) { return of.begin()[random() % of.size()]; };
  for (int i = 0; i < 400; ++i) {
    std::string target = targets[random() % 3], family = drawnFamilies[random() % std::size(drawnFamilies)];
    Facts facts;
    int64_t size = int64_t(random() % 5000) + 1, other = int64_t(random() % 5000) + 1;
    if (family == "contract" || family == "dense" || family == "grouped" || family == "experts")
      facts = {{"outer", draw({0, size, 768, 50257})},
               {"inner", draw({0, other, 64, 768, 11008})},
               {"rows", draw({0, 1, 2, 7, size})},
               {"bits", draw({32, 16, 8, 4, 5, 6})},
               {"row_bits", draw({32, 16, 8})},
               {"bytes", draw({2, 4})},
               {"amx", draw({0, 1})}};
    if (family == "dense")
      facts["depth"] = facts["inner"], facts["heads"] = draw({0, 1});
    if ((family == "contract" || family == "grouped") && facts["outer"])
      facts["tile"] = weightTile(std::max<int64_t>(2, facts["outer"]), facts["inner"], ScheduleTable(),
                                 cpuTarget(targets[random() % 3]));
    if (family == "attention" || family == "gradient")
      facts = {{"depth", draw({0, 1, 8, 64, 80, 128, 192})}, {"values", draw({0, 1, 64, 72, 128})}};
    Anchor drawn = anchor(family, target, facts);
    drawn.facts["threads"] = draw({1, 2, 8, 64}), drawn.facts["second"] = draw({262144, 524288, 1048576, 2097152});
    std::string named = family + " " + target;
    for (const auto &[name, value] : drawn.facts)
      named += " " + name + "=" + std::to_string(value);
    SCOPED_TRACE(named);
    PlanPart part{"", {}};
    ASSERT_NO_THROW(part = chosen(drawn));
    EXPECT_EQ(checkPart(part, drawn).value_or(""), "");
    Estimate estimate(drawn);
    double cost = estimate(part);
    EXPECT_GT(cost, 0);
    EXPECT_LT(cost, std::numeric_limits<double>::infinity());
    for (const char *name : {"unroll", "row_block", "alone", "few", "side", "keys", "block"})
      if (const Parameter *parameter = quern::codegen::family(family).find(name))
        for (int64_t value : estimate.values(*parameter)) {
          PlanPart near = part;
          near.numbers[name] = value;
          if (!checkPart(near, drawn)) {
            EXPECT_GE(estimate(near), cost * (1 - 1e-9)) << name << " " << value;
          }
        }
  }
}
