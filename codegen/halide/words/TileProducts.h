// Products by AMX's tile registers, which Halide 21 has no schedule for: a family writes plain loops over a product of its
// own name, and these loops are replaced once Halide has lowered the kernel.
#ifndef QUERN_CODEGEN_HALIDE_WORDS_TILEPRODUCTS_H
#define QUERN_CODEGEN_HALIDE_WORDS_TILEPRODUCTS_H

#include <Halide.h>

#include <string>
#include <vector>

namespace quern::codegen {

/// Rows of a tile, columns of four bytes; what a tile's row has of the depth.
inline constexpr int tileRows = 16, tileColumns = 16, tileBytes = 64;

/// The update of `sums(lane, row, ...)` by `tileProduct`, alone in serial loops over these two and the depth: `within`
/// is what four bytes hold, if there is a loop for it, `step` goes over four bytes at a time: whole steps of 64, where it is longer
/// than one or only the run knows it. Rows of numbers run along the depth, in each of these steps, columns are
/// [step][lane][within].
struct TileSums {
  Halide::Func sums;
  std::string lane, row, within, step; ///< names of loops
  std::string group{};                 ///< of several such sums beside each other along the depth
  std::string term{};                  ///< of the products of pieces that a product of f32 is, over whole steps
};

/// A row's number times a column's, both read from memory; `left`: rows from this one on. Of int8 the product is int32. Of bf16
/// it is f32: of numbers, or of words of two, where `step` is the only loop over the depth and numbers stand for their words.
/// `first`, `count`: of the steps of 64 bytes, those that are summed, where not all are; the others need not be there.
Halide::Expr tileProduct(const Halide::Expr &row, const Halide::Expr &column, const Halide::Expr &left,
                         const Halide::Expr &first = {}, const Halide::Expr &count = {});
/// A position among `count`, whose rows beyond are not read: tiles ask `left` first.
Halide::Expr tileRow(const Halide::Expr &position, const Halide::Expr &count);

/// Of so many sums along the depth, how many have registers of their own.
constexpr int groupsAtOnce(int sums) {
  return sums % 4 == 0 ? 4 : sums % 2 == 0 ? 2 : 1;
}

/// Replaces the loops of these updates in what the pipeline becomes.
void useTiles(Halide::Pipeline &pipeline, const std::vector<TileSums> &sums);

} // namespace quern::codegen
#endif
