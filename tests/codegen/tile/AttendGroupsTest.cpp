// Attention by Hopper's warp groups: what TMA and tensor cores must agree on, where a mask need not be evaluated, and what shows
// where the ring, its products or their registers are wrong.
#include "codegen/schedule/Space.h"
#include "codegen/tile/TileProducer.h"
#include "codegen/tile/ptx/PtxModule.h"
#include "tests/codegen/tile/AttentionMaker.h"

#include <regex>

using namespace quern::codegen;
using tile::Attention;

namespace {

tile::Numbers numbersOf(int groups, int wide, int ring, int turns = 1) {
  tile::Numbers numbers;
  numbers.attend = {16, 16, 2, 1, 0, 1, 1, groups, wide, ring, turns};
  return numbers;
}

/// The kernel's program has such an attention; both lowerings of it are right.
void check(const KernelGraph &graph, const tile::Numbers &numbers, const std::vector<Lengths> &lengths,
           double tolerance = 1e-5) {
  std::mt19937 random(7);
  tile::Program program;
  ASSERT_EQ(tile::divide(graph, numbers, program), std::nullopt);
  ASSERT_EQ(program.variants[0].name, "groups") << tile::text(program);
  EXPECT_EQ(program.variants[0].capability, 90);
  tile::checkVariants(graph, numbers, lengths, tolerance, "wide " + std::to_string(numbers.attend.wide), random);
}

const std::vector<Lengths> lengths = {
    {{"B", 1}, {"T", 1}, {"past", 0}}, {{"B", 2}, {"T", 5}, {"past", 76}}, {{"B", 1}, {"T", 90}, {"past", 40}}};

} // namespace

TEST(AttendGroups, EveryLineOfKeysAndValues) {
  for (auto [depth, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 64}, {128, 128}, {16, 40}, {24, 16}, {80, 96}, {8, 8}, {192, 128}})
    for (int wide : {16, 48}) {
      SCOPED_TRACE(depth);
      Attention g(Storage::BF16, 2, 3, depth, columns);
      check(g.with(g.masked(g.score)), numbersOf(2, wide, 2), {lengths[1]});
    }
}

TEST(AttendGroups, GroupsAndRings) {
  for (int groups : {1, 2, 3})
    for (int ring : {2, 3}) {
      SCOPED_TRACE(groups);
      Attention g(Storage::BF16, 1, 2, 16, 16);
      check(g.with(g.masked(g.score)), numbersOf(groups, 32, ring, ring - 2), lengths);
    }
}

TEST(AttendGroups, Masks) {
  quern::ir::Size length = quern::ir::Size::symbol("T") + quern::ir::Size::symbol("past");
  {
    Attention g(Storage::BF16, 2, 2, 16, 8);
    check(g.with(g.score), numbersOf(2, 32, 2), lengths);
  }
  for (int64_t window : {1, 70}) {
    Attention g(Storage::BF16, 2, 1, 16, 8);
    int early = g.elementwise(Op::Sub, {g.queryPosition(), g.integer(window)});
    int mask = g.elementwise(Op::And, {g.causal(), g.compare(Predicate::Lt, early, g.index(g.S))});
    // Tiles begin at a block's first key, not at 0 as those of the reference: weights are rounded beside other largest scores.
    check(g.with(g.where(mask, g.score, g.constant(-INFINITY))), numbersOf(1, 16, 2), lengths, 1e-2);
  }
  { // padding is no bound: it is evaluated for every key
    Attention g(
        Storage::BF16, 2, 1, 16, 8,
        {{Storage::U8, {dim("B"), dim("S", length)}}, {Storage::F32, {dim("G", 2), dim("T"), dim("S", length)}}});
    int biased = g.elementwise(Op::Add, {g.score, g.extra[1]});
    int mask = g.elementwise(Op::And, {g.causal(), g.extra[0]});
    check(g.with(g.where(mask, biased, g.constant(-INFINITY))), numbersOf(1, 32, 2), lengths);
  }
  { // nobody sees anything
    Attention g(Storage::BF16, 1, 1, 16, 16);
    int none = g.compare(Predicate::Lt, g.index(g.S), g.integer(0));
    check(g.with(g.where(none, g.score, g.constant(-INFINITY))), numbersOf(2, 32, 2), {lengths[1]});
  }
  { // sinks, and what a gradient keeps
    Attention g(Storage::BF16, 2, 2, 16, 16, {{Storage::F32, {dim("G", 2), dim("U", 3)}}});
    int y = g.attention(g.masked(g.score), g.v, "S", {{g.extra[0], "U"}});
    auto [shift, share] = g.statistics(y);
    g.yield(y), g.yield(shift), g.yield(share);
    check(g.finish("statistics"), numbersOf(2, 32, 2), {lengths[1], lengths[2]});
  }
}

