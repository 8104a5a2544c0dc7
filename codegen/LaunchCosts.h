// What each launch of a program is called, where its spec has it, and what it costs.
#ifndef QUERN_CODEGEN_LAUNCHCOSTS_H
#define QUERN_CODEGEN_LAUNCHCOSTS_H

#include "codegen/host/Description.h"

namespace quern::codegen {

/// "gate_proj + up_proj": the weights that a launch multiplies by; without any what the kernel is: "attention", "map".
std::string titleOf(ir::LaunchOp launch);
/// Names of a planned module's kernels for who samples its program: "contract_3.gate_proj.up_proj", by the weights of the
/// first launch of each.
std::map<std::string, std::string> kernelNames(mlir::ModuleOp planned);
/// In the order of `program.launches`.
std::vector<LaunchInfo> launchCosts(const HostProgram &program);

} // namespace quern::codegen
#endif
