// What attention and its gradient share: rows in lanes and blocks of them, and the keys that a block can see.
#ifndef QUERN_CODEGEN_HALIDE_ATTENTION_ATTENTIONROWS_H
#define QUERN_CODEGEN_HALIDE_ATTENTION_ATTENTIONROWS_H

#include "codegen/halide/KernelBuilder.h"
#include "codegen/kernel/AttentionPattern.h"

namespace quern::codegen {

/// Base of the two families. `plan`: of "attention" or "gradient"; both say rows, step, keys, block and unroll.
class AttentionRows {
protected:
  static constexpr int inPair = 2; ///< numbers of bf16 in a word
  AttentionRows(KernelBuilder &builder, AttentionPattern pattern, const PlanPart &plan);

  /// What is read again and again must be memory; windows of memory are. `values`: beside the products' operands.
  void prepareInputs(std::vector<int> values);
  Expr positionOf(const Position &position);
  /// Adds the positions of the dimensions that share their keys.
  Index rowIndex(Index index, const Expr &row) const;
  std::vector<Expr> headArgs(std::vector<Expr> leading) const;
  /// The same arguments for a definition: each is a variable.
  static std::vector<Var> asVars(const std::vector<Expr> &args);
  /// The vector for so many numbers side by side: halved until it is no longer than they are.
  int narrowed(int64_t extent) const;

  /// The first and the last key that a block's rows can see.
  void boundKeys();
  /// Where a row of a block stands; rows beyond the last repeat it.
  void placeRows(int node);
  void schedulePlaces(const Halide::LoopLevel &level);
  /// The positions of a row of a block. What is looked up says again how far it reaches.
  Index blockIndex() const;
  /// A step of keys of a part that the block can see: `overGroups` are the steps, `inGroup` is what is `within` one.
  Expr seenSteps(int within);
  Expr seenKeys(); ///< `inGroup` are its keys
  /// What is read of a key's row: numbers; or codes, and the scale that all of `along` share. Without one it is undefined.
  std::pair<Expr, Expr> numberAndScale(int node, const Index &index, const std::vector<Dim> &along);
  /// The column that a place in a tile stands for.
  Expr columnOf(int columns) const;

  KernelBuilder &b;
  AttentionPattern p;
  int together = 1; ///< rows per query
  int width;        ///< floats in a vector
  int positions, lanes, span, step, unroll,
      chunk;          ///< queries per block, rows with padding, rows and keys per register tile ...
  int blocks;         ///< of a task: they share its copies of keys and values
  bool tiles = false; ///< whether AMX multiplies: a step is then what its tiles hold of keys
  bool pairs = false; ///< whether pairs of bf16 are multiplied: words of two numbers, of the depth or of two keys
  Var row{"tr"}, key{"s"}, column{"c"}, tile{"tb"}, part{"sb"};
  Expr firstKey, lastKey;
  Func place, which;
  RVar inGroup, overGroups;
};

} // namespace quern::codegen
#endif
