// From a kernel's graph to its tile program.
#ifndef QUERN_CODEGEN_TILE_DIVIDE_H
#define QUERN_CODEGEN_TILE_DIVIDE_H

#include "codegen/tile/attend/DivideAttention.h"

namespace quern::codegen::tile {

/// The numbers of a plan.
struct Numbers {
  Cut cut;
  int split = 1;                        ///< parts of the depth where there are few rows
  int slice = 64;                       ///< columns of a block there
  int few = 8;                          ///< up to so many rows weights are read once; 0: tensor cores always
  int ahead = 8;                        ///< of these weights, steps that are fetched before the launch before has ended
  int groups = 0, wide = 256, ring = 4; ///< of asynchronous products: warp groups (0: none), columns, stages
  AttendNumbers attend{};
};

/// Why no tile program computes the kernel; nothing: `program` does.
std::optional<std::string> divide(const KernelGraph &graph, const Numbers &numbers, Program &program);

} // namespace quern::codegen::tile
#endif
