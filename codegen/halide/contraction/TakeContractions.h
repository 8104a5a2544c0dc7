// Which family computes a contraction.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_TAKECONTRACTIONS_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_TAKECONTRACTIONS_H

#include "codegen/halide/KernelBuilder.h"

namespace quern::codegen {

/// Takes contractions (and gradients of routed weights). Each gets its value by the family that its pattern's form names: from
/// accumulators computed at the tile of the kernel's result where all between is elementwise, else from a stage of its own.
void takeContractions(KernelBuilder &builder);

} // namespace quern::codegen
#endif
