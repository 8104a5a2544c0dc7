// Numbers in codes of few bits, as a packed argument holds them (support/CodedGroups.h).
#ifndef QUERN_CODEGEN_HALIDE_CODES_H
#define QUERN_CODEGEN_HALIDE_CODES_H

#include "codegen/Targets.h"
#include "codegen/kernel/KernelGraph.h"

#include <Halide.h>

namespace quern::codegen {

/// Where a number is along the depth: which code of which step of which group.
struct CodePlace {
  Halide::Expr code, step, group;
};
CodePlace codePlace(Storage storage, const Halide::Expr &position);
Halide::Expr positionOf(Storage storage, const CodePlace &place);

/// A packed argument in codes; `args`: of its buffer, the column within its tile first; what they say of the second dimension
/// is ignored.
struct CodedColumns {
  const Halide::ImageParam &buffer;
  Storage storage;
  std::vector<Halide::Expr> args;
  const CpuTarget &target;
  bool areNeighbours = false; ///< lanes read columns that stand beside each other
};

/// What a number's code, and its group's scale and minimum, are as reals; without super-blocks there is no minimum.
Halide::Expr codeAt(const CodedColumns &columns, const CodePlace &place);
Halide::Expr scaleAt(const CodedColumns &columns, const CodePlace &place);
/// Both with a power of two between them, so that their product is the same: a code that comes uppermost in a word is a number with
/// its sign as soon as what stands below is taken away.
Halide::Expr raisedCodeAt(const CodedColumns &columns, const CodePlace &place);
Halide::Expr loweredScaleAt(const CodedColumns &columns, const CodePlace &place);
/// The same without a shift, for products that have the numbers of one row: a code as it stands in its word, `addedToStanding` more,
/// and what a row's number is multiplied by for the product to be the code's. The sum of a group is then so many times the row's too
/// large.
bool canStandInWords(const CodedColumns &columns);
int addedToStanding(Storage storage);
Halide::Expr standingCodeAt(const CodedColumns &columns, const CodePlace &place);
Halide::Expr factorOfStanding(Storage storage, const CodePlace &place);
Halide::Expr minimumAt(const CodedColumns &columns, const CodePlace &place);
/// Of super-blocks: what a group's scale, or minimum, counts, and how many of these it is.
Halide::Expr unitAt(const CodedColumns &columns, const Halide::Expr &group, bool minimum);
Halide::Expr countAt(const CodedColumns &columns, const Halide::Expr &group, bool minimum);
/// What they stand for.
Halide::Expr numberAt(const CodedColumns &columns, const CodePlace &place);

/// A code as a byte without a sign, `addedToCodes` more. `four`: which four codes of a group; `part`: which of them.
Halide::Expr unsignedCodeAt(const CodedColumns &columns, const Halide::Expr &group, const Halide::Expr &four,
                            const Halide::Expr &part);
int addedToCodes(Storage storage);

} // namespace quern::codegen
#endif
