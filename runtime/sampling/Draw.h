// A choice of the next token that needs nothing but its logits: what a device is asked for that holds them.
#ifndef QUERN_RUNTIME_SAMPLING_DRAW_H
#define QUERN_RUNTIME_SAMPLING_DRAW_H

#include <cstdint>

namespace quern::runtime {

/// The rules of these names, in this order, and the number in [0, 1) that chooses one of what they keep.
struct Draw {
  double temperature = 0; ///< 0: the likeliest, and nothing below counts
  int64_t topK = 0;       ///< 0: all
  double topP = 1, minP = 0;
  double point = 0;
};

/// The weight of the likeliest token. Weights are whole numbers, so that their sums are exact in any order: a device adds
/// them up as it likes. What is less likely than the likeliest by more than this factor is never chosen.
inline constexpr double heaviest = 2147483648.0;

} // namespace quern::runtime
#endif
