// Every family for targets of several vectors, with the chosen plans and with ones drawn at random: right numbers,
// instructions of the target alone, and scratch as it was planned.
#include "tests/codegen/support/Families.h"
#include "codegen/Producers.h"
#include "tests/codegen/support/Check.h"
#include "tests/codegen/support/DrawnPlan.h"

#include <random>

using namespace quern::codegen;

namespace {

/// One thread makes a kernel's peaks the same in every run.
void checkFamily(const FamilyKernel &kernel, const CpuTarget &target, const KernelPlan &plan) {
  const KernelGraph &graph = kernel.graph();
  SCOPED_TRACE(graph.name + " for " + target.name + " as " + plan.text());
  KernelRunner runner(graph, target, plan);
  if (!machineRuns(target))
    return;
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

} // namespace

class Families : public testing::TestWithParam<const char *> {};
TEST_P(Families, AsChosen) {
  CpuTarget target = cpuTarget(GetParam());
  for (const FamilyKernel &kernel : everyFamily(target))
    checkFamily(kernel, target, choosePlan(kernel.graph(), {target, ScheduleTable::standard()}));
}
INSTANTIATE_TEST_SUITE_P(Targets, Families, testing::Values("native"));
// In the tier `nightly`; `full` has plans of all targets (RandomPlans).
INSTANTIATE_TEST_SUITE_P(MoreTargets, Families, testing::Values("x86-64-v2", "x86-64-v3"));

/// Each seed goes through all families, and from one to the next through the targets.
class RandomPlans : public testing::TestWithParam<unsigned> {};
TEST_P(RandomPlans, OfEveryFamily) {
  static const char *const targets[] = {"x86-64-v2", "x86-64-v3", "native"};
  std::mt19937 random(GetParam());
  auto draw = [&](size_t n) { return random() % n; };
  for (size_t t = 0; t < 3; ++t) {
    CpuTarget target = cpuTarget(targets[t]);
    std::vector<FamilyKernel> kernels = everyFamily(target);
    for (size_t i = (GetParam() + t) % 3; i < kernels.size(); i += 3) {
      KernelPlan plan;
      do // tiles narrower than a register are right, but not of the instructions that are looked for; parts shorter than
         // that are right, too, but more memory is planned for a strip than it takes
        plan = drawnPlan(kernels[i].graph(), target, ScheduleTable::standard(), draw);
      while (std::any_of(plan.parts.begin(), plan.parts.end(), [&](const PlanPart &part) {
        auto isShort = [&](const char *name) {
          auto number = part.numbers.find(name);
          return number != part.numbers.end() && number->second < target.vector;
        };
        return isShort("columns") || (part.family == "dense" && isShort("depth"));
      }));
      checkFamily(kernels[i], target, plan);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, testing::Values(1u));
INSTANTIATE_TEST_SUITE_P(MoreSeeds, RandomPlans, testing::Range(2u, 5u)); // in the tier `nightly`
