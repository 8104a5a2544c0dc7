// Globs, near names, UTF-8, JSON with limits, text for terminals.
#include "support/Error.h"
#include "support/Files.h"
#include "support/Glob.h"
#include "support/Html.h"
#include "support/Json.h"
#include "support/Nearest.h"
#include "support/Utf8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace quern::support;
using ::testing::HasSubstr;

namespace {

TEST(Glob, SetsAndStars) {
  EXPECT_TRUE(matchGlob("*.attn.bias", "h.0.attn.bias"));
  EXPECT_FALSE(matchGlob("*.attn.bias", "h.0.attn.biases"));
  EXPECT_TRUE(matchGlob("h.[0-9].w[abc]", "h.7.wb"));
  EXPECT_FALSE(matchGlob("h.[0-9].w[abc]", "h.7.wd"));
  EXPECT_TRUE(matchGlob("a?c[0-9][!x]", "abc5y"));
  EXPECT_FALSE(matchGlob("a?c[0-9][!x]", "abc5x"));
  EXPECT_TRUE(matchGlob("a[b", "a[b"));
  EXPECT_TRUE(matchGlob("*", ""));
  EXPECT_FALSE(matchGlob("?", ""));
  EXPECT_FALSE(matchGlob(std::string(40, '*') + "b", std::string(5000, 'a')));
}

TEST(Glob, ListsOfNames) {
  EXPECT_TRUE(listsName("gpt2", "gpt2"));
  EXPECT_TRUE(listsName("gpt2 bloom  mpt", "gpt2"));
  EXPECT_TRUE(listsName("gpt2 bloom  mpt", "mpt"));
  EXPECT_TRUE(listsName("mamba2 mamba", "mamba")) << "behind one that begins with it";
  EXPECT_FALSE(listsName("gpt2 bloom  mpt", "gpt"));
  EXPECT_FALSE(listsName("gpt2 bloom  mpt", "pt2"));
  EXPECT_FALSE(listsName("gpt2 bloom  mpt", "gpt2 bloom")) << "no name";
  EXPECT_FALSE(listsName("gpt2 bloom  mpt", ""));
  EXPECT_FALSE(listsName("", "gpt2"));
}

TEST(Nearest, CountsSwapsAsOne) {
  EXPECT_EQ(editDistance("compile", "compile"), 0u);
  EXPECT_EQ(editDistance("complie", "compile"), 1u);
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(nearest("complie", {"check", "compile"}), "compile");
  EXPECT_EQ(nearest("zzz", {"check", "compile"}), "");
  EXPECT_EQ(didYouMean("chek", {"check"}), "; did you mean 'check'?");
}

TEST(Utf8, BrokenAndCut) {
  EXPECT_TRUE(isValidUtf8("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"));
  for (const char *bad : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xff"})
    EXPECT_FALSE(isValidUtf8(bad)) << bad;
  bool broken = true;
  EXPECT_EQ(validPrefix("ab\xe2\x82", broken), 2u);
  EXPECT_FALSE(broken) << "it may go on";
  EXPECT_EQ(validPrefix("ab\xff", broken), 2u);
  EXPECT_TRUE(broken);
  EXPECT_EQ(repairUtf8("a\xe2\x82z\xff"), "a\xef\xbf\xbdz\xef\xbf\xbd");
  EXPECT_EQ(utf8Count("\xc3\xa4z"), 2u);
}

TEST(Printable, NothingReachesTheTerminalsControls) {
  EXPECT_EQ(printable("a\033[31m\x07z"), "a\\x1b[31m\\x07z");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "the control of Latin-1 that begins a sequence";
  EXPECT_EQ(printable("\x9bz"), "\\x9bz") << "no UTF-8";
  EXPECT_EQ(printable("\xc3\xa4"), "\xc3\xa4");
  EXPECT_EQ(printableLines("a\n\033\tz\n"), "a\n\\x1b\tz\n");
  EXPECT_EQ(quote(std::string(200, 'a')), "'" + std::string(120, 'a') + "...'");
  std::string umlauts = "a";
  for (int i = 0; i < 100; ++i)
    umlauts += "\xc3\xa4";
  EXPECT_TRUE(isValidUtf8(quote(umlauts))) << "cut inside of a character";
}

std::string failure(std::string_view text) {
  try {
    parseJson(text, "x.json");
    return "";
  } catch (const UserError &error) {
    return error.what();
  }
}

TEST(Json, SaysWhereAndWhy) {
  EXPECT_EQ(parseJson("{\"a\": [1, 2]}", "x.json")["a"][1], 2);
  EXPECT_THAT(failure("{\"a\": 1,\n  b}"), HasSubstr("x.json is no valid JSON at line 2, column 3: invalid literal"));
  EXPECT_THAT(failure(""), HasSubstr("line 1, column 1: unexpected end of input"));
  EXPECT_THAT(failure("1e999"), HasSubstr("x.json is no valid JSON"));
  for (const char *text : {"{", "{\"a\"", "1e999", "nul", "\"\\u12\""})
    EXPECT_THAT(failure(text), ::testing::Not(HasSubstr("json.exception"))) << text;
}

TEST(Json, HasLimits) {
  EXPECT_EQ(failure(std::string(100, '[') + std::string(100, ']')), "");
  EXPECT_THAT(failure(std::string(30'000, '[') + std::string(30'000, ']')), HasSubstr("more than 100 levels"));
  EXPECT_THAT(failure(std::string("{} \0 more", 9)), HasSubstr("zero"));
  EXPECT_EQ(failure("{\"" + std::string(500, '[') + "\\\"[\": 1}"), "") << "brackets in a string";
}

TEST(Files, AnEndlessDeviceIsTooLong) {
  try {
    readFile("/dev/zero", 1'000'000);
    FAIL();
  } catch (const UserError &error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/zero is longer than 1.0 MB"));
  }
  EXPECT_THROW(readFile("/dev/zero"), UserError) << "what may be long as a file";
  EXPECT_THROW(readFile("/"), UserError);
}

} // namespace

TEST(Html, TextStaysText) {
  EXPECT_EQ(quern::support::htmlText("a < b && \"c\" > 'd'"), "a &lt; b &amp;&amp; &quot;c&quot; &gt; 'd'");
  EXPECT_EQ(quern::support::htmlText(""), "");
}
