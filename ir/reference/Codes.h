// Codes of few bits for a group of numbers that share a scale: what `quern.quantize` does to one group, and how a packed
// weight of them lies in memory (support/CodedGroups.h).
#ifndef QUERN_IR_REFERENCE_CODES_H
#define QUERN_IR_REFERENCE_CODES_H

#include "support/CodedGroups.h"

#include <array>
#include <cstdint>
#include <vector>

namespace quern::ir {

struct CodedGroup {
  float scale = 0; ///< a number that f16 has
  std::array<int8_t, support::codedGroup> codes{};
  double number(int64_t i) const { return double(scale) * codes[i]; } ///< exact in f32
};

/// Of at most a group of numbers; the codes beyond are 0. `bits`: 8 or 4.
CodedGroup codedGroup(int bits, const std::vector<float> &numbers);

/// A packed weight [stacked ..., rows, depth] as kernels read it, of numbers in row-major order: where each group's bytes
/// go in memory that is zero before.
void packCodes(int bits, const std::vector<int64_t> &shape, int64_t tile, const double *numbers, uint8_t *to);

} // namespace quern::ir
#endif
