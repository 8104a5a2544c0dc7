// Every family for every target, with its own schedules and with ones drawn at random: right numbers, instructions of the
// target alone, and scratch as it was planned.
#include "tests/codegen/Families.h"
#include "tests/codegen/Check.h"

using namespace quern::codegen;

namespace {

/// One thread makes a kernel's peaks the same in every run.
void checkFamilies(const CpuTarget &target, const ScheduleTable &schedules) {
  for (const FamilyKernel &kernel : everyFamily(target)) {
    const KernelGraph &graph = kernel.graph();
    SCOPED_TRACE(graph.name + " for " + target.name);
    KernelRunner runner(graph, target, schedules);
    if (!machineRuns(target))
      continue;
    runner.useOneThread();
    for (const Lengths &lengths : kernel.lengths) {
      std::vector<DenseTensor> arguments;
      for (int i = 0; i < graph.argumentCount(); ++i)
        arguments.push_back(randomTensor(graph.nodes[i], lengths, i + 1));
      runner.bind(lengths, arguments);
      std::string what;
      for (const auto &[symbol, length] : lengths)
        what += symbol + "=" + std::to_string(length) + " ";
      ASSERT_EQ(runner.run(), 0) << what;
      std::vector<DenseTensor> want = evaluate(graph, lengths, arguments);
      for (size_t r = 0; r < graph.results.size(); ++r)
        compareTensors(runner.result(r), want[graph.results[r]], 5e-5, what + "result " + std::to_string(r));
      ScratchBytes planned = runner.planned(), used = runner.used();
      EXPECT_EQ(planned.caller, used.caller) << what;
      EXPECT_LE(planned.worker, planned.caller) << what;
    }
  }
}

} // namespace

class Families : public testing::TestWithParam<const char *> {};
TEST_P(Families, WithTheirSchedules) {
  checkFamilies(cpuTarget(GetParam()), ScheduleTable::standard());
}
INSTANTIATE_TEST_SUITE_P(Targets, Families, testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4", "native"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class RandomSchedules : public testing::TestWithParam<unsigned> {};
TEST_P(RandomSchedules, OfEveryFamily) {
  static const char *const targets[] = {"x86-64-v2", "x86-64-v3", "native"};
  CpuTarget target = cpuTarget(targets[GetParam() % 3]);
  checkFamilies(target, randomSchedules(target, GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedules, testing::Range(1u, 4u));
