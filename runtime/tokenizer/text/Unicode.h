// Characters: UTF-8 and the properties that tokenizers ask for.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_UNICODE_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_UNICODE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// Bytes of the character that begins with this byte of valid UTF-8.
inline size_t utf8Length(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}
/// The character at `at` of valid UTF-8; moves `at` behind it.
char32_t nextChar(std::string_view text, size_t &at);
void appendChar(std::string &text, char32_t c);
std::vector<char32_t> toChars(std::string_view text);
std::string toUtf8(const std::vector<char32_t> &chars);

/// How many bytes from the start are whole, valid characters; `broken` says whether an invalid byte follows
/// (false: the text ends, perhaps inside a character).
size_t validPrefix(std::string_view text, bool &broken);
bool isValidUtf8(std::string_view text);
/// Each maximal invalid part becomes one U+FFFD (Unicode 15, section 3.9).
std::string repairUtf8(std::string_view text);

bool isWhiteSpace(char32_t c);  // property White_Space
bool isPunctuation(char32_t c); // general category P
bool isAsciiPunctuation(char32_t c);
bool isNumber(char32_t c);          // category N
bool isMarkNonspacing(char32_t c);  // category Mn
bool isMark(char32_t c);            // category M
bool isControlOrFormat(char32_t c); // categories Cc and Cf
bool isWordCharacter(char32_t c);   // \w of UTS 18: letters, marks, digits, connectors, joiners
/// Full lower case of one character, without context.
void appendLower(std::vector<char32_t> &result, char32_t c);

/// Canonical or compatibility decomposition, then composition if asked for. Linear but for a sort in each run of marks.
std::vector<char32_t> decompose(const std::vector<char32_t> &chars, bool compatibility);
std::vector<char32_t> compose(std::vector<char32_t> decomposed);

/// Ends (in bytes) of the extended grapheme clusters of valid UTF-8.
std::vector<size_t> graphemeEnds(std::string_view text);

/// Every occurrence of `from` replaced, left to right.
std::string replaceAll(std::string_view text, std::string_view from, std::string_view to);

} // namespace quern::runtime
#endif
