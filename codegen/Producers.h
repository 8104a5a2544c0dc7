// All that make kernels.
#ifndef QUERN_CODEGEN_PRODUCERS_H
#define QUERN_CODEGEN_PRODUCERS_H

#include "codegen/kernel/KernelProducer.h"
#include "codegen/schedule/Schedule.h"

#include <vector>

namespace quern::codegen {

/// In order: a kernel without a plan is made by the first that does not refuse it.
using Producers = std::vector<const KernelProducer *>;

const Producers &allProducers();

/// What decides how kernels are made.
struct PlanOptions {
  CpuTarget target;
  ScheduleTable schedules;
  Producers producers = allProducers();
};

/// Chooses a producer and its plan for a kernel. Throws std::runtime_error, with the kernel's name and each one's reason,
/// if all refuse.
KernelPlan choosePlan(const KernelGraph &graph, const PlanOptions &options);
/// Who makes the kernel as its plan says. Throws std::runtime_error, with the kernel's name, for a plan that is none of its
/// space.
const KernelProducer &producerOf(const KernelPlan &plan, const KernelGraph &graph, const PlanOptions &options);

} // namespace quern::codegen
#endif
