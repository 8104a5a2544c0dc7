// Where the bits of a code stand in the words of its group in a super-block (CodedGroups.h): the low four in a word of eight codes,
// the rest in the group's one word of high bits. Products of bytes take codes 4 i to 4 i + 3 at a time, so those are a
// shift away from being the four bytes of a word, their low bits as well as their high ones.
#ifndef QUERN_SUPPORT_NUMBERS_SUPERWORDS_H
#define QUERN_SUPPORT_NUMBERS_SUPERWORDS_H

#include "support/CodedGroups.h"

namespace quern::support {

/// `within`: the code's number in its group; from the lowest bit of its word on.
constexpr int lowBitOf(int within) {
  return within % 4 * 8 + within / 4 % 2 * 4;
}
constexpr int highBitOf(const SuperBlocks &form, int within) {
  return within % 4 * 8 + within / 4 * form.highBits();
}

} // namespace quern::support
#endif
