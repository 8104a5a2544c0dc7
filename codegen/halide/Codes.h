// Numbers in codes of few bits, as a packed argument holds them (support/CodedGroups.h).
#ifndef QUERN_CODEGEN_HALIDE_CODES_H
#define QUERN_CODEGEN_HALIDE_CODES_H

#include "codegen/kernel/KernelGraph.h"

#include <Halide.h>

namespace quern::codegen {

/// Where a number is along the depth: which code of which step of which group.
struct CodePlace {
  Halide::Expr code, step, group;
};
CodePlace codePlace(int bits, const Halide::Expr &position);
Halide::Expr positionOf(int bits, const CodePlace &place);

// `args`: of the buffer, the column within its tile first; what they say of the second dimension is ignored.

/// What a number's code, and its group's scale, are as reals.
Halide::Expr codeAt(const Halide::ImageParam &buffer, int bits, const std::vector<Halide::Expr> &args,
                    const CodePlace &place);
Halide::Expr scaleAt(const Halide::ImageParam &buffer, int bits, std::vector<Halide::Expr> args,
                     const CodePlace &place);

/// As a byte without a sign, code + 2^(bits - 1): `four`: which four codes of a group, 0 to 7; `part`: which of them.
Halide::Expr unsignedCodeAt(const Halide::ImageParam &buffer, int bits, const std::vector<Halide::Expr> &args,
                            const Halide::Expr &ofGroup, const Halide::Expr &four, const Halide::Expr &part);

} // namespace quern::codegen
#endif
