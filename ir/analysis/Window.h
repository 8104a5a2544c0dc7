// The lengths that rings of caches have (ir/Derived.h): filled(256) slots, with room(256) rows.
#ifndef QUERN_IR_ANALYSIS_WINDOW_H
#define QUERN_IR_ANALYSIS_WINDOW_H

#include "ir/Derived.h"

namespace quern::ir {

inline Size filledSlots(int64_t window) {
  return Derived{Derived::Form::Filled, window}.size();
}
inline Size ringCapacity(int64_t window) {
  return Derived{Derived::Form::Room, window}.size();
}

/// 256 of filled(256), or of room(256) where that is asked for; nothing for any other symbol.
inline std::optional<int64_t> windowOf(std::string_view symbol, Derived::Form form = Derived::Form::Filled) {
  std::optional<Derived> length = Derived::read(symbol, form);
  return length ? std::optional(length->number) : std::nullopt;
}

/// The window of a length that counts a ring's rows (T + filled(256)) or its capacity (room(256)).
inline std::optional<int64_t> windowOf(const Size &size) {
  for (const std::string &symbol : size.symbols())
    for (Derived::Form form : {Derived::Form::Filled, Derived::Form::Room})
      if (std::optional<int64_t> window = windowOf(symbol, form))
        return window;
  return std::nullopt;
}

} // namespace quern::ir
#endif
