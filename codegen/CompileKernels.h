// All kernels of a module to object files, in parallel, cached by content.
#ifndef QUERN_CODEGEN_COMPILEKERNELS_H
#define QUERN_CODEGEN_COMPILEKERNELS_H

#include "codegen/Compiler.h"
#include "codegen/kernel/Scratch.h"

namespace quern::codegen {

struct KernelFiles {
  std::vector<std::string> paths; ///< one for each kernel, and Halide's runtime last; only objects are ever linked
  KernelScratch scratch;          ///< empty where text was asked for
  int count = 0, cached = 0;      ///< kernels, and how many of them the cache had
};

/// Objects stay in the cache, or are copied to `folder` where they are what was asked for; assembly and LLVM IR are
/// written to `folder`. The function of kernel @k is `quern_kernel_k`. Throws std::runtime_error, with the kernel's
/// name, for what cannot be compiled or written.
KernelFiles compileKernels(mlir::ModuleOp planned, const CompileOptions &options, const std::string &folder);

/// A kernel for a reader.
struct KernelText {
  std::string name, loops, assembly;
};

/// Loops and assembly of every kernel, kept in the cache like objects. Throws as compileKernels does.
std::vector<KernelText> describeKernels(mlir::ModuleOp planned, const CompileOptions &options);

} // namespace quern::codegen
#endif
