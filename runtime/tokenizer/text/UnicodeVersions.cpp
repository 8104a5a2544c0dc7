// Takes: characters. Gives: the properties that tokenizers asked for when models were trained.
// Why tables: the libraries behind `tokenizers` carry data of Unicode 8 for BERT, of 9 for combining marks and normal
// forms, of 16 for words, of 17 for digits and capitals; the build's is of 15. A table lists the stretches in which the
// answers differ; characters between two of them that no property concerns may be in one, too.
// tests/data/tokenizers/unicode.json and mixed.json have the whole truth.
#include "runtime/tokenizer/text/Categories.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/unicode/Unicode15.h"

#include <algorithm>
#include <iterator>

namespace quern::runtime {

namespace {

struct Stretch {
  char32_t first, last;
};

/// Marks, punctuation and format characters that Unicode 8 does not have.
constexpr Stretch youngerThan8[] = {
    {0x61d, 0x61d},     {0x7fd, 0x7fd},     {0x890, 0x8e2},     {0x9fd, 0x9fe},     {0xa76, 0xa76},
    {0xafa, 0xaff},     {0xb55, 0xb55},     {0xc04, 0xc3c},     {0xc77, 0xc77},     {0xc84, 0xc84},
    {0xd00, 0xd00},     {0xd3b, 0xd3c},     {0xd81, 0xd81},     {0xeba, 0xeba},     {0xece, 0xece},
    {0x180f, 0x1886},   {0x1abf, 0x1ace},   {0x1b7d, 0x1b7e},   {0x1df6, 0x1dfb},   {0x2e43, 0x2e5d},
    {0xa82c, 0xa82c},   {0xa8c5, 0xa8c5},   {0xa8ff, 0xa8ff},   {0xa9bd, 0xa9bd},   {0x10d24, 0x10f89},
    {0x11070, 0x11074}, {0x110c2, 0x110cd}, {0x111c9, 0x111c9}, {0x111cf, 0x111cf}, {0x1123e, 0x11241},
    {0x1133b, 0x1133b}, {0x11438, 0x1145e}, {0x11660, 0x1166c}, {0x116b9, 0x116b9}, {0x1182f, 0x11fff},
    {0x12ff1, 0x13455}, {0x16e97, 0x16f4f}, {0x16fe2, 0x16fe4}, {0x1cf00, 0x1cf46}, {0x1e000, 0x1e4ef},
    {0x1e944, 0x1e95f},
};
/// Marks that Unicode 9 does not have.
constexpr Stretch youngerThan9[] = {
    {0x7fd, 0x7fd},     {0x898, 0x8d3},     {0x9fe, 0x9fe},     {0xafa, 0xaff},     {0xb55, 0xb55},
    {0xc04, 0xc3c},     {0xcf3, 0xd00},     {0xd3b, 0xd3c},     {0xd81, 0xd81},     {0xeba, 0xeba},
    {0xece, 0xece},     {0x1715, 0x1715},   {0x180f, 0x180f},   {0x1abf, 0x1ace},   {0x1cf7, 0x1cf7},
    {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0xa8ff, 0xa8ff},   {0x10d24, 0x10f85}, {0x11070, 0x11074},
    {0x110c2, 0x110c2}, {0x11145, 0x11146}, {0x111c9, 0x111c9}, {0x111ce, 0x111cf}, {0x11241, 0x11241},
    {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x1182c, 0x11a99}, {0x11d31, 0x13455}, {0x16f4f, 0x16f4f},
    {0x16f7f, 0x16f87}, {0x16fe4, 0x16ff1}, {0x1cf00, 0x1cf46}, {0x1e08f, 0x1e4ef},
};
/// Characters of words that Unicode 15 does not have.
constexpr Stretch newWords[] = {
    {0x897, 0x897},     {0x1c89, 0x1c8a},   {0xa7cb, 0xa7cd},   {0xa7da, 0xa7dc},   {0x105c0, 0x105f3},
    {0x10d40, 0x10d65}, {0x10d69, 0x10d6d}, {0x10d6f, 0x10d85}, {0x10ec2, 0x10ec4}, {0x10efc, 0x10efc},
    {0x11380, 0x11389}, {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113c0},
    {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113d3}, {0x113e1, 0x113e2},
    {0x116d0, 0x116e3}, {0x11bc0, 0x11be0}, {0x11bf0, 0x11bf9}, {0x11f5a, 0x11f5a}, {0x13460, 0x143fa},
    {0x16100, 0x16139}, {0x16d40, 0x16d6c}, {0x16d70, 0x16d79}, {0x18cff, 0x18cff}, {0x1ccf0, 0x1ccf9},
    {0x1e5d0, 0x1e5fa}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}, {0x2ebf0, 0x2ee5d},
};

/// Characters with a decomposition that Unicode 9 does not have.
constexpr Stretch decomposedSince9[] = {
    {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xab69, 0xab69},   {0x10781, 0x10785}, {0x10787, 0x107b0},
    {0x107b2, 0x107ba}, {0x11938, 0x11938}, {0x1e030, 0x1e06d}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9},
};
/// Capitals that Unicode 15 does not have: as far behind each is its small letter.
constexpr struct {
  char32_t first, last;
  int distance;
} newCapitals[] = {
    {0x1c89, 0x1c89, 1},      {0xa7cb, 0xa7cb, 0x264 - 0xa7cb},
    {0xa7cc, 0xa7cc, 1},      {0xa7ce, 0xa7ce, 1},
    {0xa7d2, 0xa7d2, 1},      {0xa7d4, 0xa7d4, 1},
    {0xa7da, 0xa7da, 1},      {0xa7dc, 0xa7dc, 0x19b - 0xa7dc},
    {0x10d50, 0x10d65, 0x20}, {0x16ea0, 0x16eb8, 0x1b},
};

