// Characters: UTF-8 and the properties that tokenizers ask for.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_UNICODE_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_UNICODE_H

#include "runtime/Error.h"
#include "support/Utf8.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// The character at `at` of valid UTF-8; moves `at` behind it.
char32_t nextChar(std::string_view text, size_t &at);
void appendChar(std::string &text, char32_t c);
std::vector<char32_t> toChars(std::string_view text);
std::string toUtf8(const std::vector<char32_t> &chars);

bool isWhiteSpace(char32_t c); // property White_Space
bool isAsciiPunctuation(char32_t c);
// As the `tokenizers` library has them, whose parts stand at different versions of Unicode (UnicodeVersions.cpp).
bool isBertPunctuation(char32_t c); // ASCII's, and category P of Unicode 8
bool isBertAccent(char32_t c);      // category Mn of Unicode 8
bool isBertControl(char32_t c);     // categories Cc, Cf and Co of Unicode 8
bool isCombiningMark(char32_t c);   // category M of Unicode 9
bool isNumber(char32_t c);          // category N of Unicode 17
bool isWordCharacter(char32_t c);   // \w of UTS 18: letters, marks, digits, connectors, joiners
int combiningClass(char32_t c);     // of Unicode 9
bool isDecomposable(char32_t c);    // false: Unicode 9 has no decomposition of it
char32_t lowerOf(char32_t c);       // its small letter in Unicode 17, or itself
/// Full lower case of one character, without context.
void appendLower(std::vector<char32_t> &result, char32_t c);

/// Canonical or compatibility decomposition, then composition if asked for. Linear but for a sort in each run of marks.
std::vector<char32_t> decompose(const std::vector<char32_t> &chars, bool compatibility);
std::vector<char32_t> compose(std::vector<char32_t> decomposed);
/// Normal form C of valid UTF-8: the same as both, but most text is only looked at.
std::string composed(std::string text);

/// Ends (in bytes) of the extended grapheme clusters of valid UTF-8.
std::vector<size_t> graphemeEnds(std::string_view text);

/// Every occurrence of `from` replaced, left to right.
std::string replaceAll(std::string_view text, std::string_view from, std::string_view to);

} // namespace quern::runtime
#endif
