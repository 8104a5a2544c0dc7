// Conditions that read memory: Halide asks them in the innermost loops, as it does not know what writes there.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_ASKFIRST_H
#define QUERN_CODEGEN_HALIDE_LOWERED_ASKFIRST_H

#include <Halide.h>

namespace quern::codegen {

/// Asks once, before a loop or an iteration, what all that these store in the end is stored under, and nothing that they store
/// changes. What they would make for nobody is then not made.
void askFirst(Halide::Pipeline &pipeline);

} // namespace quern::codegen
#endif
