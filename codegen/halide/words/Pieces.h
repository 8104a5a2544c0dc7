// Numbers of f32 as sums of bf16, for AMX's registers (codegen/kernel/TileTerms.h).
#ifndef QUERN_CODEGEN_HALIDE_WORDS_PIECES_H
#define QUERN_CODEGEN_HALIDE_WORDS_PIECES_H

#include "codegen/kernel/TileTerms.h"

#include <Halide.h>

namespace quern::codegen {

/// `number`, which bf16 has, as that.
Halide::Expr asBF16(const Halide::Expr &number);
/// The bits of a number's piece. Of an infinity, as of NaN, not all are numbers.
Halide::Expr pieceOf(const Halide::Expr &number, const Halide::Expr &piece);
/// A word of two numbers' pieces, `first` in its low bits.
Halide::Expr wordOf(const Halide::Expr &first, const Halide::Expr &second, const Halide::Expr &piece);

/// Which piece a term takes of a row's number, and of a column's.
Halide::Expr rowPiece(const std::vector<TileTerm> &terms, const Halide::Expr &term);
Halide::Expr columnPiece(const std::vector<TileTerm> &terms, const Halide::Expr &term);

} // namespace quern::codegen
#endif
