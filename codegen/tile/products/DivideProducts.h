// From a kernel of products to its tile program.
#ifndef QUERN_CODEGEN_TILE_PRODUCTS_DIVIDEPRODUCTS_H
#define QUERN_CODEGEN_TILE_PRODUCTS_DIVIDEPRODUCTS_H

#include "codegen/tile/Program.h"

namespace quern::codegen::tile {

/// The numbers of a plan.
struct ProductNumbers {
  Cut cut;
  int split = 1;                        ///< parts of the depth where there are few rows
  int slice = 64;                       ///< columns of a block there
  int few = 8;                          ///< up to so many rows weights are read once; 0: tensor cores always
  int ahead = 8;                        ///< of these weights, steps that are fetched before the launch before has ended
  int groups = 0, wide = 256, ring = 4; ///< of asynchronous products: warp groups (0: none), columns, stages
  int some = 256;                       ///< and up to so many rows their depth is divided among blocks; 0: never
  bool exact = true; ///< a code times its scale is three numbers of bf16 beside one of bf16; else one
};

/// Adds to `program` what the kernel's products need. Throws Refusal for kernels that no tile program computes.
void divideProducts(const KernelGraph &graph, const ProductNumbers &numbers, Program &program);

} // namespace quern::codegen::tile
#endif
