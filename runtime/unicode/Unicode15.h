// Properties of characters in Unicode 15. Tables that the build makes of utf8proc's data (MakeTables.cpp).
#ifndef QUERN_RUNTIME_UNICODE_UNICODE15_H
#define QUERN_RUNTIME_UNICODE_UNICODE15_H

#include <cstdint>
#include <vector>

namespace quern::runtime::unicode15 {

/// What many characters have alike.
struct Kind {
  uint8_t category;       ///< as `Category` counts them (tokenizer/text/Categories.h)
  uint8_t combiningClass; ///< of a mark: what it is put in order by
  uint8_t boundary;       ///< how it belongs to a grapheme
  uint8_t decomposes;     ///< 1: canonically, 2: for compatibility (else)
  bool capital;           ///< whether it has a small letter
};

/// Any 32-bit number; beyond the last character there is nothing.
const Kind &kindOf(char32_t c);

char32_t smallLetter(char32_t c); ///< or itself
/// Appends what a character consists of in the end, or itself.
void appendDecomposed(std::vector<char32_t> &result, char32_t c, bool compatibility);
/// What a character and one behind it make together; 0: nothing.
char32_t composedOf(char32_t first, char32_t second);

/// Says of characters in order whether one begins a new extended grapheme cluster.
class Graphemes {
public:
  bool beginsWith(char32_t c);

private:
  uint8_t before = 0;                            ///< boundary of the character before; 0: there is none
  enum { None, Pictogram, Joined } emoji = None; ///< the end of the cluster: one that may go on, one with a joiner
  bool oddFlags = false;                         ///< whether an odd number of regions' letters is before
};

} // namespace quern::runtime::unicode15
#endif
