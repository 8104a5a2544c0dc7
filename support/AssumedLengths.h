// The lengths that choices count with where only a run knows the true ones. They change what is chosen, never a result.
#ifndef QUERN_SUPPORT_ASSUMEDLENGTHS_H
#define QUERN_SUPPORT_ASSUMEDLENGTHS_H

#include <cstdint>

namespace quern::support::assumed {

/// Tokens of the one text, and of what is in the caches before it: what passes count with (ir/analysis/AssumedLengths.h).
inline constexpr int64_t text = 512;

/// A kernel's plan serves every length of a run, so it is chosen at lengths where the choice matters most: rows of a
/// contraction, which decode, short texts and parts of a batch bring too; queries of an attention and of its gradient,
/// since only long texts have blocks that a mask rules out; columns and depth; any other dimension of a stage.
inline constexpr int64_t rows = 256, queries = 2048, gradientQueries = 1024, columns = 768, elements = 256;

} // namespace quern::support::assumed
#endif
