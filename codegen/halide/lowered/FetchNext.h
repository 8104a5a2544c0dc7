// The strip of columns that a loop will copy next, asked for from memory while rows are multiplied with the one it has.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_FETCHNEXT_H
#define QUERN_CODEGEN_HALIDE_LOWERED_FETCHNEXT_H

#include <Halide.h>

#include <string>
#include <vector>

namespace quern::codegen {

/// A copy of tiles of columns over a part of the depth. Loops around it are named as DenseContraction.cpp does.
struct FetchedNext {
  std::string strip;    ///< the copy's Func, whose loop over tiles is `tile`
  std::string depth;    ///< its loop over the dimension that the products sum over
  int inStep;           ///< numbers of the depth in a step of that loop
  int columns;          ///< of a tile
  std::string beside;   ///< how the name of the loop ends that goes from tile to tile of the products
  std::string buffer{}; ///< what it copies
};

/// Adds requests for lines of the next part of the depth, or else of the next task's first: a share of them before each tile of
/// rows. Lines behind the buffer's end are asked for, too: that never fails. A strip that is not read line by line stays as it is.
void fetchNext(Halide::Pipeline &pipeline, const std::vector<FetchedNext> &strips);

} // namespace quern::codegen
#endif
