// The arithmetic of attention by tensor cores (docs/design/tile.md, Pieces), for the loops that kernels are compared with.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_ROUNDING_H
#define QUERN_TESTS_CODEGEN_SUPPORT_ROUNDING_H

#include <cstdint>
#include <vector>

namespace quern::codegen {

/// What a plan rounds beyond what its graph says: factors of products and weights are `pieces` numbers of bf16; 0: nothing is
/// rounded. A weight of a softmax is e^(score - largest so far), tile by tile of `keys`, which are divided among `parts` blocks.
struct Rounding {
  int pieces = 0;
  int64_t keys = 0, parts = 1;
  /// As the graph itself may say (ir/AttentionOps.td, narrow): a weight is 2^n e^score, and the softmax divides by the sum of what is
  /// rounded.
  bool ofGraph = false;
};

/// A number as so many of bf16; 0: as it is.
double inPieces(double x, int pieces);

/// How far apart are the numbers that a weight may become: kernels compute it in f32, whose last bits decide where it is nearly in
/// the middle of two, and no test says these bits.
double undecided(double weight, int pieces);

/// Of one row: the weighted sum, the largest score and 1 / the sum of weights; zeros where nothing is seen. `slack`: what undecided
/// weights can change of the value.
struct Attended {
  double value = 0, shift = 0, share = 0, slack = 0;
};
/// `sinks`: scores without a value.
Attended attend(const std::vector<double> &scores, const std::vector<double> &values, const std::vector<double> &sinks,
                const Rounding &rounding);

} // namespace quern::codegen
#endif
