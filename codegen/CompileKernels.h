// All kernels of a module to object files, in parallel, cached by content.
#ifndef QUERN_CODEGEN_COMPILEKERNELS_H
#define QUERN_CODEGEN_COMPILEKERNELS_H

#include "codegen/Compiler.h"
#include "codegen/kernel/Scratch.h"

#include <functional>

namespace quern::codegen {

struct KernelFiles {
  /// One for each kernel, and what producers' kernels share last; only objects are ever linked.
  std::vector<std::string> paths;
  KernelSymbols symbols;     ///< the C function of each kernel
  KernelScratch scratch;     ///< empty where text was asked for
  int count = 0, cached = 0; ///< kernels, and how many of them the cache had
  int refusedThreads = 0;    ///< those of `jobs` that the system did not start
};

/// Writes objects, assembly or LLVM IR to `folder`; objects are kept in the cache, too. The function of an object is named
/// by its content, so that equal kernels of any models are one object; that of text by its kernel (`quern_kernel_k`).
/// Throws std::runtime_error, with the kernel's name, for what cannot be compiled or written.
KernelFiles compileKernels(mlir::ModuleOp planned, const CompileOptions &options, const std::string &folder);

/// Writes to `path` an object for the target that is no kernel's: from the cache, or as `make` writes it there. `of`: all else that
/// decides its content. Throws std::runtime_error.
void keepObject(const CompileOptions &options, const std::string &of, const std::string &path,
                const std::function<void()> &make);

/// One of the module's kernels by another plan. Several threads may call it: one at a time reads the module.
KernelFiles compileKernel(mlir::ModuleOp planned, const std::string &name, const KernelPlan &plan,
                          const CompileOptions &options, const std::string &folder);

/// A kernel for a reader.
struct KernelText {
  std::string name, loops, assembly;
  Scratch scratch; ///< what it asks for while it runs
};

/// Loops, assembly and scratch of every kernel, kept in the cache like objects. Throws as compileKernels does.
std::vector<KernelText> describeKernels(mlir::ModuleOp planned, const CompileOptions &options);

} // namespace quern::codegen
#endif
