// Takes: a text, or ranges of it. Gives: ranges that cover it, or those that become pieces. What runs for each character is here,
// apart from what reads tokenizer.json, which is compiled for size.
#include "runtime/tokenizer/text/Splits.h"

#include "runtime/tokenizer/text/Unicode.h"

#include <algorithm>

namespace quern::runtime {

using Range = Pattern::Range;

std::vector<Range> arrange(const std::vector<Range> &ranges, Behavior behavior) {
  std::vector<Range> result;
  bool previousMatch = false;
  switch (behavior) {
  case Behavior::Isolated:
    return ranges;
  case Behavior::Removed:
    for (const Range &range : ranges)
      if (!range.match)
        result.push_back(range);
    return result;
  case Behavior::Contiguous:
    for (const Range &range : ranges) {
      if (!result.empty() && result.back().match == range.match)
        result.back().end = range.end;
      else
        result.push_back(range);
    }
    return result;
  case Behavior::MergedWithPrevious:
    for (const Range &range : ranges) {
      if (range.match && !previousMatch && !result.empty())
        result.back().end = range.end;
      else
        result.push_back(range);
      previousMatch = range.match;
    }
    return result;
  case Behavior::MergedWithNext:
    for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
      if (range->match && !previousMatch && !result.empty())
        result.back().begin = range->begin;
      else
        result.push_back(*range);
      previousMatch = range->match;
    }
    std::reverse(result.begin(), result.end());
    return result;
  }
  return result;
}

std::vector<Range> splitByChar(std::string_view text, bool (*matches)(char32_t)) {
  std::vector<Range> ranges;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    bool match = matches(nextChar(text, at));
    if (!match && !ranges.empty() && !ranges.back().match)
      ranges.back().end = at;
    else
      ranges.push_back({begin, at, match});
  }
  return ranges;
}

std::vector<Range> splitWords(std::string_view text) {
  std::vector<Range> ranges;
  int previous = -1;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    char32_t c = nextChar(text, at);
    int kind = isWordCharacter(c) ? 0 : isWhiteSpace(c) ? 1 : 2;
    if (kind == previous)
      ranges.back().end = at;
    else
      ranges.push_back({begin, at, kind == 1}); // here the white space is what is removed
    previous = kind;
  }
  return ranges;
}

} // namespace quern::runtime
