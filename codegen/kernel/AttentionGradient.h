// Attention's gradient: sums over keys (or queries) of values weighted by an expression of scores, none of which is
// stored; and sums of such an expression along diagonals, for what is learned for each distance.
#ifndef QUERN_CODEGEN_KERNEL_ATTENTIONGRADIENT_H
#define QUERN_CODEGEN_KERNEL_ATTENTIONGRADIENT_H

#include "codegen/kernel/AttentionPattern.h"

namespace quern::codegen {

/// node = sum over `frame.key` of weights * value; along diagonals there is no value (-1).
struct GradientSum {
  int node = 0, weights = 0, value = 0;
  Dim column; ///< the dimension that only the value has
};

/// A sum of weights along diagonals: what is stored at key, query goes to position first + sign (key - query).
struct GradientDiagonals {
  ir::Size first;
  int sign = 1;
  Dim into;
};

/// All sums of a kernel: over the same dimension, with weights that are elementwise expressions of the same products.
struct GradientPattern {
  std::vector<GradientSum> sums;
  /// As in attention: `key` is what is summed over and `query` what is kept, which may be queries or keys.
  AttentionPattern frame;
  std::optional<GradientDiagonals> diagonals; ///< of the only sum
  std::vector<int> perRow;                    ///< values of rows alone that the weights read: statistics of a softmax
};

/// The sums of a kernel of attention's gradient; nothing if it is none. Throws std::logic_error for what no family can
/// compute.
std::optional<GradientPattern> readAttentionGradient(const KernelGraph &graph);

/// Reads off the weights which `frame.key` a row can need, where all of them say the same (AttentionBounds.cpp).
void findGradientBounds(const KernelGraph &graph, GradientPattern &pattern);

} // namespace quern::codegen
#endif
