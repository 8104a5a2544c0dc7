// Takes: bytes, or the characters that stand for them. Gives: the other. The mapping is GPT-2's (`bytes_to_unicode`).
#include "runtime/tokenizer/text/ByteChars.h"

#include "runtime/tokenizer/text/Unicode.h"

#include <array>

namespace quern::runtime {

namespace {

struct Tables {
  std::array<char[2], 256> toChar{}; // its UTF-8; of one byte where the second is 0
  std::array<int, 512> toByte{};
  Tables() {
    toByte.fill(-1);
    char32_t next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const char32_t c = printable ? byte : next++;
      toChar[byte][0] = c < 0x80 ? char(c) : char(0xc0 | c >> 6);
      toChar[byte][1] = c < 0x80 ? '\0' : char(0x80 | (c & 0x3f));
      toByte[c] = int(byte);
    }
  }
};
const Tables &tables() {
  static const Tables result;
  return result;
}

} // namespace

std::string toByteChars(std::string_view bytes) {
  const Tables &table = tables();
  std::string chars(bytes.size() * 2, '\0');
  char *end = chars.data();
  for (char byte : bytes) {
    const char *c = table.toChar[static_cast<unsigned char>(byte)];
    *end++ = c[0];
    if (c[1])
      *end++ = c[1];
  }
  chars.resize(size_t(end - chars.data()));
  return chars;
}

bool appendBytes(std::string &bytes, std::string_view chars) {
  size_t before = bytes.size();
  for (size_t at = 0; at < chars.size();) {
    char32_t c = nextChar(chars, at);
    int byte = c < 512 ? tables().toByte[c] : -1;
    if (byte < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += char(byte);
  }
  return true;
}

} // namespace quern::runtime
