// Takes: text. Gives: characters, their properties and normal forms.
#include "runtime/tokenizer/text/Unicode.h"

#include "runtime/Error.h"
#include "runtime/unicode/Unicode15.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quern::runtime {

char32_t nextChar(std::string_view text, size_t &at) {
  unsigned char first = static_cast<unsigned char>(text[at]);
  size_t length = utf8Length(first);
  char32_t c = length == 1 ? first : first & (0x7f >> length);
  for (size_t i = 1; i < length && at + i < text.size(); ++i)
    c = c << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3f);
  at = std::min(at + length, text.size());
  return c;
}

void appendChar(std::string &text, char32_t c) {
  if (c < 0x80) {
    text += char(c);
  } else if (c < 0x800) {
    text += char(0xc0 | c >> 6);
    text += char(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    text += char(0xe0 | c >> 12);
    text += char(0x80 | (c >> 6 & 0x3f));
    text += char(0x80 | (c & 0x3f));
  } else {
    text += char(0xf0 | c >> 18);
    text += char(0x80 | (c >> 12 & 0x3f));
    text += char(0x80 | (c >> 6 & 0x3f));
    text += char(0x80 | (c & 0x3f));
  }
}

std::vector<char32_t> toChars(std::string_view text) {
  std::vector<char32_t> chars;
  chars.reserve(text.size());
  for (size_t at = 0; at < text.size();)
    chars.push_back(nextChar(text, at));
  return chars;
}

std::string toUtf8(const std::vector<char32_t> &chars) {
  std::string text;
  text.reserve(chars.size());
  for (char32_t c : chars)
    appendChar(text, c);
  return text;
}

bool isWhiteSpace(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool isAsciiPunctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

void appendLower(std::vector<char32_t> &result, char32_t c) {
  if (c == 0x130) { // the one character whose lower case is two
    result.push_back('i');
    result.push_back(0x307);
  } else {
    result.push_back(lowerOf(c));
  }
}

std::vector<char32_t> decompose(const std::vector<char32_t> &chars, bool compatibility) {
  std::vector<char32_t> result;
  result.reserve(chars.size());
  for (char32_t c : chars) {
    if (isDecomposable(c))
      unicode15::appendDecomposed(result, c, compatibility);
    else
      result.push_back(c);
  }
  for (size_t i = 0; i < result.size();) {
    size_t end = i;
    while (end < result.size() && combiningClass(result[end]) != 0)
      ++end;
    if (end - i > 1)
      std::stable_sort(result.begin() + i, result.begin() + end,
                       [](char32_t a, char32_t b) { return combiningClass(a) < combiningClass(b); });
    i = std::max(end, i + 1);
  }
  return result;
}

std::vector<char32_t> compose(std::vector<char32_t> chars) {
  // A mark that Unicode 9 does not have stands in nobody's order there, so nothing is composed across it.
  constexpr char32_t youngest = 0x11938; // the one composition that is younger
  size_t starter = chars.size(), end = 0;
  int most = -1; // order of what is between the starter and the character
  for (size_t i = 0; i < chars.size(); ++i) {
    const char32_t c = chars[i];
    const int order = combiningClass(c);
    if (starter < end && order > most)
      if (char32_t both = unicode15::composedOf(chars[starter], c); both && both != youngest) {
        chars[starter] = both;
        continue;
      }
    if (order)
      most = std::max(most, order);
    else
      starter = end, most = -1;
    chars[end++] = c;
  }
  chars.resize(end);
  return chars;
}

std::vector<size_t> graphemeEnds(std::string_view text) {
  std::vector<size_t> ends;
  if (text.empty())
    return ends;
  unicode15::Graphemes graphemes;
  for (size_t at = 0; at < text.size();) {
    const size_t before = at;
    if (graphemes.beginsWith(nextChar(text, at)) && before)
      ends.push_back(before);
  }
  ends.push_back(text.size());
  return ends;
}

std::string replaceAll(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty())
    return std::string(text);
  std::string result;
  result.reserve(text.size());
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != std::string_view::npos; at = found + from.size()) {
    result.append(text.substr(at, found - at));
    result.append(to);
  }
  result.append(text.substr(at));
  return result;
}

} // namespace quern::runtime
