// Products of words that are two numbers of bf16 each, two products in an instruction (vdpbf16ps).
#ifndef QUERN_CODEGEN_HALIDE_WORDS_PAIRPRODUCTS_H
#define QUERN_CODEGEN_HALIDE_WORDS_PAIRPRODUCTS_H

#include <Halide.h>

namespace quern::codegen {

/// The sum of the products of two words' low halves and of their high ones, in f32. What no pass replaces does not link.
Halide::Expr pairProduct(const Halide::Expr &a, const Halide::Expr &b);

/// Replaces these in what the pipeline becomes.
void multiplyPairs(Halide::Pipeline &pipeline);

} // namespace quern::codegen
#endif
