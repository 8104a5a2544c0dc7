// How a kernel's weights are laid out.
#ifndef QUERN_PASSES_FUSE_PACKWEIGHTS_H
#define QUERN_PASSES_FUSE_PACKWEIGHTS_H

#include "passes/Passes.h"
#include "passes/fuse/KernelBody.h"

namespace quern::passes {

/// Weights of contractions are read in tiles of rows: [stacked ..., O, I] with I contracted. `codedAlone`: all others change,
/// and are read as they are stored.
void packWeights(KernelBody &body, const PackingRule &tileFor, const Without &without, bool codedAlone);

} // namespace quern::passes
#endif
