// Names of the discardable attributes: what passes note on modules, functions and operations for later passes, for the
// host program and for readers of dumps.
#ifndef QUERN_IR_ATTRIBUTES_H
#define QUERN_IR_ATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace quern::ir {

// ---- on a module: what its compilation was asked for

/// "bf16": what training reads again is kept in two bytes (`--precision`).
inline constexpr llvm::StringLiteral precisionAttr = "quern.precision";
/// Seconds that saving a byte costs beyond its traffic. The higher, the less a gradient saves (`--memory`).
inline constexpr llvm::StringLiteral priceAttr = "quern.saving_price";
/// So many turns of a loop are a segment, of which a gradient keeps only what is carried in. Absent: none.
inline constexpr llvm::StringLiteral segmentTurnsAttr = "quern.segment_turns";
/// The most rows of a chunk of a loss; absent: what its logits' bytes allow.
inline constexpr llvm::StringLiteral chunkRowsAttr = "quern.chunk_rows";

// ---- on a function

/// The variant for calls of at most this many rows (B * T), where it reads less than the one for many.
inline constexpr llvm::StringLiteral fewRowsAttr = "quern.few_rows";
/// Its weights are others at every call (training): they are read as they lie, and packed by nobody.
inline constexpr llvm::StringLiteral changingAttr = "quern.changing_weights";

// ---- on operations

/// On a `quern.concat` of parameters (PackProjections.cpp): it is no operation of the program, but how a packed weight
/// is put together at load.
inline constexpr llvm::StringLiteral weightAttr = "quern.weight";
/// On a parameter of which each position uses picked matrices alone (routed experts): the share of them, such as 0.25.
inline constexpr llvm::StringLiteral pickedAttr = "quern.picked";
/// On a kernel: the argument whose memory its result takes over, in every launch (PlanMemory.cpp).
inline constexpr llvm::StringLiteral inPlaceAttr = "quern.in_place";
/// On a loop within a loop: the gradient runs it again.
inline constexpr llvm::StringLiteral segmentAttr = "quern.segment";
/// On what a gradient computes again outside of loops, so that it stays apart from what it repeats.
inline constexpr llvm::StringLiteral againAttr = "quern.again";

// ---- on operations: how the passes that know attention talk to each other

/// On operations of an attention's gradient that have queries and keys.
inline constexpr llvm::StringLiteral insideAttr = "quern.inside";
/// On gathers at index(S) - index(T) + size(T): what they pick from is a table by distance (TabulateDistances.cpp).
inline constexpr llvm::StringLiteral distanceAttr = "quern.distance";

} // namespace quern::ir
#endif
