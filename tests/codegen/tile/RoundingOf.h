// What a tile program says of its arithmetic, for the loops that tests compare it with.
#ifndef QUERN_TESTS_CODEGEN_TILE_ROUNDINGOF_H
#define QUERN_TESTS_CODEGEN_TILE_ROUNDINGOF_H

#include "codegen/tile/Program.h"
#include "tests/codegen/support/Reference.h"

#include <algorithm>

namespace quern::codegen::tile {

/// Whether a variant may run at these lengths.
inline bool fits(const Variant &variant, const Lengths &lengths) {
  auto length = [&](const std::string &name) { return lengths.at(name); };
  return !variant.mostRows || variant.rows.evaluate(length) <= variant.mostRows;
}

/// Of an attention in one piece; three hold all bits of f32, so nothing is rounded. Parts are those of blocks that see all keys.
inline Rounding roundingOf(const Variant &variant) {
  for (const Stage &stage : variant.stages)
    if (stage.form == Stage::Form::Attend && stage.attend.totals[0].pieces < 3)
      return {stage.attend.totals[0].pieces, stage.attend.keysTogether, std::max(1, stage.attend.split)};
  return {};
}

} // namespace quern::codegen::tile
#endif
