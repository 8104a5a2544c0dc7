// Takes: bytes, or the characters that stand for them. Gives: the other. The mapping is GPT-2's (`bytes_to_unicode`).
#include "runtime/tokenizer/text/ByteChars.h"

#include "runtime/tokenizer/text/Unicode.h"

#include <array>

namespace quern::runtime {

namespace {

struct Tables {
  std::array<char32_t, 256> toChar{};
  std::array<int, 512> toByte{};
  Tables() {
    toByte.fill(-1);
    char32_t next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      toChar[byte] = printable ? byte : next++;
      toByte[toChar[byte]] = int(byte);
    }
  }
};
const Tables &tables() {
  static const Tables result;
  return result;
}

} // namespace

std::string toByteChars(std::string_view bytes) {
  std::string chars;
  chars.reserve(bytes.size() * 2);
  for (char byte : bytes)
    appendChar(chars, tables().toChar[static_cast<unsigned char>(byte)]);
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
