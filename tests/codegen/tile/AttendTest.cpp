// Attention by tensor cores against plain loops over its graph: executed as loops and as PTX, at odd sizes, with plans drawn
// at random, as models write it.
#include "codegen/schedule/Space.h"
#include "codegen/tile/TileProducer.h"
#include "codegen/tile/attend/DivideAttention.h"
#include "codegen/tile/ptx/PtxModule.h"
#include "tests/codegen/tile/AttentionMaker.h"

#include <gmock/gmock.h>

using namespace quern::codegen;
using quern::ir::Size;

namespace {
using tile::Attention;

const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}, {"past", 0}},
                                      {{"B", 2}, {"T", 1}, {"past", 76}},
                                      {{"B", 1}, {"T", 50}, {"past", 0}},
                                      {{"B", 2}, {"T", 5}, {"past", 70}}};

/// A point of the space. `depth`, `values`: facts.
tile::AttendNumbers drawn(std::mt19937 &random, const std::map<std::string, int64_t> &facts) {
  auto one = [&](std::vector<int> of) { return of[random() % of.size()]; };
  for (;;) {
    tile::AttendNumbers n{
        one({16, 32, 64}), one({16, 32, 48, 64}), one({2, 3, 4}), one({1, 2, 4}), one({0, 16, 32}), one({1, 3, 8}), 3};
    PlanPart part{"attend",
                  {{"rows", n.rows},
                   {"keys", n.keys},
                   {"stages", n.stages},
                   {"warps", n.warps},
                   {"few", n.few},
                   {"split", n.split},
                   {"pieces", n.pieces},
                   {"groups", 0},
                   {"wide", 16},
                   {"ring", 2},
                   {"turns", 0}}};
    if (!family("attend").refuses(part, facts))
      return n;
  }
}

/// At all lengths; the first plan is a small one. `pieces`: of bf16 in its numbers.
void check(const KernelGraph &graph, const std::vector<Lengths> &lengths, double tolerance = 1e-5, int plans = 2,
           int pieces = 3) {
  std::mt19937 random(unsigned(graph.text.size() + graph.nodes.size()));
  for (int plan = 0; plan < plans && !testing::Test::HasFailure(); ++plan) {
    tile::Numbers numbers;
    numbers.attend = {32, 32, 2, 2, 16, 4, 3};
    if (plan)
      numbers.attend = drawn(random, tile::factsOfAttention(graph));
    numbers.attend.pieces = pieces;
    tile::checkVariants(graph, numbers, lengths, tolerance, "plan " + std::to_string(plan), random);
  }
}

std::vector<std::string> variantsOf(const KernelGraph &graph) {
  tile::Program program;
  EXPECT_EQ(tile::divide(graph, {}, program), std::nullopt);
  std::vector<std::string> names;
  for (const tile::Variant &variant : program.variants)
    names.push_back(variant.name);
  return names;
}
} // namespace

TEST(Attend, Causal) {
  for (Storage cache : {Storage::F32, Storage::BF16})
    for (auto [depth, columns] : std::vector<std::pair<int64_t, int64_t>>{{16, 16}, {5, 3}, {24, 40}}) {
      SCOPED_TRACE(depth);
      Attention g(cache, 2, 3, depth, columns);
      check(g.with(g.masked(g.score)), lengths);
    }
}

TEST(Attend, CachesOfCodes) {
  Attention g(Storage::I8, 2, 3, 24, 16);
  check(g.with(g.masked(g.score)), lengths);
}

TEST(Attend, WithoutMask) {
  Attention g(Storage::BF16, 2, 2, 16, 8);
  check(g.with(g.score), lengths);
}

/// What is rounded to bf16 is the queries and the weights alone, as the reference rounds them.
TEST(Attend, OnePiece) {
  Attention g(Storage::BF16, 2, 1, 64, 64);
  check(g.with(g.masked(g.score)), {lengths[1], lengths[2]}, 1e-5, 2, 1);
}

