// Attention whose products multiply bf16: the numbers, by whatever the processor here multiplies; the instructions, everywhere.
#include "codegen/halide/HalideProducer.h"
#include "tests/codegen/support/AttentionMaker.h"
#include "tests/codegen/support/Check.h"
#include "tests/codegen/support/DrawnPlan.h"
#include "tests/codegen/support/Instructions.h"

#include <gmock/gmock.h>

#include <random>

using namespace quern::codegen;

namespace {

struct Narrow : Attention {
  Narrow(int64_t groups, int64_t each, int64_t depth, int64_t columns,
         std::vector<std::pair<Storage, std::vector<Dim>>> more = {}, Storage cache = Storage::BF16)
      : Attention(groups, each, depth, columns, std::move(more), cache, 600, /*narrow=*/true) {}
};

Lengths of(int64_t batch, int64_t queries, int64_t past) {
  return {{"B", batch}, {"T", queries}, {"past", past}};
}

const std::vector<Lengths> lengths = {of(1, 1, 0),  of(1, 2, 0),  of(1, 50, 0),
                                      of(2, 5, 70), of(1, 1, 76), of(1, 97, 31)};
constexpr double tolerance = 5e-6;
const std::vector<std::string> targets = {"native", "x86-64-v3"};

} // namespace

/// Queries that are turned in registers or read as they lie, columns and depths that no tile divides, an odd depth.
TEST(AttentionPairs, Causal) {
  for (auto [depth, columns] : {std::pair(64, 64), std::pair(32, 24), std::pair(20, 80), std::pair(5, 3)})
    for (const std::string &target : targets) {
      Narrow g(2, 3, depth, columns);
      g.finishWith(g.masked());
      checkKernel(g.finish("causal"), lengths, tolerance, cpuTarget(target));
    }
}

/// Parts of the keys have powers of two of their own, and round the same digits away.
TEST(AttentionPairs, OverManyParts) {
  for (int64_t window : {0, 130}) {
    Narrow g(1, 1, 32, 32);
    g.finishWith(g.masked(window));
    KernelGraph &graph = g.finish("long");
    ScheduleTable table = ScheduleTable::standard();
    table.add("attention : keys 64, block 96", "mine.txt");
    for (const std::string &name : targets) {
      const CpuTarget target = cpuTarget(name);
      KernelRunner runner(graph, target, halideProducer().choose(graph, target, table));
      checkRuns(runner, graph, {of(1, 50, 549), of(1, 194, 0), of(1, 1, 599)}, tolerance);
    }
  }
}

/// Rows that see nothing; a score without a value, whose weight is not rounded; keys and values that are rounded on the way.
TEST(AttentionPairs, Others) {
  Narrow nothing(1, 1, 8, 8);
  int none = nothing.compare(Predicate::Lt, nothing.index(nothing.S), nothing.integer(0));
  nothing.finishWith(nothing.elementwise(Op::Where, {none, nothing.score, nothing.constant(-INFINITY)}));
  checkKernel(nothing.finish("nothing"), lengths, tolerance);

  Narrow sink(2, 1, 8, 8, {{Storage::F32, {dim("G", 2)}}});
  sink.yield(sink.attention(sink.masked(), sink.v, "S", {{sink.unit(sink.extra[0], dim("U", 1)), "U"}}, true));
  checkKernel(sink.finish("sink"), lengths, tolerance);

  Narrow whole(2, 2, 64, 64, {}, Storage::F32);
  auto narrowed = [&](int value) { return whole.elementwise(Op::Widen, {whole.elementwise(Op::Narrow, {value})}); };
  whole.score = whole.contract(whole.q, narrowed(whole.k), {"K"}), whole.v = narrowed(whole.v);
  whole.finishWith(whole.masked());
  checkKernel(whole.finish("whole"), lengths, tolerance);
}

static void checkAnyPoint(int draws) {
  std::mt19937 random(11);
  Narrow g(2, 2, 40, 24);
  KernelGraph &graph = (g.finishWith(g.masked(200)), g.finish("drawn"));
  const CpuTarget target = cpuTarget("native");
  for (int i = 0; i < draws; ++i) {
    KernelPlan plan = drawnPlan(graph, target, ScheduleTable::standard(), [&](size_t n) { return random() % n; });
    SCOPED_TRACE(plan.text());
    KernelRunner runner(graph, target, plan);
    checkRuns(runner, graph, {of(1, 130, 70), of(2, 9, 0)}, tolerance);
  }
}

TEST(AttentionPairs, AnyPointOfTheSpace) {
  checkAnyPoint(3);
}

TEST(MoreAttentionPairs, AnyPointOfTheSpace) { // `More`: in the tier `nightly`
  checkAnyPoint(12);
}

/// Two products an instruction where all is narrow, none otherwise; tiles of AMX's have one product instead of three.
TEST(AttentionPairs, AreInstructions) {
  for (bool narrow : {true, false})
    for (int64_t depth : {64, 33}) {
      Attention g(2, 1, depth, 64, {}, Storage::BF16, 600, narrow);
      g.finishWith(g.masked());
      KernelGraph &graph = g.finish("causal");
      for (const char *name : {"znver4", "sapphirerapids-noamx"}) {
        const CpuTarget target = cpuTarget(name);
        EXPECT_EQ(countOf(assemblyOf(graph, target), "vdpbf16ps") > 0, narrow && depth % 2 == 0) << name << depth;
        if (narrow && depth == 64)
          EXPECT_EQ(foreignInstructions(graph, target, target), "") << name;
      }
    }
}