/// A causal mask is not evaluated on tiles that all rows see; a factor of all scores is apart.
TEST(AttendGroups, WhatNeedNotBeComputed) {
  Attention g(Storage::BF16, 1, 1, 16, 16);
  tile::Program program;
  ASSERT_EQ(tile::divide(g.with(g.masked(g.score)), numbersOf(2, 32, 2), program), std::nullopt);
  const tile::Attend &attend = program.variants[0].stages[0].attend;
  EXPECT_EQ(attend.whole, program.values.sum(0)) << tile::text(program);
  EXPECT_EQ(attend.scale, 0.3);

  Attention window(Storage::BF16, 1, 1, 16, 16);
  int early = window.elementwise(Op::Sub, {window.queryPosition(), window.integer(7)});
  int mask =
      window.elementwise(Op::And, {window.causal(), window.compare(Predicate::Gt, window.index(window.S), early)});
  tile::Program other;
  ASSERT_EQ(tile::divide(window.with(window.where(mask, window.score, window.constant(-INFINITY))), numbersOf(2, 32, 2),
                         other),
            std::nullopt);
  EXPECT_EQ(other.variants[0].stages[0].attend.whole, other.values.sum(0)) << tile::text(other);
}

TEST(AttendGroups, WhatItLeavesToOthers) {
  auto first = [](const KernelGraph &graph, tile::Numbers numbers) {
    tile::Program program;
    EXPECT_EQ(tile::divide(graph, numbers, program), std::nullopt);
    return program.variants[0].name;
  };
  Attention floats(Storage::F32, 2, 1, 16, 8), odd(Storage::BF16, 2, 1, 12, 8), pieces(Storage::BF16, 2, 1, 16, 8);
  EXPECT_EQ(first(floats.with(floats.score), numbersOf(2, 32, 2)), "any");
  EXPECT_EQ(first(odd.with(odd.score), numbersOf(2, 32, 2)), "any");
  tile::Numbers three = numbersOf(2, 32, 2);
  three.attend.pieces = 3;
  EXPECT_EQ(first(pieces.with(pieces.score), three), "direct");
}

TEST(AttendGroups, PlansThatCannotBe) {
  PlanPart part{"attend",
                {{"rows", 64},
                 {"keys", 64},
                 {"stages", 2},
                 {"warps", 4},
                 {"few", 16},
                 {"split", 16},
                 {"pieces", 1},
                 {"groups", 2},
                 {"wide", 128},
                 {"ring", 2},
                 {"turns", 1}}};
  auto refused = [&](const char *name, int64_t value, int64_t values) {
    PlanPart other = part;
    other.numbers[name] = value;
    return checkPart(other,
                     {"attend", 0, {{"depth", values}, {"values", values}, {"dots", 1}, {"sums", 1}, {"bits", 16}}})
        .value_or("");
  };
  EXPECT_EQ(refused("ring", 3, 128), "");
  EXPECT_EQ(refused("ring", 4, 128), "ring 4 of wide 128 takes 262288 bytes of a block's memory; there are 232448");
  EXPECT_EQ(refused("wide", 144, 128), "wide 144 beside values 128 does not fit the registers of 2 groups");
  EXPECT_EQ(refused("groups", 3, 128), "wide 128 beside values 128 does not fit the registers of 3 groups");
}