TEST(Attend, Variants) {
  Attention cached(Storage::BF16, 2, 1, 16, 8), odd(Storage::BF16, 2, 1, 12, 8), floats(Storage::F32, 2, 1, 16, 8);
  EXPECT_THAT(variantsOf(cached.with(cached.score)), testing::ElementsAre("rows16", "direct", "any"));
  EXPECT_THAT(variantsOf(odd.with(odd.score)), testing::ElementsAre("rows16", "any"));
  EXPECT_THAT(variantsOf(floats.with(floats.score)), testing::ElementsAre("rows16", "any"));
}

TEST(Attend, Windows) {
  for (int64_t window : {1, 4, 70}) {
    SCOPED_TRACE(window);
    Attention g(Storage::BF16, 2, 2, 8, 8);
    int early = g.elementwise(Op::Sub, {g.queryPosition(), g.integer(window)});
    int mask = g.elementwise(Op::And, {g.causal(), g.compare(Predicate::Lt, early, g.index(g.S))});
    check(g.with(g.where(mask, g.score, g.constant(-INFINITY))), lengths, 1e-5, window == 4 ? 3 : 1);
  }
}

TEST(Attend, PaddingMaskAndBias) {
  Size length = Size::symbol("T") + Size::symbol("past");
  Attention g(Storage::BF16, 2, 1, 8, 8,
              {{Storage::U8, {dim("B"), dim("S", length)}}, {Storage::F32, {dim("G", 2), dim("T"), dim("S", length)}}});
  int biased = g.elementwise(Op::Add, {g.score, g.extra[1]});
  check(g.with(g.where(g.extra[0], biased, g.constant(-INFINITY))), lengths);
}

TEST(Attend, EverythingMasked) {
  Attention g(Storage::BF16, 1, 1, 8, 8);
  int none = g.compare(Predicate::Lt, g.index(g.S), g.integer(0));
  check(g.with(g.where(none, g.score, g.constant(-INFINITY))), lengths, 1e-5, 1);
}

/// A soft cap, slopes by distance, then heads side by side, rounded.
TEST(Attend, CapSlopesAndMergedHeads) {
  Attention g(Storage::F32, 4, 2, 8, 8, {{Storage::F32, {dim("G", 4)}}});
  int capped = g.elementwise(
      Op::Mul, {g.elementwise(Op::Tanh, {g.elementwise(Op::Div, {g.score, g.constant(5)})}), g.constant(5)});
  int distance = g.elementwise(Op::ToReal, {g.elementwise(Op::Sub, {g.index(g.S), g.queryPosition()})});
  int biased = g.elementwise(Op::Add, {capped, g.elementwise(Op::Mul, {g.extra[0], distance})});
  int y = g.attention(g.masked(biased), g.v, "S");
  g.yield(g.narrow(g.merge(g.permute(y, {"B", "T", "G", "R", "V"}), {"G", "R", "V"}, dim("D", 64))));
  check(g.finish("merged"), lengths, 4e-3);
}

TEST(Attend, BoundsFromData) { // each row of the batch has a past of its own
  Attention g(Storage::BF16, 2, 1, 8, 8, {{Storage::I32, {dim("B")}}});
  int t = g.elementwise(Op::Add, {g.index(g.T), g.extra[0]});
  int mask =
      g.elementwise(Op::And, {g.compare(Predicate::Le, g.index(g.S), t),
                              g.compare(Predicate::Gt, g.index(g.S), g.elementwise(Op::Sub, {t, g.integer(3)}))});
  check(g.with(g.where(mask, g.score, g.constant(-INFINITY))), lengths);
}

TEST(Attend, LatentKeys) { // the sum of two products: one for each head, one with keys that heads share
  Dim P = dim("P", 6);
  Attention g(Storage::F32, 2, 3, 8, 8,
              {{Storage::F32, {dim("B"), dim("T"), dim("G", 2), dim("R", 3), P}},
               {Storage::F32, {dim("B"), dim("S", Size::symbol("past") + Size::symbol("T")), P}}});
  check(g.with(g.masked(g.elementwise(Op::Add, {g.score, g.contract(g.extra[0], g.extra[1], {"P"})}))), lengths);
}

