// What a product's factors are in memory: whether tensor cores read them as they are, and how copies of whole boxes do.
#ifndef QUERN_CODEGEN_TILE_OPERANDS_H
#define QUERN_CODEGEN_TILE_OPERANDS_H

#include "codegen/tile/Program.h"

namespace quern::codegen::tile {

/// Whether a value differs from place to place of a coordinate.
bool depends(const Program &program, int value, Coordinate on);
/// Whether a number is one of bf16.
bool isExact(const Program &program, int value);
/// Whether it is a code times its scale.
bool isCode(const Program &program, int value);
/// Which pieces of the factors are multiplied.
struct Pairs {
  std::vector<int> x, w;
  int64_t count() const { return int64_t(x.size()); }
};
Pairs pairsOf(bool exactX, bool exactW);
/// What of a number is left after so many of bf16, rounded to one.
int pieceOf(Values &values, int value, int piece);
/// Whether memory runs along `own` (rows or columns) in all that a factor is computed from, and not along the depth.
bool runsAcross(const Program &program, int value, Coordinate own);
/// A factor as it is in memory. Nothing: it must be written first. `own`: its coordinate beside the depth. What must be
/// aligned is added to the variant.
std::optional<Operand> direct(const Program &program, int value, Coordinate own, Variant &variant);

/// Says of a stage's stores whether two columns are one (Store::pairs). What must be aligned is added to the variant.
void pairUp(const Program &program, Stage &stage, Variant &variant);

/// The values that number the dimensions of an axis, one for each.
struct Numbered {
  std::vector<Dim> dims;
  std::vector<int> values;
};

/// `own`: of rows or columns, of which a block has `tile`, by `deep` of the depth. What must hold when it runs is added to
/// `adjacent`. Nothing: an element's address is no sum of one term for each of rows or columns, depth and matrix, or lines have
/// no width that can be swizzled.
std::optional<Tensor> tensorOf(Program &program, const Operand &operand, const Numbered &own, const Numbered &depth,
                               int tile, int deep, std::vector<Variant::Adjacent> &adjacent);

} // namespace quern::codegen::tile
#endif
