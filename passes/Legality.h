// Which operations may occur after a phase, and what else must hold.
#ifndef QUERN_PASSES_LEGALITY_H
#define QUERN_PASSES_LEGALITY_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace quern::passes {

/// Operations of the dialect by mnemonic; what is not named must not occur.
struct Legal {
  std::vector<std::string> inModule, inFunctions, inKernels;
};

/// From the frontend to the gradients: all that computes, and loops. `more`: what the phase adds.
Legal legalAlgebra(const std::vector<std::string> &more);
/// Kernels compute; functions launch them, look at parts of what is in memory, and remember.
Legal legalKernels();

/// Errors at operations that are not legal after the phase. Comparisons of lengths (`Role::Epoch`) stay expressions.
llvm::LogicalResult checkLegal(mlir::ModuleOp module, const Legal &legal, llvm::StringRef phase);

/// An error at each launch and loop whose result has no place, one that its function lacks, or one that is too small for it:
/// a dump of phase `planned` may have been edited. That no two buffers in use share a slot is the planner's word
/// (memory/CheckPlaces.cpp).
llvm::LogicalResult checkPlaces(mlir::ModuleOp module);

} // namespace quern::passes
#endif
