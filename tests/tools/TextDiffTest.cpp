// Which lines of two dumps belong together.
#include "tools/inspect/TextDiff.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

using namespace quern::tools;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

TEST(TextDiff, NumbersOfValuesDoNotCount) {
  EXPECT_EQ(unifiedDiff("%0 = a\n%1 = b %0\n", "%7 = a\n%8 = b %7\n", "x", "y", false), "");
}

TEST(TextDiff, NewLineAndItsNeighbours) {
  EXPECT_EQ(unifiedDiff("%0 = a\n%1 = c %0\n", "%0 = a\n%1 = b %0\n%2 = c %0\n", "x", "y", false, 1),
            "--- x\n+++ y\n@@ -1,2 +1,3 @@\n %0 = a\n+%1 = b %0\n %2 = c %0\n");
}

TEST(TextDiff, OtherOperandsAreAChange) {
  std::string diff = unifiedDiff("%0 = a\n%1 = b\n%2 = c %0\n", "%0 = a\n%1 = b\n%2 = c %1\n", "x", "y", false, 0);
  EXPECT_THAT(diff, HasSubstr("-%2 = c %0\n+%2 = c %1\n"));
  EXPECT_THAT(diff, Not(HasSubstr("= b")));
}

TEST(TextDiff, EveryLineOnceAndInOrder) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> sides[2];
    for (auto &side : sides)
      for (int i = random() % 30; i > 0; --i)
        side.push_back(std::string(1, static_cast<char>('a' + random() % 6)) + " %" + std::to_string(random() % 9));
    int next[2] = {0, 0};
    for (auto [x, y] : alignLines(sides[0], sides[1])) {
      if (x >= 0) {
        ASSERT_EQ(x, next[0]++);
      }
      if (y >= 0) {
        ASSERT_EQ(y, next[1]++);
      }
      if (x >= 0 && y >= 0) {
        ASSERT_EQ(sides[0][x][0], sides[1][y][0]);
      }
    }
    ASSERT_EQ(next[0], static_cast<int>(sides[0].size()));
    ASSERT_EQ(next[1], static_cast<int>(sides[1].size()));
  }
}

size_t pairsOf(const std::vector<std::string> &a, const std::vector<std::string> &b) {
  std::vector<std::pair<int, int>> aligned = alignLines(a, b);
  return static_cast<size_t>(
      std::count_if(aligned.begin(), aligned.end(), [](auto pair) { return pair.first >= 0 && pair.second >= 0; }));
}

/// A table of all pairs would be 320 million numbers.
TEST(TextDiff, TenThousandsOfLinesBetweenAnchors) {
  std::vector<std::string> a, b;
  for (int i = 0; i < 20000; ++i) {
    a.push_back("line " + std::to_string(i));
    if (i % 7)
      b.push_back(i % 11 ? a.back() : "other " + std::to_string(i));
  }
  EXPECT_EQ(pairsOf(a, b),
            static_cast<size_t>(std::count_if(b.begin(), b.end(), [](const std::string &l) { return l[0] == 'l'; })));
}

/// Where nothing is an anchor, a table of all pairs is made of small gaps alone.
TEST(TextDiff, ALargeGapWithoutAnchorsIsNotSearched) {
  auto gap = [](const std::string &ends, size_t lines) {
    std::vector<std::string> text(lines, "same");
    text.insert(text.begin(), "first of " + ends);
    text.push_back("last of " + ends);
    return text;
  };
  EXPECT_EQ(pairsOf(gap("a", 1000), gap("b", 1000)), 1000u);
  EXPECT_EQ(pairsOf(gap("a", 3000), gap("b", 3000)), 0u);
}

} // namespace
