// Attention: scores, mask, softmax and weighted sum without the matrix of scores ever being stored.
#ifndef QUERN_CODEGEN_HALIDE_ATTENTION_ATTENTIONFAMILY_H
#define QUERN_CODEGEN_HALIDE_ATTENTION_ATTENTIONFAMILY_H

#include "codegen/halide/Math.h"
#include "codegen/halide/attention/AttentionRows.h"

namespace quern::codegen {

/// What was summed over each part of the keys, and how parts are put together (AttentionFamily.cpp).
struct AttentionParts {
  enum Field { Sum, Most, Total }; ///< weighted values of a column; largest score; sum of weights
  std::function<Expr(const Expr &part, Field, Expr column)> read; ///< the column: of Sum alone
  Expr first, last, count;                                        ///< parts to look at, how many there are
};

/// Takes the results of attentions.
void takeAttention(KernelBuilder &builder);

class AttentionFamily : AttentionRows {
public:
  AttentionFamily(KernelBuilder &builder, AttentionPattern pattern, const PlanPart &plan);
  /// Defines the value of the pattern's `result`; all it is computed from but the scores is defined by now.
  void define();

private:
  using Product = std::function<Expr(const AttentionDot &, size_t)>;

  /// What scores of a row, or of a part of its keys, are counted from, and a weight: as they are, or rounded as the operation says.
  Expr shiftOf(const Expr &largest) const { return p.narrow ? math::roundUpToLn2(largest) : largest; }
  Expr rounded(const Expr &weight) const { return p.narrow ? math::inBF16(weight, b.target) : weight; }
  Expr scoreAt(const Index &where, const Expr &key, const Product &product);
  Func combine(const std::string &what, const AttentionParts &parts, const Index &where, const std::vector<Expr> &args,
               const std::vector<Expr> &rowArgs, std::vector<Func> &perRow);
  Expr atRow(const Index &index, const std::function<Expr(std::vector<Expr>, bool)> &read) const;
  void defineWithStatistics();
  void schedule(Stage &out);
  void scheduleTasks(Func &out, const Var &task) const;
  // Many queries (AttentionBlocks.cpp)
  void makeBlocks();
  void makeScores();
  Expr valueAt(const Expr &column, const Expr &key);
  void scheduleBlocks(const Halide::LoopLevel &level);
  void scheduleAttended(const Halide::LoopLevel &level);
  void scheduleVectors(const Halide::LoopLevel &level);
  // Their products in pairs of bf16 (AttentionPairs.cpp)
  Func pairedDot(const AttentionDot &dot, const Index &where);
  void makePairedSums(const std::vector<Expr> &args);
  bool turnsQueries(const Dim &depth) const;
  void scheduleTurned(size_t query, const Halide::LoopLevel &level);
  // By AMX (AttentionTiles.cpp)
  Func tiledDot(const AttentionDot &dot, const Index &where);
  void makeTiledSums(const std::vector<Expr> &args);
  void scheduleTiles(const Halide::LoopLevel &level);
  // One query (AttentionSingle.cpp)
  void makeSingle();
  void scheduleSingle(const Halide::LoopLevel &level);

  // Blocks: rows are queries (and what shares their keys), one per lane.
  Func score, most, weight, total, sums, partial, attended, values;
  Func attendedWords, lying; ///< `attended` with columns side by side, where whole blocks can be turned
  std::vector<Func> queries, keys, dots, blockRows;
  std::vector<RVar> depths, ofMost; ///< `ofMost`: inGroup and overGroups of the largest scores
  /// Of bf16: weights in words; what is read to be turned; by AMX loops over words and terms.
  Func words, valuesAcross;
  std::vector<Func> queriesAcross;
  std::vector<RVar> steps, terms;

  // Single: parts of keys in parallel, all heads of a key together.
  int split;      ///< keys per part at most: whole vectors
  int parts;      ///< so many, or a multiple, if each has a vector of keys
  int runs;       ///< of a part's keys, which are read in turns
  Expr partSlots; ///< places for the keys of the longest part: whole vectors of each run
  int dotVectors; ///< that a step of a dot product takes at once
  int ahead;      ///< bytes ahead of what is read of keys and values that their lines are asked for
  std::vector<Dim> innerHeads, outerHeads;
  Func singleScore, singleMost, singleWeight, singleTotal, singleSums, singlePartial, single;
  std::vector<Func> singleDots, singleRows;
  std::vector<std::vector<RVar>> singleDepths;
  std::vector<std::pair<Func, Func>> singleLanes; ///< what one element of the second is made of
  std::vector<RVar> singleKeys;                   ///< run, lane, block
};

} // namespace quern::codegen
#endif
