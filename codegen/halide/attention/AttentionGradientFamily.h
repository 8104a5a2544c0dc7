// Computes attention's gradient (codegen/kernel/AttentionGradient.h says what is found): sums of weighted rows, and
// sums along diagonals.
#ifndef QUERN_CODEGEN_HALIDE_ATTENTION_ATTENTIONGRADIENTFAMILY_H
#define QUERN_CODEGEN_HALIDE_ATTENTION_ATTENTIONGRADIENTFAMILY_H

#include "codegen/halide/attention/AttentionRows.h"
#include "codegen/kernel/AttentionGradient.h"

namespace quern::codegen {

/// Takes the sums of a gradient.
void takeAttentionGradient(KernelBuilder &builder);

class AttentionGradientFamily : AttentionRows {
public:
  AttentionGradientFamily(KernelBuilder &builder, GradientPattern pattern, const PlanPart &plan);
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
  int places = 0; ///< of a block's diagonals
};

} // namespace quern::codegen
#endif
