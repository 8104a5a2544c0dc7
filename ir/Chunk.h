// Loops over chunks of rows: `quern.repeat rows 256 ...` takes its stacks 256 rows at a time, the last iteration what is
// left. The length of an iteration is chunk(256, B * T) within the body (ir/Derived.h): 256, or less in the last iteration.
// Outside it stands for the longest iteration, which is what memory is planned for.
#ifndef QUERN_IR_CHUNK_H
#define QUERN_IR_CHUNK_H

#include "ir/Dialect.h"

namespace quern::ir {

struct Chunk {
  int64_t most = 0;
  Size rows; ///< all of them
  int64_t iterations(int64_t count) const { return (count + most - 1) / most; }
};

/// The length of an iteration over `rows`, a product of symbols; nothing for other sizes.
std::optional<Size> chunkLength(int64_t most, const Size &rows);
/// Of the length of an iteration; nothing for any other symbol.
std::optional<Chunk> chunkOf(std::string_view symbol);
/// The chunk that a loop takes its stacks by; nothing for a loop that counts iterations.
std::optional<Chunk> chunkOf(RepeatOp loop);
/// `size` with all rows in the place of those of an iteration: what all iterations come to together.
Size overAllIterations(const Size &size);

/// What one iteration of `loop` has of a stack.
NamedTensorType partOfStack(RepeatOp loop, NamedTensorType stack);
/// How many elements follow each other from one iteration's part to the next one's.
Size iterationStride(RepeatOp loop, NamedTensorType stack);

} // namespace quern::ir
#endif
