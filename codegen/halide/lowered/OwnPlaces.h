// Arrays on the stack that LLVM can keep in registers.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_OWNPLACES_H
#define QUERN_CODEGEN_HALIDE_LOWERED_OWNPLACES_H

#include <Halide.h>

namespace quern::codegen {

/// Gives each array that is read and written at known places alone a place that it shares only with such arrays.
void giveOwnPlaces(Halide::Pipeline &pipeline);

} // namespace quern::codegen
#endif
