// Takes: bytes. Gives: where characters begin and end among them, and what is none.
// Why one copy: the lexer of specs, tokenizers and messages must agree on what a text is.
#include "support/Utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace quern::support {

Utf8Char utf8Char(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  unsigned char first = byte(0);
  if (first < 0x80)
    return {1, 0};
  if (first < 0xc2 || first > 0xf4)
    return {0, 1};
  size_t length = utf8Length(first), left = text.size() - at;
  for (size_t i = 1; i < length; ++i) {
    if (i >= left)
      return {0, 0};
    unsigned char low = 0x80, high = 0xbf;
    if (i == 1) { // no overlong forms, no surrogates, nothing beyond U+10FFFF
      low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
      high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    }
    if (byte(i) < low || byte(i) > high)
      return {0, i};
  }
  return {length, 0};
}

size_t utf8Count(std::string_view text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return !isUtf8Tail(c); }));
}

size_t validPrefix(std::string_view text, bool &broken) {
  for (size_t at = 0; at < text.size();) {
    if (uint64_t eight; text.size() - at >= sizeof eight) { // most text is ASCII
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if (!(eight & 0x8080808080808080u)) {
        at += sizeof eight;
        continue;
      }
    }
    Utf8Char found = utf8Char(text, at);
    if (found.length == 0) {
      broken = found.wrong != 0;
      return at;
    }
    at += found.length;
  }
  broken = false;
  return text.size();
}

bool isValidUtf8(std::string_view text) {
  bool broken;
  return validPrefix(text, broken) == text.size();
}

std::string repairUtf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    Utf8Char found = utf8Char(text, at);
    if (found.length != 0) {
      result.append(text.substr(at, found.length));
      at += found.length;
    } else {
      result += "\xef\xbf\xbd";
      at += found.wrong == 0 ? text.size() - at : found.wrong;
    }
  }
  return result;
}

} // namespace quern::support
