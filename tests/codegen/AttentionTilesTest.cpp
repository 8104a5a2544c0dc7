// Attention by AMX's tile registers: the numbers, where the processor has them; everywhere that it is compiled for them.
#include "codegen/halide/HalideProducer.h"
#include "tests/codegen/support/AttentionMaker.h"
#include "tests/codegen/support/Check.h"
#include "tests/codegen/support/Instructions.h"

#include <gmock/gmock.h>

using namespace quern::codegen;

namespace {

const CpuTarget &withTiles() {
  static const CpuTarget target = cpuTarget("sapphirerapids");
  return target;
}

KernelPlan planOf(const KernelGraph &graph, const std::string &numbers, const CpuTarget &target = withTiles()) {
  ScheduleTable table = ScheduleTable::standard();
  table.add("attention : " + numbers, "mine.txt");
  return halideProducer().choose(graph, target, table);
}

void check(const KernelGraph &graph, const std::vector<Lengths> &lengths, const std::string &numbers,
           double tolerance = 2e-6, bool sizedByData = false) {
  KernelPlan plan = planOf(graph, numbers);
  SCOPED_TRACE(plan.text());
  EXPECT_GT(plan.parts[0]["amx"], 0);
  KernelRunner runner(graph, withTiles(), plan);
  if (machineRuns(withTiles()))
    checkRuns(runner, graph, lengths, tolerance, nullptr, sizedByData);
}

Lengths of(int64_t batch, int64_t queries, int64_t past) {
  return {{"B", batch}, {"T", queries}, {"past", past}};
}

} // namespace

TEST(AttentionTiles, Causal) {
  for (auto [depth, columns] : {std::pair(64, 64), std::pair(80, 24), std::pair(20, 80), std::pair(5, 3)})
    for (Storage cache : {Storage::F32, Storage::BF16}) {
      Attention g(2, 3, depth, columns, {}, cache);
      g.finishWith(g.masked());
      check(g.finish("causal"), {of(1, 2, 0), of(1, 50, 0), of(2, 5, 70), of(1, 1, 76), of(1, 200, 31)}, "amx 2");
    }
}
