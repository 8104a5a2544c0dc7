// Attention and its gradient as sums, each stored: what a device computes where no family keeps the scores to itself.
#ifndef QUERN_CODEGEN_HALIDE_GPU_GENERALATTENTION_H
#define QUERN_CODEGEN_HALIDE_GPU_GENERALATTENTION_H

#include "codegen/halide/KernelBuilder.h"

namespace quern::codegen {

/// Takes the nodes of attentions and of their gradients.
void takeGeneralAttention(KernelBuilder &builder);

class GeneralAttention {
public:
  /// `node`: an attention, a statistic of one or a sum of its gradient (KernelGraph.h); what it is computed from is
  /// defined.
  GeneralAttention(KernelBuilder &builder, int node);
  /// Gives the node its value.
  void define();

private:
  void storeScores();
  void defineWeightedSum();
  void defineDistanceSum();
  Expr withSinks(const Expr &first, const Index &at, const std::function<Expr(const Expr &, const Expr &)> &add) const;

  KernelBuilder &b;
  int i;
  const Node &node;
  int score; ///< or the weights of a gradient
};

} // namespace quern::codegen
#endif
