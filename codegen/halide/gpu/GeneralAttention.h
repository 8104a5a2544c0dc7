// Attention as sums, each stored: what a device computes where no family keeps the scores to itself.
#ifndef QUERN_CODEGEN_HALIDE_GPU_GENERALATTENTION_H
#define QUERN_CODEGEN_HALIDE_GPU_GENERALATTENTION_H

#include "codegen/halide/KernelBuilder.h"

namespace quern::codegen {

class GeneralAttention {
public:
  /// `node`: an attention, or a statistic of one (KernelGraph.h); what it is computed from is defined.
  GeneralAttention(KernelBuilder &builder, int node);
  /// Gives the node its value.
  void define();

private:
  Expr withSinks(const Expr &first, const Index &at, const std::function<Expr(const Expr &, const Expr &)> &add) const;

  KernelBuilder &b;
  int i;
  const Node &node;
  int score;
};

} // namespace quern::codegen
#endif
