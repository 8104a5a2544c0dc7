// Plans drawn at random from the spaces that families declare.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_DRAWNPLAN_H
#define QUERN_TESTS_CODEGEN_SUPPORT_DRAWNPLAN_H

#include "codegen/kernel/KernelGraph.h"
#include "codegen/schedule/Schedule.h"

#include <functional>

namespace quern::codegen {

/// A point of the kernel's space, near enough to the chosen one to compile in a moment. `draw(n)` gives 0 to n - 1.
KernelPlan drawnPlan(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules,
                     const std::function<size_t(size_t)> &draw);

} // namespace quern::codegen
#endif
