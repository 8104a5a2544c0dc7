// The passes of the compiler: module to module, one file (or family of files) each. The phase table says in which
// order.
#ifndef QUERN_PASSES_PASSES_H
#define QUERN_PASSES_PASSES_H

#include "passes/Without.h"
#include "support/Machine.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace mlir {
class Pass;
}

namespace quern::passes {

/// Folds the iterations of a loop, one `quern.repeat` each, into loops (RollRepeats.cpp).
std::unique_ptr<mlir::Pass> createRollRepeatsPass();

/// Adds low-rank adapters beside products with weights, where `quern.lora` asks for them (AddAdapters.cpp).
std::unique_ptr<mlir::Pass> createAddAdaptersPass();

/// In a module to be trained adds @loss.grad: the loss and the gradient of every parameter. `recompute`: what is
/// cheaper recomputed than saved on `machine` is not saved. (Differentiate.cpp).
std::unique_ptr<mlir::Pass> createDifferentiatePass(const support::Machine &machine = support::assumedMachine(),
                                                    bool recompute = true);

/// In the loss of a module to be trained makes what is learned for each distance of a key from a query a table
/// (TabulateDistances.cpp).
std::unique_ptr<mlir::Pass> createTabulateDistancesPass();

/// In a module to be trained computes logits, the loss and their gradient some rows at a time, whose logits take
/// at most so many bytes (ChunkLoss.cpp).
std::unique_ptr<mlir::Pass> createChunkLossPass(int64_t bytes = int64_t(64) << 20);

/// In a module to be trained adds the functions that update parameters (Optimizers.cpp).
std::unique_ptr<mlir::Pass> createOptimizersPass();

/// Turns causal functions into their step form with caches, and adds `.last`, `.epoch` and, where asked, `.ragged`
/// (Incremental.cpp).
/// `absorb`: it may remember latents that `createAbsorbProjectionsPass` makes cheap to look at.
std::unique_ptr<mlir::Pass> createIncrementalPass(const support::Machine &machine = support::assumedMachine(),
                                                  bool ragged = true, bool absorb = true);

/// New rows meet what is remembered before its projection: everywhere, or in functions for few rows
/// (AbsorbProjections.cpp).
std::unique_ptr<mlir::Pass> createAbsorbProjectionsPass(bool everywhere = false);

/// Computes only the experts that are chosen, wherever weights do not change; or in the loss of a module to be trained,
/// before its gradient is derived (SinkGathers.cpp).
std::unique_ptr<mlir::Pass> createSinkGathersPass(bool ofLoss = false);

/// Adds checks of the positions of gathers that come from data (CheckPositions.cpp).
std::unique_ptr<mlir::Pass> createCheckPositionsPass();

/// Makes weights of many dimensions matrices (FlattenWeights.cpp).
std::unique_ptr<mlir::Pass> createFlattenWeightsPass();

using support::PackingRule;

/// Recognises e^x over its sum as softmax (RaiseSoftmax.cpp).
std::unique_ptr<mlir::Pass> createRaiseSoftmaxPass();

/// Writes a softmax within a scan as the operations that it is made of (WriteOutSoftmax.cpp).
std::unique_ptr<mlir::Pass> createWriteOutSoftmaxPass();

/// Takes what no state reaches out of the bodies of scans (HoistScans.cpp).
std::unique_ptr<mlir::Pass> createHoistScansPass();

/// Makes scores, softmax and weighted sum one operation; remarks where that nearly is so. In the loss of a module to be
/// trained, before its gradient is derived, or everywhere else (RaiseAttention.cpp).
std::unique_ptr<mlir::Pass> createRaiseAttentionPass(bool ofLoss = false);

/// Makes contractions of one value with several weights one (PackProjections.cpp).
std::unique_ptr<mlir::Pass> createPackProjectionsPass(PackingRule rule);

/// Rounds what attention multiplies to bf16 where weights' products round theirs and that `gains` (NarrowAttention.cpp).
std::unique_ptr<mlir::Pass> createNarrowAttentionPass(bool gains = true);

/// Codes of rows whose neighbours' products with bytes fit in 16 bits, where that `gains` (PairCodes.cpp).
std::unique_ptr<mlir::Pass> createPairCodesPass(bool gains = true);

/// Whether what experts multiply is rounded where that of other products is: where the target gains by it.
struct RowsOfExperts {
  bool codes = false, bf16 = false;
};
/// In a module to be trained whose `precisionAttr` is "bf16": weights that products read and saved activations in two
/// bytes (NarrowStorage.cpp). `rounded`: what weights that rows are routed to multiply is rounded as well.
std::unique_ptr<mlir::Pass> createNarrowStoragePass(RowsOfExperts rounded = {});

/// Cuts fusion groups out as kernels and merges equal ones (OutlineKernels.cpp).
std::unique_ptr<mlir::Pass> createOutlineKernelsPass(PackingRule rule, Without without = {});

/// Gives every buffer its place in one arena, by liveness (PlanMemory.cpp).
std::unique_ptr<mlir::Pass> createPlanMemoryPass(const Without &without = {});

} // namespace quern::passes
#endif
