// Numbers in codes of few bits, as a packed argument holds them (support/CodedGroups.h).
#ifndef QUERN_CODEGEN_HALIDE_CODES_H
#define QUERN_CODEGEN_HALIDE_CODES_H

#include "codegen/kernel/KernelGraph.h"

#include <Halide.h>

namespace quern::codegen {

/// Where a number is along the depth: which code of which word of which group.
struct CodePlace {
  Halide::Expr code, word, group;
};
CodePlace codePlace(int bits, const Halide::Expr &position);
Halide::Expr positionOf(int bits, const CodePlace &place);

/// Four codes of one group as bytes without a sign: code + 2^(bits - 1). `step`: which four; `part`: which of them, 0 to 3.
Halide::Expr unsignedCodeAt(const Halide::ImageParam &buffer, int bits, std::vector<Halide::Expr> args,
                            const Halide::Expr &group, const Halide::Expr &step, const Halide::Expr &part);

/// What a number's code, and its group's scale, are as reals. `args`: of the buffer, whose second dimension is words; what
/// they say of that is ignored.
Halide::Expr codeAt(const Halide::ImageParam &buffer, int bits, std::vector<Halide::Expr> args, const CodePlace &place);
Halide::Expr scaleAt(const Halide::ImageParam &buffer, int bits, std::vector<Halide::Expr> args,
                     const CodePlace &place);

} // namespace quern::codegen
#endif
