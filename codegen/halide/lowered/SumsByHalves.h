// Sums of a vector's floats. LLVM adds the lanes one after the other, as nothing tells it that another order will do.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_SUMSBYHALVES_H
#define QUERN_CODEGEN_HALIDE_LOWERED_SUMSBYHALVES_H

#include <Halide.h>

namespace quern::codegen {

/// Adds a vector's halves until one number is left, in what the pipeline becomes: a rounding for each halving in a row, where
/// there is one for each lane.
void sumByHalves(Halide::Pipeline &pipeline);

} // namespace quern::codegen
#endif
