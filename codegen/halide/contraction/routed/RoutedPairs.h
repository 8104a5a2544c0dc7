// Pairs of a row and the expert that it is routed to, sorted by expert.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_ROUTEDPAIRS_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_ROUTEDPAIRS_H

#include "codegen/halide/contraction/PackedSums.h"

namespace quern::codegen {

/// Base of the families whose weights rows are routed to.
class RoutedPairs : protected Contraction {
protected:
  using Contraction::Contraction;
  void sortPairs(int positions, const Dim &among, int chunk);
  /// The pair in a slot, or -1.
  Expr pairAt(const Expr &slot) const { return order(experts + slot); }
  void setPair(Index &index, const Expr &slot) const;
  /// One expert for each chunk of slots, `rowBlock` blocks of `rows`; and the loops over blocks that have a pair.
  void findLeaders(int positions);
  Expr expertOf(const Expr &chunk) const { return clamp(leader(chunk), 0, experts - 1); }
  /// Every pair's result goes to its own location, in an update of its own. `asked`: whether it runs.
  void writePairs(Stage &target, int value, const Expr &asked);

  /// Loops of such an update: names that no other update's have, as a level is named by its loop alone.
  struct TaskLoops {
    Var outer, inner; ///< of columns: tiles, within one
    Halide::RVar blockOuter, blockInner, task;
  };
  /// A tile of columns and a chunk of blocks are a task; `some`: the loop over `columnsAtOnce` of a tile, where it has more.
  void scheduleTasks(Halide::Stage out, const TaskLoops &loops, const std::vector<Dim> &outside, const Var &some,
                     int columnsAtOnce) const;

  static inline const Var block{"block"}, within{"within"}; ///< of slots: which sums are of; within one
  /// The sums of a block of slots; `several`: of all of its rows, else of the first alone. `asked`: which blocks have them.
  PackedSums sumsOfBlock(const PlanPart &plan, bool several, const Expr &asked) const;
  /// One of these, of a pair's slot; a tile has so many columns.
  Expr sumAt(const Func &sums, const Index &position, bool several, int columns) const;

  Expr experts;       ///< how many
  Expr slotCount;     ///< pairs, and what is empty between
  Func first;         ///< the first slot of each expert
  Func order;         ///< where the next pair of each expert goes; then the pair in each slot, or -1
  Func leader;        ///< the expert of a chunk: as many blocks as share a task
  Halide::RDom slots; ///< within a block, blocks

private:
  void placePairs();

  std::vector<Func> places; ///< per slot, the pair's position along each of several dimensions
};

} // namespace quern::codegen
#endif