TEST(AttendGroups, PlantedFaultsShow) {
  Attention g(Storage::BF16, 1, 1, 64, 64);
  const KernelGraph &graph = g.with(g.masked(g.score));
  tile::Program program;
  ASSERT_EQ(tile::divide(graph, numbersOf(2, 32, 3), program), std::nullopt);
  std::string ptx = tile::ptxOf(program, 90).ptx;
  tile::Faults faults(graph, program, 0, ptx, {{"B", 1}, {"T", 256}, {"past", 170}}, 1e-2);
  ASSERT_TRUE(faults.isRight(ptx));
  auto every = [&](const char *what) {
    std::regex form(what);
    return std::vector<std::smatch>(std::sregex_iterator(ptx.begin(), ptx.end(), form), std::sregex_iterator());
  };
  auto with = [&](const std::smatch &at, const std::string &text) {
    return ptx.substr(0, size_t(at.position())) + text + ptx.substr(size_t(at.position() + at.length()));
  };
  auto each = [&](const char *what, const std::string &instead, size_t count, size_t besides = 9) {
    std::vector<std::smatch> found = every(what);
    EXPECT_EQ(found.size(), count) << what;
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(i == besides || !faults.isRight(with(found[i], instead))) << what << " " << i << " as " << instead;
  };
  // The third says again what the second said, for NVIDIA's assembler, which wants one before the products of registers.
  each("wgmma.fence.sync.aligned;", "", 4, 2);
  each("wgmma.commit_group.sync.aligned;", "", 4);
  each("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;", 1);
  each("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;", 3);
  each("mbarrier.arrive.shared::cta.b64", "// ", 4);
  each("cp.async.bulk.tensor.3d", "// ", 2);
  EXPECT_TRUE(faults.shows("fence.mbarrier_init.release.cluster;", "")) << "copies do not see the barriers";
  EXPECT_TRUE(faults.shows("p, 1, 1, 1;", "p, 1, 1, 0;")) << "values as if by their depth";
  EXPECT_TRUE(faults.shows("p, 1, 1, 0;", "p, 1, 1, 1;")) << "keys as if by their columns";
  EXPECT_TRUE(faults.shows("setp.ne.b32 p, 0, 0;", "setp.ne.b32 p, 1, 0;")) << "scores added to those before";
  EXPECT_TRUE(faults.shows("setp.ne.b32 p, 1, 0;", "setp.ne.b32 p, 0, 0;")) << "sums that begin anew";

  // A register of a left factor that is written while its products go on: after the weights' in the loop.
  std::vector<std::smatch> commits = every("wgmma.commit_group.sync.aligned;"),
                           lefts = every("\\}, \\{(%r\\d+), %r\\d+, %r\\d+, %r\\d+\\}");
  ASSERT_EQ(commits.size(), 4u);
  std::string left;
  for (const std::smatch &one : lefts)
    if (one.position() < commits[2].position())
      left = one[1].str();
  EXPECT_FALSE(faults.isRight(with(commits[2], commits[2].str() + "\n\tmov.b32 " + left + ", 0;"))) << left;

  // Waits for one phase for ever: of the others' five, and of the copying group's. The first is for the phase 0. The third is
  // a group's for its turn, which changes no number.
  std::vector<std::smatch> waits = every("(mbarrier.try_wait.parity.shared::cta.b64 p, .%r\\d+., )%r\\d+;");
  ASSERT_EQ(waits.size(), 7u);
  for (size_t i = 0; i < waits.size(); ++i)
    for (const char *parity : {"1;", "0;"})
      EXPECT_TRUE(i == 2 || (i == 0 && parity[0] == '0') || !faults.isRight(with(waits[i], waits[i][1].str() + parity)))
          << waits[i].str() << " for the phase " << parity;
}