TEST(Attend, SinksAndStatistics) { // more scores without a value; what a gradient keeps
  Attention g(Storage::BF16, 2, 2, 8, 8, {{Storage::F32, {dim("G", 2), dim("U", 3)}}});
  int y = g.attention(g.masked(g.score), g.v, "S", {{g.extra[0], "U"}});
  auto [shift, share] = g.statistics(y);
  g.yield(y), g.yield(shift), g.yield(share);
  check(g.finish("statistics"), lengths);
}

TEST(Attend, LongOverManyTiles) {
  Attention g(Storage::BF16, 1, 1, 8, 8);
  int early = g.elementwise(Op::Sub, {g.queryPosition(), g.integer(530)});
  int mask = g.elementwise(Op::And, {g.causal(), g.compare(Predicate::Lt, early, g.index(g.S))});
  check(g.with(g.where(mask, g.score, g.constant(-INFINITY))),
        {{{"B", 1}, {"T", 35}, {"past", 549}}, {{"B", 1}, {"T", 1}, {"past", 598}}}, 1e-5, 1);
}

/// Scores far from 0, and one that is infinite in favour of nobody.
TEST(Attend, LargeScores) {
  Attention g(Storage::F32, 1, 1, 8, 8);
  int far = g.elementwise(Op::Sub, {g.elementwise(Op::Mul, {g.score, g.constant(300)}), g.constant(1000)});
  check(g.with(g.masked(far)), {lengths[1], lengths[2]}, 1e-3, 1);
}

TEST(Attend, RefusesTheRest) {
  tile::Program program;
  auto refusal = [&](const KernelGraph &graph) { return tile::divide(graph, {}, program).value_or("nothing"); };
  {
    Attention g(Storage::F32, 1, 1, 8, 8); // a result that is no element of the sums
    g.yield(g.reduce(Reduction::Sum, g.attention(g.score, g.v, "S"), {"V"}));
    EXPECT_THAT(refusal(g.finish("sum")), testing::HasSubstr("element by element"));
  }
  {
    Attention g(Storage::F32, 1, 1, 8, 8); // two of them
    g.yield(g.attention(g.score, g.v, "S"));
    g.yield(g.attention(g.masked(g.score), g.v, "S"));
    EXPECT_THAT(refusal(g.finish("two")), testing::HasSubstr("one attention"));
  }
  {
    Attention g(Storage::F32, 1, 1, 8, 512); // more columns than a warp's registers hold
    g.yield(g.attention(g.score, g.v, "S"));
    const KernelGraph &graph = g.finish("wide");
    EXPECT_THAT(tileProducer().refuses(graph, cpuTarget("cuda")).value_or("nothing"), testing::HasSubstr("values 512"));
  }
}

/// A fault in a program's text must show in some order of its warps and copies.
TEST(Attend, PlantedFaultsShow) {
  Attention g(Storage::BF16, 1, 1, 16, 16);
  const KernelGraph &graph = g.with(g.score);
  tile::Numbers numbers;
  numbers.attend = {32, 16, 3, 2, 0, 1, 3};
  tile::Program program;
  ASSERT_FALSE(tile::divide(graph, numbers, program));
  ASSERT_EQ(program.variants[0].name, "direct");
  std::string ptx = tile::ptxOf(program).ptx;
  tile::Faults faults(graph, program, 0, ptx, {{"B", 1}, {"T", 32}, {"past", 80}});
  EXPECT_TRUE(faults.isRight(ptx));
  EXPECT_TRUE(faults.shows("cp.async.wait_group \t1;", "cp.async.wait_group \t2;")) << "a wait for one copy too few";
  EXPECT_TRUE(faults.shows("bar.sync \t0;", "")) << "a slot is filled while warps read it";
  EXPECT_TRUE(faults.shows("cp.async.commit_group;", "")) << "copies of two tiles are one group";
  EXPECT_TRUE(faults.shows("ldmatrix.sync.aligned.m8n8.x4.trans", "ldmatrix.sync.aligned.m8n8.x4"))
      << "columns for rows";
  EXPECT_TRUE(faults.shows("shfl.sync.bfly.b32", "shfl.sync.down.b32")) << "a row's largest score of some lanes alone";
}
