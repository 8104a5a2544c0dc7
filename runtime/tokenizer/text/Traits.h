// What is asked about every character of a text, as one byte: looked up, where the properties themselves are searched for.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_TRAITS_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_TRAITS_H

#include "support/Utf8.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quern::runtime {

/// Of the patterns that cut words, in Unicode 16: a letter that is neither capital nor small, a CJK ideograph say, is both.
/// Inert, in Unicode 9: its own normal form C, joins with no character before it, and is no mark that is put in order;
/// Alone: such a mark, where no other is beside it.
enum Trait : uint8_t { Upper = 1, Lower = 2, Mark = 4, Number = 8, Space = 16, Line = 32, Inert = 64, Alone = 128 };

/// Pages of 256 characters, made when one of them is first asked for: no table is in the program.
class TraitPages {
public:
  static uint8_t of(char32_t c) {
    const uint8_t *page = pages[c >> 8].load(std::memory_order_acquire);
    return (page ? page : make(c >> 8))[c & 0xff];
  }

private:
  static std::atomic<const uint8_t *> pages[0x1100];
  static const uint8_t *make(size_t page);
};

/// The traits of the character at `at` of valid UTF-8; moves behind it.
inline uint8_t nextTraits(std::string_view text, size_t &at) {
  const char *bytes = text.data() + at;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const auto tail = [&](size_t i) { return char32_t(static_cast<unsigned char>(bytes[i]) & 0x3f); };
  const size_t length = support::utf8Length(first);
  at += length;
  return TraitPages::of(length == 1   ? first
                        : length == 2 ? (first & 0x1fu) << 6 | tail(1)
                        : length == 3 ? (first & 0x0fu) << 12 | tail(1) << 6 | tail(2)
                                      : (first & 0x07u) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3));
}

} // namespace quern::runtime
#endif
