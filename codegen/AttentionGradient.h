// Attention's gradient: sums over keys (or queries) of values weighted by an expression of scores, none of which is stored.
#ifndef QUERN_CODEGEN_ATTENTIONGRADIENT_H
#define QUERN_CODEGEN_ATTENTIONGRADIENT_H

#include "codegen/AttentionRows.h"

namespace quern::codegen {

/// node = sum over `frame.key` of weights * value.
struct GradientSum {
  int node = 0, weights = 0, value = 0;
  Dim column; ///< the dimension that only the value has
};

/// All sums of a kernel: over the same dimension, with weights that are elementwise expressions of the same products.
struct GradientPattern {
  std::vector<GradientSum> sums;
  /// As in attention: `key` is what is summed over and `query` what is kept, which may be queries or keys.
  AttentionPattern frame;
  std::vector<int> perRow; ///< values of rows alone that the weights read: statistics of a softmax
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
  void makeSums();
  void schedule(Func &out, bool direct);
  Func copyOfOther(int node, const std::vector<Dim> &own, const std::string &what);
  int64_t mostColumns() const;

  GradientPattern g;
  Func weights, totals, gathered;
  std::vector<Func> queries, dots, rowValues, sums;
  std::map<std::pair<int, std::string>, Func> copies; ///< of what is summed over, side by side; by its own dimensions
  std::vector<std::vector<RVar>> depths;
  RVar overParts;
};

} // namespace quern::codegen
#endif
