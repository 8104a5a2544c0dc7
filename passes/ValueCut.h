// Of values that follow from each other, which are kept and which are recomputed: what a gradient saves, what generation
// remembers.
#ifndef QUERN_PASSES_VALUECUT_H
#define QUERN_PASSES_VALUECUT_H

#include "passes/MinimumCut.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace quern::passes {

enum class Had {
  Neither, ///< nothing that is wanted needs it
  Kept,
  Again ///< recomputed, of what is kept or at hand
};

/// For each value of `region`, of which the first `wanted` are needed. What a value that can be recomputed is made of is in
/// the region or at hand. `keep` and `make`: what that costs, in one unit (nanoseconds, say); MinimumCut::unlimited: it
/// cannot be.
std::vector<Had> leastCut(llvm::ArrayRef<mlir::Value> region, size_t wanted,
                          llvm::function_ref<double(mlir::Value)> keep, llvm::function_ref<double(mlir::Value)> make);

} // namespace quern::passes
#endif
