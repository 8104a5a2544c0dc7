// Lines of memory asked for while a tile's sums are made: those that the tile will be stored to, and columns of a later task.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_ASKBESIDESUMS_H
#define QUERN_CODEGEN_HALIDE_LOWERED_ASKBESIDESUMS_H

#include <Halide.h>

#include <string>
#include <vector>

namespace quern::codegen {

/// Sums of a tile in registers, in a loop over tiles of rows (`rt`, PackedContraction.cpp).
struct SumsOfTile {
  std::string func;
  std::string columns; ///< the buffer that its update reads columns from, as they are stored
  int tasks;           ///< after how many tasks the same thread is likely to take one
};

/// Adds requests to the outermost loop of each update, a few in each iteration. Lines behind a buffer's end are asked for, too: that
/// never fails. Results that are not rows at equal distances, and columns that an iteration does not read a fixed number of bytes
/// of, are not asked for.
void askBesideSums(Halide::Pipeline &pipeline, const std::vector<SumsOfTile> &sums);

} // namespace quern::codegen
#endif
