// Loops that are written out only when Halide has lowered all else. Each of its passes simplifies every statement once more, so
// what stands there once instead of thirty times costs a fraction: a layer in five bits compiled for half a minute.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_UNROLLLAST_H
#define QUERN_CODEGEN_HALIDE_LOWERED_UNROLLLAST_H

#include <Halide.h>

#include <string>
#include <vector>

namespace quern::codegen {

/// `loops`: their names in what Halide lowers, FUNC.s1.VARIABLE. The schedule leaves them serial, and their lengths are known.
void unrollLast(Halide::Pipeline &pipeline, std::vector<std::string> loops);

} // namespace quern::codegen
#endif
