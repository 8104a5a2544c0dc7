// Plans as text: how dumps show them, and how an edited dump is read again.
#ifndef QUERN_CODEGEN_KERNEL_PLANTEXT_H
#define QUERN_CODEGEN_KERNEL_PLANTEXT_H

#include "codegen/kernel/KernelPlan.h"

#include <string_view>

namespace quern::codegen {

/// The plan that `KernelPlan::text` wrote; numbers of a part may stand in any order. Throws std::runtime_error that says
/// what was expected where.
KernelPlan parsePlan(std::string_view text);

} // namespace quern::codegen
#endif
