// The tables of runtime/unicode beside utf8proc, which they are made of: every character, and texts at random.
#include "runtime/unicode/Unicode15.h"

#include <utf8proc.h>

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace quern::runtime::unicode15 {
namespace {

constexpr char32_t all = 0x110000;

TEST(Unicode15, PropertiesOfEveryCharacter) {
  for (char32_t c = 0; c < all; ++c) {
    const auto known = utf8proc_int32_t(c);
    const utf8proc_property_t *property = utf8proc_get_property(known);
    ASSERT_EQ(kindOf(c).category, utf8proc_category(known)) << std::hex << uint32_t(c);
    ASSERT_EQ(kindOf(c).combiningClass, property->combining_class) << std::hex << uint32_t(c);
    ASSERT_EQ(kindOf(c).boundary, property->boundclass) << std::hex << uint32_t(c);
    ASSERT_EQ(uint32_t(smallLetter(c)), uint32_t(utf8proc_tolower(known))) << std::hex << uint32_t(c);
  }
  EXPECT_EQ(kindOf(all).category, UTF8PROC_CATEGORY_CN);
  EXPECT_EQ(kindOf(0xffffffff).category, UTF8PROC_CATEGORY_CN);
}

TEST(Unicode15, DecompositionsOfEveryCharacter) {
  for (char32_t c = 0; c < all; ++c)
    for (bool compatibility : {false, true}) {
      utf8proc_int32_t parts[32];
      int last = 0;
      const auto options = utf8proc_option_t(UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
      const auto count = utf8proc_decompose_char(utf8proc_int32_t(c), parts, 32, options, &last);
      std::vector<char32_t> got;
      appendDecomposed(got, c, compatibility);
      ASSERT_EQ(got, std::vector<char32_t>(parts, parts + count)) << std::hex << uint32_t(c) << compatibility;
    }
}

/// What utf8proc makes of two characters; 0: they stay two. It takes U+11A7 for a consonant.
char32_t composedByUtf8proc(char32_t first, char32_t second) {
  utf8proc_int32_t pair[3] = {utf8proc_int32_t(first), utf8proc_int32_t(second), 0};
  const auto count = utf8proc_normalize_utf32(pair, 2, utf8proc_option_t(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  return count == 1 && second != 0x11a7 ? char32_t(pair[0]) : 0;
}

TEST(Unicode15, CompositionsOfAllThatHaveTwoParts) {
  std::vector<char32_t> firsts, seconds;
  int pairs = 0;
  for (char32_t c = 0; c < all; ++c) {
    std::vector<char32_t> parts;
    appendDecomposed(parts, c, false);
    if (parts.size() < 2)
      continue;
    const char32_t second = parts.back();
    const bool syllable = c >= 0xac00 && c <= 0xd7a3;
    char32_t first = parts[0];
    for (size_t i = 1; i + 1 < parts.size(); ++i)
      if (char32_t both = composedOf(first, parts[i]))
        first = both;
    ASSERT_EQ(uint32_t(composedOf(first, second)), uint32_t(composedByUtf8proc(first, second)))
        << std::hex << uint32_t(c);
    pairs += composedOf(first, second) == c;
    if (!syllable || c % 97 == 0)
      firsts.push_back(first), seconds.push_back(second);
  }
  EXPECT_GT(pairs, 11172 + 900);
  std::mt19937 random(3);
  for (int i = 0; i < 1000000; ++i) {
    const char32_t first = firsts[random() % firsts.size()], second = seconds[random() % seconds.size()];
    ASSERT_EQ(uint32_t(composedOf(first, second)), uint32_t(composedByUtf8proc(first, second)))
        << std::hex << uint32_t(first) << " " << uint32_t(second);
  }
}

TEST(Unicode15, GraphemesOfRandomTexts) {
  std::vector<std::vector<char32_t>> byBoundary(32);
  for (char32_t c = 0; c < all; ++c)
    byBoundary[kindOf(c).boundary].push_back(c);
  std::erase_if(byBoundary, [](const auto &some) { return some.empty(); });
  EXPECT_GT(byBoundary.size(), 14u);
  std::mt19937 random(5);
  for (int i = 0; i < 300000; ++i) {
    Graphemes graphemes;
    utf8proc_int32_t state = 0, before = -1;
    for (int at = 0; at < 8; ++at) {
      const auto &some = byBoundary[random() % byBoundary.size()];
      const char32_t c = some[random() % some.size()];
      const bool begins = graphemes.beginsWith(c);
      if (before >= 0)
        ASSERT_EQ(begins, bool(utf8proc_grapheme_break_stateful(before, utf8proc_int32_t(c), &state)))
            << std::hex << before << " " << uint32_t(c);
      else
        ASSERT_TRUE(begins);
      before = utf8proc_int32_t(c);
    }
  }
}

} // namespace
} // namespace quern::runtime::unicode15
