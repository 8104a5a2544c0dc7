// Takes: a kernel, and a plan or none. Gives: who makes it, and how.
#include "codegen/Producers.h"

#include "codegen/halide/HalideProducer.h"
#include "codegen/halide/gpu/GpuProducer.h"
#include "codegen/scan/ScanProducer.h"
#include "codegen/schedule/Space.h"
#include "codegen/tile/TileProducer.h"

#include <stdexcept>

namespace quern::codegen {

const Producers &allProducers() {
  static const Producers producers = {&halideProducer(), &scanProducer(), &tileProducer(), &gpuProducer()};
  return producers;
}

static std::runtime_error failure(const KernelGraph &graph, const std::string &what) {
  return std::runtime_error("kernel " + graph.name + ": " + what);
}

KernelPlan choosePlan(const KernelGraph &graph, const PlanOptions &options) {
  std::string reasons;
  for (const KernelProducer *producer : options.producers) {
    std::optional<std::string> refused = producer->refuses(graph, options.target);
    if (!refused)
      try {
        return producer->choose(graph, options.target, options.schedules);
      } catch (const std::runtime_error &error) {
        throw failure(graph, error.what());
      }
    reasons += (reasons.empty() ? "" : "; ") + producer->name() + ": " + *refused;
  }
  throw failure(graph, "no producer can make it for " + options.target.name + ": " + reasons);
}

const KernelProducer &producerOf(const KernelPlan &plan, const KernelGraph &graph, const PlanOptions &options) {
  std::vector<std::string> names;
  for (const KernelProducer *producer : options.producers) {
    names.push_back(producer->name());
    if (producer->name() != plan.producer)
      continue;
    std::optional<std::string> refused = producer->refuses(graph, options.target);
    if (!refused)
      refused = producer->refuses(plan, graph, options.target);
    if (refused)
      throw failure(graph, "its plan cannot be made for " + options.target.name + ": " + *refused);
    return *producer;
  }
  throw failure(graph, "its plan is for '" + plan.producer + "', which makes no kernels; there are " + listed(names));
}

} // namespace quern::codegen
