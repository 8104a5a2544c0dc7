// The end of a loss over chunks of rows.
#ifndef QUERN_PASSES_GRADIENT_CHUNKLOSS_H
#define QUERN_PASSES_GRADIENT_CHUNKLOSS_H

#include <memory>

namespace mlir {
class Pass;
}

namespace quern::passes {

/// In a module to be trained computes logits, the loss and their gradient some rows at a time (ChunkLoss.cpp).
std::unique_ptr<mlir::Pass> createChunkLossPass();
/// On a module: the most rows of such a chunk; absent: what its logits' bytes allow.
inline constexpr char chunkRowsAttr[] = "quern.chunk_rows";
/// On a kernel: the argument whose memory its result takes over, in every launch (PlanMemory.cpp).
inline constexpr char inPlaceAttr[] = "quern.in_place";

} // namespace quern::passes
#endif
