// Takes: a kernel. Gives: the chosen plan with some numbers changed, each part still in its space.
#include "tests/codegen/support/DrawnPlan.h"

#include "codegen/halide/HalideProducer.h"

namespace quern::codegen {

KernelPlan drawnPlan(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules,
                     const std::function<size_t(size_t)> &draw) {
  KernelPlan plan = halideProducer().choose(graph, target, schedules);
  std::vector<Anchor> anchors = matchKernel(graph, target).anchors;
  for (size_t i = 0; i < anchors.size(); ++i)
    for (int tries = 0; tries < 20; ++tries) {
      PlanPart part = plan.parts[i];
      for (const Parameter &parameter : family(part.family).parameters) {
        auto number = part.numbers.find(std::string(parameter.name));
        if (number == part.numbers.end() || !draw(2))
          continue;
        std::vector<int64_t> values;
        for (int64_t value = parameter.least; value <= parameter.most && value <= 2 * number->second + 1;
             value = parameter.step ? value + parameter.step : value * 2)
          values.push_back(value);
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
