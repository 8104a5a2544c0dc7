// A program in which some kernels have several versions, to compare these where they are used.
#ifndef QUERN_CODEGEN_TUNING_VERSIONS_H
#define QUERN_CODEGEN_TUNING_VERSIONS_H

#include "codegen/Compiler.h"

namespace quern::codegen {

/// Plans of a kernel beside the module's own, which is version 0.
struct KernelVersions {
  std::string kernel; ///< its name in the module
  std::vector<KernelPlan> others;
};

/// Compiles a kernel by a plan of its own, into the cache and for nothing else. Several threads may call it. Throws
/// std::runtime_error for what cannot be compiled.
void compileVersion(mlir::ModuleOp planned, const std::string &kernel, const KernelPlan &plan,
                    const CompileOptions &options);

/// Makes the executable `options.output`, with the command `measure` (runtime/tuning): quern_versions has the kernels of
/// `versions` in their order, then all others of the module with their one version. `bundle`: the program has the command
/// `tune`, too, and this is what it is about (runtime/tuning/Bundle.cpp). Throws std::runtime_error.
void compileVersions(mlir::ModuleOp planned, const std::vector<KernelVersions> &versions, const CompileOptions &options,
                     const std::string &bundle = "");

} // namespace quern::codegen
#endif
