// All values of one run of the reference interpreter, and how the values of two runs are compared.
#ifndef QUERN_TOOLS_BISECT_TRACE_H
#define QUERN_TOOLS_BISECT_TRACE_H

#include "tools/interpret/Interpret.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace quern::tools {

/// The largest difference, relative to the largest number of `want`; infinite where one is NaN and the other is not, or
/// the shapes differ. `got` may have another order of dimensions.
double differenceOf(const ir::Array &got, const ir::Array &want);
/// The same for arrays that need to agree only as collections of numbers: passes rename, split, merge and order
/// dimensions.
double differenceOfContents(const ir::Array &got, const ir::Array &want);
/// The first element beyond the tolerance: "[B = 0, T = 3]: 0.25, not 0.5".
std::string firstDifference(const ir::Array &got, const ir::Array &want, double tolerance);
/// True if no number is NaN or infinite.
bool isFinite(const ir::Array &array);

/// One operation of a run.
struct Step {
  mlir::Operation *op;
  mlir::Operation *launch = nullptr; ///< operations inside a kernel: who called it
  int64_t iteration = 0;
  std::vector<ir::Array> results;
  bool finiteOperands = true;
};

struct Trace {
  std::vector<Step> steps;                  ///< in the order of execution
  std::map<std::string, ir::Array> results; ///< of the functions
  std::string error;                        ///< what stopped the run
};

/// Runs `module` as `quern interpret` does, and keeps every value (if `all`, else the results alone).
Trace traceOf(mlir::ModuleOp module, const InterpretOptions &files, bool all);

/// "llama.quern:19:7", the user's line; with the library's in brackets where that is another.
std::string placeOf(mlir::Location location);
/// What is common to the names of the parameters of the loop around `op` in this iteration: "model.layers.2"; else "iteration 2";
/// empty outside of loops.
std::string layerOf(mlir::Operation *op, int64_t iteration);

} // namespace quern::tools
#endif
