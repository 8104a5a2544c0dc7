// From a planned module to an executable, a library, or to the files on the way there.
#ifndef QUERN_CODEGEN_COMPILER_H
#define QUERN_CODEGEN_COMPILER_H

#include "codegen/Producers.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>

namespace quern::codegen {

enum class Emit { Executable, Library, Object, Llvm, Assembly };

struct CompileOptions : PlanOptions {
  std::string spec;   ///< the spec's file, for messages of the program
  std::string output; ///< a file; for Object, Llvm and Assembly a folder
  Emit emit = Emit::Executable;
  std::string embed; ///< a checkpoint to append to the executable; empty: none
  bool symbols =
      false; ///< an executable keeps the names of its functions, kernels by those of the dump and their weights
  int jobs = 2;
  std::string cache; ///< folder of compiled kernels; empty: the user's own
  /// Called as kernels are done: how many of how many.
  std::function<void(int done, int all)> progress = [](int, int) {};
};

struct CompileReport {
  int kernels = 0, cached = 0;
  int refusedThreads = 0; ///< those of `jobs` that the system did not start
  double kernelSeconds = 0, hostSeconds = 0, linkSeconds = 0;
};

/// Throws std::runtime_error with what went wrong and where. `planned` is in phase `planned`; it is not changed.
CompileReport compileModule(mlir::ModuleOp planned, const CompileOptions &options);

/// What the program of `planned` would say about itself (runtime/abi/Description.h), without compiling a kernel.
std::string describeProgram(mlir::ModuleOp planned, const CompileOptions &options);

} // namespace quern::codegen
#endif
