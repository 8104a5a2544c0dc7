// Takes: bytes, or their text. Gives: the other.
#include "runtime/tokenizer/text/Base64.h"

#include <cstdint>

namespace quern::runtime {

static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string encodeBase64(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i)
      text += at + i > bytes.size() ? '=' : digits[bits >> (18 - 6 * i) & 63];
  }
  return text;
}

std::optional<std::string> decodeBase64(std::string_view text) {
  std::string result;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=')
      break;
    const size_t value = digits.find(c);
    if (value == std::string_view::npos)
      return std::nullopt;
    bits = bits << 6 | uint32_t(value);
    if ((count += 6) >= 8)
      result += char(bits >> (count -= 8) & 0xff);
  }
  return result;
}

} // namespace quern::runtime
