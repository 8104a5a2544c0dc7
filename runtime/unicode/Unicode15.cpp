// Takes: characters. Gives: their properties, from tables that list where a property changes.
// Why pages beside them: a search takes twelve steps, and some tokenizers ask of each character of a text.
#include "runtime/unicode/Unicode15.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>

namespace quern::runtime::unicode15 {

namespace {
#include "runtime/unicode/Tables.inc"

constexpr char32_t characters = 0x110000;
std::atomic<const uint8_t *> pages[characters >> 8]; // of 256 characters each: numbers of kinds

const uint8_t *makePage(char32_t page) {
  auto *made = new uint8_t[256];
  const uint32_t *stretch =
      std::upper_bound(std::begin(stretches), std::end(stretches), uint32_t(page << 16 | 0xff)) - 1;
  for (uint32_t i = 0; i < 256; ++i) {
    const uint32_t c = uint32_t(page) << 8 | i;
    while (stretch + 1 != std::end(stretches) && stretch[1] >> 8 <= c)
      ++stretch;
    made[i] = uint8_t(*stretch);
  }
  const uint8_t *known = nullptr;
  if (pages[page].compare_exchange_strong(known, made, std::memory_order_acq_rel))
    return made;
  delete[] made; // another thread was faster
  return known;
}

constexpr char32_t firstSyllable = 0xac00, leads = 0x1100, vowels = 0x1161, tails = 0x11a7;
constexpr uint32_t leadCount = 19, vowelCount = 21, tailCount = 28, syllables = leadCount * vowelCount * tailCount;

enum Boundary : uint8_t { // as utf8proc counts them
  Start,
  Other,
  Return,
  Feed,
  Control,
  Extend,
  Lead,
  Vowel,
  Tail,
  LeadVowel,
  LeadVowelTail,
  Region,
  SpacingMark,
  Prepend,
  Joiner,
  Pictographic = 19
};
} // namespace

const Kind &kindOf(char32_t c) {
  if (c >= characters)
    c = characters - 1;
  const uint8_t *page = pages[c >> 8].load(std::memory_order_acquire);
  return kinds[(page ? page : makePage(c >> 8))[c & 0xff]];
}

char32_t smallLetter(char32_t c) {
  if (c < 0x80)
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  if (!kindOf(c).capital)
    return c;
  return smallLetters[std::lower_bound(std::begin(capitals), std::end(capitals), uint32_t(c)) - std::begin(capitals)];
}

void appendDecomposed(std::vector<char32_t> &result, char32_t c, bool compatibility) {
  if (c < 0xa0)
    return result.push_back(c);
  if (const uint32_t syllable = c - firstSyllable; syllable < syllables) {
    result.push_back(leads + syllable / (vowelCount * tailCount));
    result.push_back(vowels + syllable / tailCount % vowelCount);
    if (syllable % tailCount)
      result.push_back(tails + syllable % tailCount);
    return;
  }
  const uint8_t ways = kindOf(c).decomposes;
  const bool compatible = compatibility && ways & 2;
  if (!compatible && !(ways & 1))
    return result.push_back(c);
  const uint32_t *key = std::lower_bound(std::begin(decompositions), std::end(decompositions), uint32_t(c) << 6);
  if (compatible && !(*key & 1)) // the canonical one comes first
    ++key;
  const char16_t *unit = units + places[key - std::begin(decompositions)], *end = unit + (*key >> 1 & 31);
  while (unit < end) {
    char32_t part = *unit++;
    if (part >> 10 == 0xd800 >> 10)
      part = 0x10000 + ((part & 0x3ff) << 10 | (*unit++ & 0x3ff));
    result.push_back(part);
  }
}

char32_t composedOf(char32_t first, char32_t second) {
  if (first - leads < leadCount && second - vowels < vowelCount)
    return firstSyllable + ((first - leads) * vowelCount + (second - vowels)) * tailCount;
  if (const uint32_t syllable = first - firstSyllable;
      syllable < syllables && syllable % tailCount == 0 && second > tails && second < tails + tailCount)
    return first + (second - tails);
  size_t low = 0, high = std::size(composites) / 3; // rows of two characters and what they make
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const uint32_t *row = composites + 3 * middle;
    if (row[0] == first && row[1] == second)
      return row[2];
    if (row[0] < first || (row[0] == first && row[1] < second))
      low = middle + 1;
    else
      high = middle;
  }
  return 0;
}

// The rules GB1 to GB13 of Unicode's annex 29.
bool Graphemes::beginsWith(char32_t c) {
  const uint8_t now = kindOf(c).boundary, last = before;
  const auto isControl = [](uint8_t boundary) { return boundary >= Return && boundary <= Control; };
  bool together = false;
  if (last == Return && now == Feed)
    together = true;
  else if (last == Start || isControl(last) || isControl(now))
    together = false;
  else
    together = (last == Lead && (now == Lead || now == Vowel || now == LeadVowel || now == LeadVowelTail)) ||
               ((last == LeadVowel || last == Vowel) && (now == Vowel || now == Tail)) ||
               ((last == LeadVowelTail || last == Tail) && now == Tail) || now == Extend || now == Joiner ||
               now == SpacingMark || last == Prepend || (emoji == Joined && now == Pictographic) ||
               (oddFlags && now == Region);
  emoji = now == Pictographic                   ? Pictogram
          : emoji == Pictogram && now == Extend ? Pictogram
          : emoji == Pictogram && now == Joiner ? Joined
                                                : None;
  oddFlags = now == Region && !oddFlags;
  before = now;
  return !together;
}

} // namespace quern::runtime::unicode15
