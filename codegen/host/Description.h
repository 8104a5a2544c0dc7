// The program's description of itself: JSON for the runtime (the fields are listed in runtime/README.md).
#ifndef QUERN_CODEGEN_HOST_DESCRIPTION_H
#define QUERN_CODEGEN_HOST_DESCRIPTION_H

#include "codegen/host/HostProgram.h"

namespace quern::codegen {

/// `cpu`: features that the kernels use, by their names in /proc/cpuinfo.
std::string describe(mlir::ModuleOp planned, const HostProgram &program, llvm::ArrayRef<std::string> cpu,
                     llvm::StringRef specFile);

} // namespace quern::codegen
#endif
