// The passes of the compiler: module to module, one file (or family of files) each. The phase table says in which order.
#ifndef QUERN_PASSES_PASSES_H
#define QUERN_PASSES_PASSES_H

#include <memory>

namespace mlir {
class Pass;
}

namespace quern::passes {

/// Folds the turns of a loop, one `quern.repeat` each, into loops (RollRepeats.cpp).
std::unique_ptr<mlir::Pass> createRollRepeatsPass();

/// Turns causal functions into their step form with caches, and adds `.last` and `.epoch` (Incremental.cpp).
std::unique_ptr<mlir::Pass> createIncrementalPass();

} // namespace quern::passes
#endif
