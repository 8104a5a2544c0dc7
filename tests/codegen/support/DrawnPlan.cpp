// Takes: a kernel. Gives: the chosen plan with some numbers changed, each part still in its space.
#include "tests/codegen/support/DrawnPlan.h"

#include "codegen/Producers.h"

namespace quern::codegen {

KernelPlan drawnPlan(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules,
                     const std::function<size_t(size_t)> &draw) {
  PlanOptions options{target, schedules};
  KernelPlan plan = choosePlan(graph, options);
  std::vector<Anchor> anchors = producerOf(plan, graph, options).anchors(graph, target);
  for (size_t i = 0; i < anchors.size(); ++i)
    for (int tries = 0; tries < 20; ++tries) {
      PlanPart part = plan.parts[i];
      for (const Parameter &parameter : family(part.family).parameters) {
        auto number = part.numbers.find(std::string(parameter.name));
        if (number == part.numbers.end() || !draw(2))
          continue;
        std::vector<int64_t> values = parameter.values();
        if (values.size() > 5) // none that takes much longer to compile
          std::erase_if(values, [&](int64_t value) { return value > 2 * number->second + 1; });
        number->second = values[draw(values.size())];
      }
      if (!checkPart(part, anchors[i])) {
        plan.parts[i] = part;
        break;
      }
    }
  return plan;
}

} // namespace quern::codegen
