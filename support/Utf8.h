// UTF-8: which bytes are characters.
#ifndef QUERN_SUPPORT_UTF8_H
#define QUERN_SUPPORT_UTF8_H

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::support {

/// The character at the front of some text. `length` is 0 where the bytes are none; `wrong` is then how many of them
/// belong to the broken one, or 0 if the text ends inside of a character.
struct Utf8Char {
  size_t length, wrong;
};
Utf8Char utf8Char(std::string_view text, size_t at);

/// Bytes of the character that begins with this byte of valid UTF-8.
inline size_t utf8Length(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}
/// Whether this byte goes on with a character, so that it begins none.
inline bool isUtf8Tail(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}
/// Characters of valid UTF-8.
size_t utf8Count(std::string_view text);

/// How many bytes from the start are whole, valid characters; `broken` says whether an invalid byte follows
/// (false: the text ends, perhaps inside a character).
size_t validPrefix(std::string_view text, bool &broken);
bool isValidUtf8(std::string_view text);
/// Each maximal invalid part becomes one U+FFFD (Unicode 15, section 3.9).
std::string repairUtf8(std::string_view text);

} // namespace quern::support
#endif
