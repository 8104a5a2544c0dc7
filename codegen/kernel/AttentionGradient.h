// Attention's gradient: sums over keys (or queries) of values weighted by an expression of scores, none of which is
// stored; and sums of such an expression along diagonals, for what is learned for each distance.
#ifndef QUERN_CODEGEN_KERNEL_ATTENTIONGRADIENT_H
#define QUERN_CODEGEN_KERNEL_ATTENTIONGRADIENT_H

#include "codegen/halide/attention/AttentionRows.h"

namespace quern::codegen {

/// node = sum over `frame.key` of weights * value; along diagonals there is no value (-1).
struct GradientSum {
  int node = 0, weights = 0, value = 0;
  Dim column; ///< the dimension that only the value has
};

/// A sum of weights along diagonals: what lies at key, query goes to position first + sign (key - query).
struct GradientDiagonals {
  int positions = 0, sign = 1;
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

std::optional<GradientPattern> findAttentionGradient(const KernelGraph &graph);

/// Reads off the weights which `frame.key` a row can need, where all of them say the same (AttentionBounds.cpp).
void findGradientBounds(const KernelGraph &graph, GradientPattern &pattern);

class AttentionGradientFamily : AttentionRows {
public:
  AttentionGradientFamily(KernelBuilder &builder, GradientPattern pattern);
  /// Defines the values of all sums; all they are computed from but what is inside is defined by now.
  void define();

private:
  void makeWeights();
  /// Where copies of rows, copies of what they meet and the weights of a block are made.
  void scheduleWeights(const Halide::LoopLevel &ofRows, const Halide::LoopLevel &ofOthers,
                       const Halide::LoopLevel &ofBlock);
  void makeSums();
  void schedule(Func &out, bool direct);
  // Along diagonals (AttentionDiagonals.cpp)
  void defineDiagonals();
  void makeDiagonals();
  void scheduleDiagonals(Func &out);
  Func copyOfOther(int node, const std::vector<Dim> &own, const std::string &what);
  int64_t mostColumns() const;

  GradientPattern g;
  Func weights, totals, gathered, pieces;
  std::vector<Func> queries, dots, rowValues, sums;
  std::map<std::pair<int, std::string>, Func> copies; ///< of what is summed over, side by side; by its own dimensions
  std::vector<std::vector<RVar>> depths;
  RVar overParts, overBlocks, overPiece, pieceRow, pieceKey, pieceGroup;
};

} // namespace quern::codegen
#endif
