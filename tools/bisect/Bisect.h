// `quern bisect`: where a program first leaves the numbers of its spec.
#ifndef QUERN_TOOLS_BISECT_BISECT_H
#define QUERN_TOOLS_BISECT_BISECT_H

#include "codegen/Compiler.h"
#include "passes/Phases.h"
#include "tools/interpret/Interpret.h"

#include <functional>

namespace quern::tools {

struct BisectOptions {
  InterpretOptions files;        ///< function, weights, input
  std::string expected;          ///< a file of results that are known to be right; empty: the spec itself is the judge
  std::string reference;         ///< weights that are known to be right; empty: none
  double tolerance = 1e-4;       ///< of a kernel and of the program, relative to the largest number of a result
  double exact = 1e-9;           ///< of a pass: both sides are in double precision
  std::string from = "resolved"; ///< the phase or pass that the module stands at
  passes::PassOptions passes;
  codegen::CompileOptions compile;
  /// For tests: changes a module after a pass has run, as a faulty pass would.
  std::function<void(llvm::StringRef pass, mlir::ModuleOp)> plantInPass;
  /// For tests: changes the module that kernels are compiled from, as a faulty code generator would.
  std::function<void(mlir::ModuleOp planned)> plantInKernels;
};

struct Divergence {
  std::string stage;            ///< "none", "spec", "weights", "pass", "kernel" or "program"
  std::string name;             ///< of the weight, the pass or the kernel
  std::string layer, op, place; ///< of the first operation that differs, where it is known
  double difference = 0;
  std::string message; ///< one or more lines for a reader
};

/// Looks at weights (where there are others to compare with), then passes, then kernels one by one, then the whole
/// program; stops at the first that differs. `module` is lowered on the way. Throws std::runtime_error where something
/// cannot be run.
Divergence bisect(mlir::ModuleOp module, const BisectOptions &options);

} // namespace quern::tools
#endif
