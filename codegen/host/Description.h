// The program's description of itself: JSON for the runtime (the fields are listed in runtime/README.md).
#ifndef QUERN_CODEGEN_HOST_DESCRIPTION_H
#define QUERN_CODEGEN_HOST_DESCRIPTION_H

#include "codegen/Targets.h"
#include "codegen/host/HostProgram.h"

namespace quern::codegen {

/// One launch as reports show it. Costs are lower bounds of one run, over the function's lengths.
struct LaunchInfo {
  int function = 0; ///< of HostProgram::entries
  std::string kernel;
  std::string title;      ///< by the names of its weights: "gate_proj + up_proj"
  std::string at;         ///< the line of the spec
  bool once = false;      ///< only in a request's first call
  int64_t iterations = 1; ///< of the loops around it
  bool chunks = false;    ///< in a loop over chunks of rows: costs are those of all chunks together
  std::string content;    ///< what the kernel computes (contentOf)
  ir::Size flops;         ///< multiply-adds, each as two
  ir::Size reads;         ///< bytes of weights and caches that must be read
  ir::Size traffic;       ///< bytes of all that it reads and writes, each once
};

/// `launches`: in the order of HostProgram::launches. `target`: what the kernels are for.
std::string describe(mlir::ModuleOp planned, const HostProgram &program, llvm::ArrayRef<LaunchInfo> launches,
                     const CpuTarget &target, llvm::StringRef specFile);

} // namespace quern::codegen
#endif
