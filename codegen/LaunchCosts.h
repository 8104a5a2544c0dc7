// What each launch of a program is called, where its spec has it, and what it costs.
#ifndef QUERN_CODEGEN_LAUNCHCOSTS_H
#define QUERN_CODEGEN_LAUNCHCOSTS_H

#include "codegen/host/Description.h"

namespace quern::codegen {

/// In the order of `program.launches`.
std::vector<LaunchInfo> launchCosts(const HostProgram &program);

} // namespace quern::codegen
#endif
