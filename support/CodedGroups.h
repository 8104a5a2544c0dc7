// How weights in codes of few bits lie in memory: what passes count, kernels read and loaders write.
//
// 32 numbers along the summed dimension are a group; they share a scale. A row of numbers is, for each group, 1 + bits * 2
// words of 16 bits: the scale in f16, then the codes, 16 / bits in a word, the first in the lowest bits, each in two's
// complement. A last group of fewer numbers ends with codes 0. Kernels read packed weights alone: tiles of rows whose
// words lie beside each other, [ceil(rows / tile)][words][tile].
#ifndef QUERN_SUPPORT_CODEDGROUPS_H
#define QUERN_SUPPORT_CODEDGROUPS_H

#include <cstdint>

namespace quern::support {

constexpr int64_t codedGroup = 32;

constexpr int64_t codesInWord(int bits) {
  return 16 / bits;
}
/// Words of one group: its scale and its codes.
constexpr int64_t wordsOfGroup(int bits) {
  return 1 + codedGroup / codesInWord(bits);
}
/// Words of `length` numbers.
constexpr int64_t codedWords(int bits, int64_t length) {
  return (length + codedGroup - 1) / codedGroup * wordsOfGroup(bits);
}

} // namespace quern::support
#endif
