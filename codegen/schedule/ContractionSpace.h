// Which numbers of a contraction's families fit its shape, its storage and the processor (codegen/schedule/Space.h).
#ifndef QUERN_CODEGEN_SCHEDULE_CONTRACTIONSPACE_H
#define QUERN_CODEGEN_SCHEDULE_CONTRACTIONSPACE_H

#include "codegen/kernel/KernelMatch.h"
#include "codegen/kernel/KernelPlan.h"

#include <optional>
#include <string>

namespace quern::codegen {

/// Parts of a packed weight's depth begin at multiples of this: where codes that share scales begin.
int64_t codesOfPart(int64_t bits);
/// The same by AMX: the shortest part of at least `given` codes that divides the depth.
int64_t codesOfTiledPart(int64_t given, const Facts &facts);

/// Why the numbers do not fit; nothing: they do.
std::optional<std::string> refusePacked(const PlanPart &part, const Facts &facts);
std::optional<std::string> refuseDense(const PlanPart &part, const Facts &facts);
std::optional<std::string> refuseGrouped(const PlanPart &part, const Facts &facts);
std::optional<std::string> refuseExperts(const PlanPart &part, const Facts &facts);

} // namespace quern::codegen
#endif
