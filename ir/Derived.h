// Lengths that follow from others: symbols of sizes (ir/Size.h) with parts of their own. They have a class and a grammar, so
// that nobody looks into names for them:
//
//   chunk(256, B * T)    the rows of this iteration of a loop over chunks (ir/Chunk.h): at most 256
//   filled(256)          the slots of a ring that are filled: min(past, 256)
//   room(256)            how many rows the memory of such a ring has room for, the new rows of one call included
//   min(8, 2 * B * T)    in costs alone, never in sizes of values (ir/analysis/Least.h)
#ifndef QUERN_IR_DERIVED_H
#define QUERN_IR_DERIVED_H

#include "ir/Size.h"

namespace quern::ir {

struct Derived {
  enum class Form { Chunk, Filled, Room, Min };
  Form form;
  int64_t number; ///< rows, positions, or what is at least
  Size of{};      ///< all rows of chunks, the other side of a minimum

  /// As a size of this one symbol.
  Size size() const;
  /// The inverse, of a symbol as Size::symbols gives them; nothing for a plain name.
  static std::optional<Derived> read(std::string_view symbol);
  /// The same of a form.
  static std::optional<Derived> read(std::string_view symbol, Form form);
};

} // namespace quern::ir
#endif