template <size_t count> bool isIn(const Stretch (&table)[count], char32_t c) {
  const Stretch *after = std::upper_bound(std::begin(table), std::end(table), c,
                                          [](char32_t x, const Stretch &stretch) { return x < stretch.first; });
  return after != std::begin(table) && c <= after[-1].last;
}

Category categoryOf15(char32_t c) {
  return Category(unicode15::kindOf(c).category);
}

} // namespace

bool isBertPunctuation(char32_t c) {
  if (isAsciiPunctuation(c) || c == 0x166d || c == 0x111c9) // the last two have become something else since
    return true;
  Category category = categoryOf15(c);
  return category >= Pc && category <= Po && !isIn(youngerThan8, c);
}

bool isBertAccent(char32_t c) {
  return c == 0x1734 || (categoryOf15(c) == Mn && !isIn(youngerThan8, c));
}

bool isBertControl(char32_t c) {
  Category category = categoryOf15(c);
  return category == Cc || category == Co || (category == Cf && !isIn(youngerThan8, c));
}

int combiningClass(char32_t c) {
  const int known = c < 0x300 ? 0 : unicode15::kindOf(c).combiningClass;
  return known == 0 || isIn(youngerThan9, c) ? 0 : known;
}

bool isDecomposable(char32_t c) {
  return !isIn(decomposedSince9, c);
}

char32_t lowerOf(char32_t c) {
  for (const auto &[first, last, distance] : newCapitals)
    if (c >= first && c <= last)
      return char32_t(int(c) + distance);
  return unicode15::smallLetter(c);
}

bool isCombiningMark(char32_t c) {
  Category category = categoryOf15(c);
  return c == 0x1cf2 || c == 0x1cf3 || (category >= Mn && category <= Me && !isIn(youngerThan9, c));
}

bool isNumber(char32_t c) {
  return isNumeric(categoryOf(c)) || (c >= 0x11de0 && c <= 0x11de9) || (c >= 0x16ff4 && c <= 0x16ff6);
}

bool isWordCharacter(char32_t c) {
  Category category = categoryOf15(c);
  return (category >= Lu && category <= Nl) || category == Pc || c == 0x200c || c == 0x200d ||
         (c >= 0x24b6 && c <= 0x24e9) || isIn(newWords, c);
}

} // namespace quern::runtime
