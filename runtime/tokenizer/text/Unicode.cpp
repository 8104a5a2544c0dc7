// Takes: text. Gives: characters, their properties and normal forms, on top of utf8proc.
// Why not utf8proc_map for normal forms: it sorts marks by exchanging neighbours, which is quadratic in a long run of
// them, and a stranger may send ten million.
#include "runtime/tokenizer/text/Unicode.h"

#include "runtime/Error.h"

#include <utf8proc.h>

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
  auto options = utf8proc_option_t(UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  std::vector<char32_t> result;
  result.reserve(chars.size());
  for (char32_t c : chars) {
    if (!isDecomposable(c)) {
      result.push_back(c);
      continue;
    }
    utf8proc_int32_t parts[32];
    int boundary = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char(utf8proc_int32_t(c), parts, 32, options, &boundary);
    if (count < 0 || count > 32)
      result.push_back(c);
    else
      result.insert(result.end(), parts, parts + count);
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
  static_assert(sizeof(char32_t) == sizeof(utf8proc_int32_t));
  // Nothing is composed across a mark that Unicode 9 does not have, nor by the one rule that is younger. utf8proc drops
  // U+11A7 behind a syllable, as if it were a consonant.
  const auto separates = [&](size_t i) {
    return (combiningClass(chars[i]) == 0 && utf8proc_get_property(utf8proc_int32_t(chars[i]))->combining_class != 0) ||
           (chars[i] == 0x11930 && chars[i - 1] == 0x11935) || chars[i] == 0x11a7;
  };
  std::vector<char32_t> result, part;
  for (size_t begin = 0, end = 0; begin < chars.size(); begin = end) {
    for (end = begin + 1; end < chars.size() && !separates(end);)
      ++end;
    part.assign(chars.begin() + std::ptrdiff_t(begin), chars.begin() + std::ptrdiff_t(end));
    part.push_back(0); // utf8proc may write one more
    const utf8proc_ssize_t length =
        utf8proc_normalize_utf32(reinterpret_cast<utf8proc_int32_t *>(part.data()), utf8proc_ssize_t(part.size() - 1),
                                 utf8proc_option_t(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    if (length < 0)
      throw UserError("text cannot be normalized");
    result.insert(result.end(), part.begin(), part.begin() + length);
  }
  return result;
}

std::vector<size_t> graphemeEnds(std::string_view text) {
  std::vector<size_t> ends;
  if (text.empty())
    return ends;
  utf8proc_int32_t state = 0;
  size_t at = 0;
  char32_t previous = nextChar(text, at);
  while (at < text.size()) {
    size_t before = at;
    char32_t c = nextChar(text, at);
    if (utf8proc_grapheme_break_stateful(utf8proc_int32_t(previous), utf8proc_int32_t(c), &state))
      ends.push_back(before);
    previous = c;
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
