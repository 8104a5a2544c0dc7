// The plan of a kernel by a model of the machine: what it is computed with where nobody says otherwise.
#ifndef QUERN_CODEGEN_SCHEDULE_CHOOSEPLAN_H
#define QUERN_CODEGEN_SCHEDULE_CHOOSEPLAN_H

#include "codegen/schedule/Schedule.h"
#include "support/Machine.h"

namespace quern::codegen {

/// The numbers of each anchor: a schedule's, fitted to the shape, and beside them the cheapest by Estimate.h. Throws std::runtime_error with the family for numbers
/// that cannot be.
std::vector<PlanPart> chooseParts(const std::vector<Anchor> &anchors, const ScheduleTable &schedules);

/// The numbers of `others`, a plan of a kernel like this one, fitted to the shape; nothing where its parts are others, or they
/// do not fit.
std::optional<std::vector<PlanPart>> partsLike(const std::vector<PlanPart> &others, const std::vector<Anchor> &anchors);

/// How far two kernels are from each other by what is known about their parts: doublings of all facts together. Nothing: their parts are
/// others.
std::optional<double> distanceOf(const std::vector<Anchor> &ours, const std::vector<Anchor> &others);

/// Why parts are no plan for the anchors, with the family; nothing: they are.
std::optional<std::string> checkParts(const std::vector<PlanPart> &parts, const std::vector<Anchor> &anchors);

/// Rows per tile for a packed weight [rows, depth]; 0: better left as it is stored.
int64_t weightTile(int64_t rows, int64_t depth, const ScheduleTable &schedules, const CpuTarget &target);
/// The same for each weight, and whether bf16 lies in pairs: on processors.
support::PackingRule packingRule(const ScheduleTable &schedules, const CpuTarget &target);

} // namespace quern::codegen
#endif
