// Where the bits of a code stand in the words of its group in a super-block (CodedGroups.h): the low four in a word of eight codes,
// the rest in a word of high bits, after those of the group. Products of bytes take codes 4 i to 4 i + 3 at a time, so those are a
// shift away from being the four bytes of a word, their low bits as well as their high ones.
#ifndef QUERN_SUPPORT_NUMBERS_SUPERWORDS_H
#define QUERN_SUPPORT_NUMBERS_SUPERWORDS_H

#include "support/CodedGroups.h"
#include "support/numbers/SmallFloats.h"

#include <cstdint>

namespace quern::support {

/// `within`: the code's number in its group; from the lowest bit of its word on.
constexpr int lowBitOf(int within) {
  return within % 4 * 8 + within / 4 % 2 * 4;
}
constexpr int highBitOf(const SuperBlocks &form, int within) {
  return within % 4 * 8 + within / 4 * form.highBits() % 8;
}
/// From the group's beginning on.
constexpr int highWordOf(const SuperBlocks &form, int within) {
  return form.lowWords() + within / 4 * form.highBits() / 8;
}

/// The `i`th code of a super-block. `wordAt(w)`: a word of it.
template <typename Word> int superCodeIn(const SuperBlocks &form, Word wordAt, int i) {
  const int within = i % form.group, group = form.headWords() + i / form.group * form.wordsOfGroup();
  uint32_t code = wordAt(group + within / 8) >> lowBitOf(within) & 15;
  if (form.highBits())
    code |= (wordAt(group + highWordOf(form, within)) >> highBitOf(form, within) & ((1u << form.highBits()) - 1)) << 4;
  return form.hasSign && code >> (form.bits - 1) ? int(code) - (1 << form.bits) : int(code);
}

/// What codes are multiplied by, and what is subtracted then. Products of a half and eight bits: exact.
struct SuperLevels {
  float scale, minimum;
};
template <typename Word> SuperLevels superLevelsIn(const SuperBlocks &form, Word wordAt, int i) {
  const int group = i / form.group;
  const uint32_t units = wordAt(0), counts = wordAt(1 + group / 2) >> group % 2 * 16;
  return {halfToFloat(uint16_t(units)) * float(int8_t(counts)),
          halfToFloat(uint16_t(units >> 16)) * float(counts >> 8 & 255)};
}

} // namespace quern::support
#endif
