// Takes: a kernel's graph. Gives: the numbers of the families that match it, chosen or checked; its loops as text.
#include "codegen/halide/HalideBase.h"

#include "codegen/halide/EmitKernel.h"
#include "codegen/halide/LoopNest.h"
#include "codegen/schedule/ChoosePlan.h"

namespace quern::codegen {

std::string HalideBase::revision() const {
  return halideVersion() + " " + sourceHash;
}

std::vector<Anchor> HalideBase::anchors(const KernelGraph &graph, const CpuTarget &target) const {
  return matchKernel(graph, target).anchors;
}

KernelPlan HalideBase::choose(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules) const {
  return {name(), chooseParts(anchors(graph, target), schedules)};
}

std::optional<std::string> HalideBase::refuses(const KernelPlan &plan, const KernelGraph &graph,
                                               const CpuTarget &target) const {
  return checkParts(plan.parts, anchors(graph, target));
}

std::string HalideBase::loops(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target) const {
  return loopNest(graph, plan, target, families);
}

} // namespace quern::codegen
