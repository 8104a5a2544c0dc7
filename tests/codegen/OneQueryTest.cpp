// Attention of one query, whose keys are divided among tasks.
#include "codegen/halide/HalideProducer.h"
#include "tests/codegen/support/AttentionMaker.h"
#include "tests/codegen/support/Check.h"
#include "tests/codegen/support/Instructions.h"

using namespace quern::codegen;

/// More keys than as many of the longest parts as there are threads' tasks hold, and parts that are not all as long.
static const std::vector<Lengths> lengths = {
    {{"B", 1}, {"T", 1}, {"past", 299}}, {{"B", 2}, {"T", 1}, {"past", 575}}, {{"B", 1}, {"T", 1}, {"past", 1100}}};

static constexpr int64_t positions = 1200; ///< of the cache

TEST(OneQuery, Causal) {
  Attention g(2, 3, 24, 40, {}, Storage::F32, positions);
  g.finishWith(g.masked());
  checkKernel(g.finish("causal"), lengths, 1e-5);
}

/// A part may have fewer vectors of keys than runs, which then have nothing to read, or no multiple of them.
TEST(OneQuery, RunsOfKeys) {
  Attention g(2, 3, 24, 40, {}, Storage::BF16, positions);
  g.finishWith(g.masked());
  const KernelGraph &graph = g.finish("runs");
  const CpuTarget target = cpuTarget("x86-64-v3");
  for (const char *runs : {"1", "3", "4"}) {
    ScheduleTable table = ScheduleTable::standard();
    table.add(std::string("attention : runs ") + runs, "runs.txt");
    KernelRunner runner(graph, target, halideProducer().choose(graph, target, table));
    for (int64_t past : {0, 40, 63, 71, 87, 1100}) {
      SCOPED_TRACE(std::string(runs) + " runs after " + std::to_string(past));
      checkRuns(runner, graph, {{{"B", 2}, {"T", 1}, {"past", past}}}, 1e-5);
    }
  }
}

/// Parts that the window does not reach are not computed.
TEST(OneQuery, Window) {
  for (int64_t window : {4, 70, 600}) {
    Attention g(2, 1, 8, 8, {}, Storage::F32, positions);
    g.finishWith(g.masked(window));
    checkKernel(g.finish("window"), lengths, 1e-5);
  }
}

/// Each sum of a vector is a few additions, not one for each lane.
TEST(OneQuery, LanesAreAddedByHalves) {
  Attention g(1, 3, 64, 64);
  g.finishWith(g.score);
  std::string assembly = assemblyOf(g.finish("halves"), cpuTarget("x86-64-v4"), ScheduleTable::standard());
  EXPECT_LT(countOf(assembly, "vaddss"), 8);
}
