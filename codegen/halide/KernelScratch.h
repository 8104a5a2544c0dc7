// What a kernel asks the runtime for while it runs.
#ifndef QUERN_CODEGEN_HALIDE_KERNELSCRATCH_H
#define QUERN_CODEGEN_HALIDE_KERNELSCRATCH_H

#include "codegen/kernel/Scratch.h"

namespace Halide::Internal {
struct Stmt;
}

namespace quern::codegen {

/// Of a lowered kernel. Blocks whose sizes are data are left out: the runtime takes memory for them as they come.
Scratch scratchOf(const Halide::Internal::Stmt &kernel, const std::vector<std::string> &symbols);

} // namespace quern::codegen
#endif
