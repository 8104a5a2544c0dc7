// Attention of one query, whose keys are divided among tasks.
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
