// A planned module's kernels, loaded into this process and called one by one.
#ifndef QUERN_CODEGEN_HOSTLIBRARY_H
#define QUERN_CODEGEN_HOSTLIBRARY_H

#include "codegen/Compiler.h"
#include "codegen/kernel/Scratch.h"
#include "ir/Dialect.h"
#include "ir/reference/Array.h"
#include "support/TemporaryFolder.h"

#include <memory>

namespace quern::codegen {

/// The path of an object in `folder` that kernels ask for memory and threads where they are loaded into a process without
/// Quern's runtime: Halide's own runtime, from the cache.
std::string loadedRuntime(const CompileOptions &options, const std::string &folder);

class HostLibrary {
public:
  /// Compiles what the cache lacks, as `quern compile` does, and loads all. Throws std::runtime_error.
  HostLibrary(mlir::ModuleOp planned, const CompileOptions &options);
  ~HostLibrary();
  HostLibrary(const HostLibrary &) = delete;

  /// One call: `sizes` are the kernel's run-time symbols in order, `inputs` its arguments with any names of dimensions,
  /// in its order. The results in the kernel's order of dimensions, with its names. Every buffer is laid out as the
  /// kernel asks.
  std::vector<ir::Array> call(ir::KernelOp kernel, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<ir::Array> inputs);

private:
  support::TemporaryFolder work;
  KernelSymbols symbols;
  void *library = nullptr;
};

} // namespace quern::codegen
#endif
