// The plan of a kernel by rules: what it is computed with where nobody says otherwise.
#ifndef QUERN_CODEGEN_SCHEDULE_CHOOSEPLAN_H
#define QUERN_CODEGEN_SCHEDULE_CHOOSEPLAN_H

#include "codegen/schedule/Schedule.h"

namespace quern::codegen {

/// The numbers of each anchor: a schedule's, fitted to the shape. Throws std::runtime_error with the family for numbers
/// that cannot be.
std::vector<PlanPart> chooseParts(const std::vector<Anchor> &anchors, const ScheduleTable &schedules);

/// Why parts are no plan for the anchors, with the family; nothing: they are.
std::optional<std::string> checkParts(const std::vector<PlanPart> &parts, const std::vector<Anchor> &anchors);

/// Rows per tile for a packed weight [rows, depth]; 0: better left as it is stored.
int64_t weightTile(int64_t rows, int64_t depth, const ScheduleTable &schedules, const CpuTarget &target);

} // namespace quern::codegen
#endif
