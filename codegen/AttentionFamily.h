// Attention: scores, mask, softmax and weighted sum without the matrix of scores ever being stored.
#ifndef QUERN_CODEGEN_ATTENTIONFAMILY_H
#define QUERN_CODEGEN_ATTENTIONFAMILY_H

#include "codegen/AttentionPattern.h"
#include "codegen/KernelBuilder.h"

namespace quern::codegen {

/// What was summed over each part of the keys, and how parts are put together (AttentionFamily.cpp).
struct AttentionParts {
  enum Field { Sum, Most, Total };                       ///< weighted values of a column; largest score; sum of weights
  std::function<Expr(const Expr &part, Field, Expr column)> read; ///< the column: of Sum alone
  Expr first, last, count;                               ///< parts to look at, how many there are
};

class AttentionFamily {
public:
  AttentionFamily(KernelBuilder &builder, AttentionPattern pattern);
  /// Defines the value of the pattern's `result`; all it is computed from but the scores is defined by now.
  void define();

private:
  using Product = std::function<Expr(const AttentionDot &, size_t)>;

  void prepareInputs();
  Expr scoreAt(const Index &where, const Expr &key, const Product &product);
  Expr positionOf(const Position &position);
  Index rowIndex(Index index, const Expr &row) const;
  std::vector<Expr> headArgs(std::vector<Expr> leading) const;
  /// The same arguments for a definition: each is a variable.
  static std::vector<Var> asVars(const std::vector<Expr> &args);
  Func combine(const std::string &what, const AttentionParts &parts, const Index &where, const std::vector<Expr> &args,
               const std::vector<Expr> &rowArgs, std::vector<Func> &perRow);
  Expr atRow(const Index &index, const std::function<Expr(std::vector<Expr>, bool)> &read) const;
  void defineWithStatistics();
  void schedule(Stage &out);
  // Many queries (AttentionBlocks.cpp)
  void makeBlocks();
  void makeScores();
  Index blockIndex() const;
  void scheduleBlocks(const Halide::LoopLevel &level);
  // One query (AttentionSingle.cpp)
  void makeSingle();
  void scheduleSingle(const Halide::LoopLevel &level);

  KernelBuilder &b;
  AttentionPattern p;
  int together = 1; ///< rows per query
  int width;        ///< floats in a vector
  Var row{"tr"}, key{"s"}, column{"c"}, tile{"tb"}, part{"sb"};

  // Blocks: rows are queries (and what shares their keys), one per lane.
  int positions, lanes, span, step, unroll, chunk; ///< queries per block, rows with padding, rows and keys per register tile ...
  int blocks;                                      ///< of a task: they share its copies of keys and values
  Expr firstKey, lastKey;
  Func place, which, score, most, weight, total, sums, partial, attended, values;
  std::vector<Func> queries, keys, dots, blockRows;
  std::vector<RVar> depths;
  RVar inGroup, overGroups;

  // Single: parts of keys in parallel, all heads of a key together.
  int split; ///< keys per part
  std::vector<Dim> innerHeads, outerHeads;
  Func singleScore, singleMost, singleWeight, singleTotal, singleSums, singlePartial, single;
  std::vector<Func> singleDots, singleRows;
  std::vector<std::vector<RVar>> singleDepths;
  RVar singleKeys;
};

} // namespace quern::codegen
#endif
