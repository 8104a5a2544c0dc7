// Words of four bytes out of buffers of bytes. Halide knows no read in another type than a buffer's, and of bytes that stand four
// apart LLVM puts vectors together by shuffles.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_WHOLEWORDS_H
#define QUERN_CODEGEN_HALIDE_LOWERED_WHOLEWORDS_H

#include <Halide.h>

namespace quern::codegen {

/// The word (u32) of a column where each column has four bytes of a row: `byte` reads the row's byte at `column`, the word stands
/// at four times that. Nothing but a mark until `readWholeWords`.
Halide::Expr wholeWord(const Halide::Expr &byte, const Halide::Expr &column);

/// Makes these words one read, of a vector of neighbouring columns, in what the pipeline becomes.
void readWholeWords(Halide::Pipeline &pipeline);

} // namespace quern::codegen
#endif
