// Takes: a page of characters. Gives: their traits; and normal form C, which most text needs no more than a look for.
#include "runtime/tokenizer/text/Traits.h"

#include "runtime/tokenizer/text/Categories.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/unicode/Unicode15.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

namespace quern::runtime {

std::atomic<const uint8_t *> TraitPages::pages[0x1100];

namespace {

uint8_t wordTraits(char32_t c) {
  if (isWhiteSpace(c))
    return c == '\r' || c == '\n' ? Space | Line : Space;
  const Category category = categoryOf(c);
  return category == Lu || category == Lt ? Upper
         : category == Ll                 ? Lower
         : isLetter(category)             ? Upper | Lower
         : isMark(category)               ? Mark
         : isNumeric(category)            ? Number
                                          : 0;
}

/// The characters that join with one before them, in Unicode 15; Hangul's, which do so by a rule, come last.
constexpr std::pair<char32_t, char32_t> joining[] = {
    {0x300, 0x304},     {0x306, 0x30c},     {0x30f, 0x30f},     {0x311, 0x311},     {0x313, 0x314},
    {0x31b, 0x31b},     {0x323, 0x328},     {0x32d, 0x32e},     {0x330, 0x331},     {0x338, 0x338},
    {0x342, 0x342},     {0x345, 0x345},     {0x653, 0x655},     {0x93c, 0x93c},     {0x9be, 0x9be},
    {0x9d7, 0x9d7},     {0xb3e, 0xb3e},     {0xb56, 0xb57},     {0xbbe, 0xbbe},     {0xbd7, 0xbd7},
    {0xc56, 0xc56},     {0xcc2, 0xcc2},     {0xcd5, 0xcd6},     {0xd3e, 0xd3e},     {0xd57, 0xd57},
    {0xdca, 0xdca},     {0xdcf, 0xdcf},     {0xddf, 0xddf},     {0x102e, 0x102e},   {0x1b35, 0x1b35},
    {0x3099, 0x309a},   {0x110ba, 0x110ba}, {0x11127, 0x11127}, {0x1133e, 0x1133e}, {0x11357, 0x11357},
    {0x114b0, 0x114b0}, {0x114ba, 0x114ba}, {0x114bd, 0x114bd}, {0x115af, 0x115af}, {0x11930, 0x11930},
    {0x1161, 0x1175},   {0x11a8, 0x11c2}};

/// Inert or, for a mark that only its order among other marks concerns, Alone.
uint8_t normalTraits(char32_t c) {
  if (c < 0x300)
    return Inert;
  const bool joins = std::any_of(std::begin(joining), std::end(joining),
                                 [&](auto &some) { return c >= some.first && c <= some.second; });
  if (joins || (c >= 0xd800 && c <= 0xdfff) || compose(decompose({c}, false)) != std::vector<char32_t>{c})
    return 0;
  return unicode15::kindOf(c).combiningClass == 0 ? Inert : Alone;
}

} // namespace

const uint8_t *TraitPages::make(size_t page) {
  auto *made = new uint8_t[256];
  for (size_t i = 0; i < 256; ++i) {
    const auto c = char32_t(page << 8 | i);
    made[i] = uint8_t(wordTraits(c) | normalTraits(c));
  }
  const uint8_t *known = nullptr;
  if (pages[page].compare_exchange_strong(known, made, std::memory_order_acq_rel))
    return made;
  delete[] made; // another thread was faster
  return known;
}

std::string composed(std::string text) {
  std::string result;
  size_t done = 0, before = 0; // `before`: where the character before begins
  for (size_t at = 0; at < text.size();) {
    if (uint64_t eight; text.size() - at >= sizeof eight) { // most text is ASCII
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if (!(eight & 0x8080808080808080u)) {
        at += sizeof eight;
        before = at - 1;
        continue;
      }
    }
    const size_t begin = at;
    const uint8_t first = nextTraits(text, at);
    if (first & Inert) {
      before = begin;
      continue;
    }
    const size_t one = at;
    for (size_t further = at; further < text.size() && !(nextTraits(text, further) & Inert);)
      at = further;
    if (at == one && first & Alone) // nothing to be put in order
      continue;
    const size_t from = std::max(done, before);
    result.append(text, done, from - done);
    result += toUtf8(compose(decompose(toChars(std::string_view(text).substr(from, at - from)), false)));
    done = before = at;
  }
  if (done == 0)
    return text;
  return result.append(text, done);
}

} // namespace quern::runtime
