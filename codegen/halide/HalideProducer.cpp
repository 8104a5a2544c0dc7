// The questions of KernelProducer.h, answered for Halide on CPUs: families match the graph, Space.cpp declares their
// numbers, KernelBuilder builds what the plan says.
#include "codegen/halide/HalideProducer.h"

#include "codegen/halide/EmitKernel.h"
#include "codegen/halide/LoopNest.h"
#include "codegen/kernel/KernelMatch.h"
#include "codegen/schedule/ChoosePlan.h"

namespace quern::codegen {

static const char sources[] =
#include "codegen/halide/Revision.inc"
    ;

namespace {
class HalideProducer : public KernelProducer {
public:
  std::string name() const override { return "halide"; }
  std::string revision() const override { return halideVersion() + " " + sources; }

  std::optional<std::string> refuses(const KernelGraph &graph, const CpuTarget &target) const override {
    if (!target.device.empty())
      return "it makes kernels for CPUs";
    for (const Node &node : graph.nodes)
      if (node.op == Op::Scan)
        return "it has no family for recurrences";
    return std::nullopt;
  }

  KernelPlan choose(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules) const override {
    return {name(), chooseParts(matchKernel(graph, target).anchors, schedules)};
  }

  std::optional<std::string> refuses(const KernelPlan &plan, const KernelGraph &graph,
                                     const CpuTarget &target) const override {
    return checkParts(plan.parts, matchKernel(graph, target).anchors);
  }

  Scratch make(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target, const std::string &symbol,
               EmitForm form, const std::string &path) const override {
    return emitKernel(graph, symbol, plan, target, form, path);
  }

  bool makeShared(const CpuTarget &target, const std::string &path) const override {
    emitHalideRuntime(target, path);
    return true;
  }

  std::string loops(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target) const override {
    return loopNest(graph, plan, target);
  }
};
} // namespace

const KernelProducer &halideProducer() {
  static const HalideProducer producer;
  return producer;
}

} // namespace quern::codegen
