// Names of the lengths that rings of caches have: "past.256" is min(past, 256), the rows of a ring of 256 that are
// filled; "cap.256" is how many rows the memory of such a ring has room for, the new rows of one call included.
#ifndef QUERN_IR_ANALYSIS_WINDOW_H
#define QUERN_IR_ANALYSIS_WINDOW_H

#include "ir/Size.h"

#include <charconv>

namespace quern::ir {

inline Size filledSlots(int64_t window) {
  return Size::symbol("past." + std::to_string(window));
}
inline Size ringCapacity(int64_t window) {
  return Size::symbol("cap." + std::to_string(window));
}

/// 256 of "past.256"; nothing for any other symbol.
inline std::optional<int64_t> windowOf(std::string_view symbol, std::string_view stem = "past.") {
  int64_t window = 0;
  if (!symbol.starts_with(stem))
    return std::nullopt;
  const char *begin = symbol.data() + stem.size(), *end = symbol.data() + symbol.size();
  return std::from_chars(begin, end, window).ptr == end && begin != end ? std::optional(window) : std::nullopt;
}

/// The window of a length that counts a ring's rows ("T + past.256") or its capacity ("cap.256").
inline std::optional<int64_t> windowOf(const Size &size) {
  for (const std::string &symbol : size.symbols())
    for (std::string_view stem : {"past.", "cap."})
      if (std::optional<int64_t> window = windowOf(symbol, stem))
        return window;
  return std::nullopt;
}

} // namespace quern::ir
#endif
