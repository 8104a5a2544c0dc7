// How weights in codes of few bits lie in memory: what passes count, kernels read and loaders write.
//
// 32 numbers along the summed dimension are a group; they share a scale in f16. Codes have no sign: 2^(bits - 1) is added. Four
// bytes of a row stand beside each other, as instructions sum products of four: of int8 four codes; of int4 eight, the first
// four in the low halves. A last group of fewer numbers ends with codes of 0. Kernels read packed weights alone: tiles of
// rows, for each group the scales' low bytes, their high bytes, then for each step four bytes of every row:
//
//   [ceil(rows / tile)][groups]( [tile] [tile] [32 * bits / 32][tile][4] )
//
// Rows that only fill the last tile are 0, with a scale of 0.
#ifndef QUERN_SUPPORT_CODEDGROUPS_H
#define QUERN_SUPPORT_CODEDGROUPS_H

#include <cstdint>

namespace quern::support {

constexpr int64_t codedGroup = 32;

/// Of one row in a step.
constexpr int64_t codesInStep(int bits) {
  return 32 / bits;
}
/// Bytes of one group: its scale and its codes.
constexpr int64_t bytesOfGroup(int bits) {
  return 2 + codedGroup * bits / 8;
}
/// Bytes of `length` numbers.
constexpr int64_t codedBytes(int bits, int64_t length) {
  return (length + codedGroup - 1) / codedGroup * bytesOfGroup(bits);
}

} // namespace quern::support
#endif
