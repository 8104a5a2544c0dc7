// The questions of KernelProducer.h, answered for Halide on CPUs: families match the graph, Space.cpp declares their
// numbers, KernelBuilder builds what the plan says.
#include "codegen/halide/HalideProducer.h"

#include "codegen/halide/EmitKernel.h"
#include "codegen/halide/HalideBase.h"
#include "codegen/halide/HalideError.h"
#include "codegen/halide/StageScheduler.h"
#include "codegen/halide/attention/AttentionFamily.h"
#include "codegen/halide/attention/AttentionGradientFamily.h"
#include "codegen/halide/contraction/TakeContractions.h"

namespace quern::codegen {

static const char sources[] =
#include "codegen/halide/Revision.inc"
    ;

namespace {
class HalideProducer : public HalideBase {
public:
  HalideProducer()
      : HalideBase("halide", sources, {{takeContractions, takeAttention, takeAttentionGradient}, scheduleStages}) {}

  using HalideBase::refuses;
  std::optional<std::string> refuses(const KernelGraph &graph, const CpuTarget &target) const override {
    if (!target.device.empty())
      return "it makes kernels for CPUs";
    for (const Node &node : graph.nodes)
      if (node.op == Op::Scan)
        return "it has no family for recurrences";
    return std::nullopt;
  }

  Scratch make(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target, const std::string &symbol,
               EmitForm form, const std::string &path) const override {
    return emitKernel(graph, symbol, plan, target, families, form, path);
  }
};
} // namespace

const KernelProducer &halideProducer() {
  static const HalideProducer producer;
  return producer;
}

void emitHalideRuntime(const CpuTarget &target, const std::string &path) {
  using namespace Halide;
  naming("Halide's runtime", [&] {
    compile_standalone_runtime(std::map<OutputFileType, std::string>{{OutputFileType::object, path}},
                               Target(target.halide));
  });
}

} // namespace quern::codegen
