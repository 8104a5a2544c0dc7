// Matrix products: one operand packed in tiles of columns, accumulators in registers, the epilogue at the tile.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_CONTRACTIONFAMILY_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_CONTRACTIONFAMILY_H

#include "codegen/halide/KernelBuilder.h"

#include <algorithm>

namespace quern::codegen {

inline bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class ContractionFamily {
public:
  ContractionFamily(KernelBuilder &builder, int node);
  /// Gives the node its value: from accumulators computed at the tile of the kernel's result where all between is
  /// elementwise, else from a stage of its own.
  void define();
  /// Whether a scatter is the gradient of weights that rows picked, which this family makes: `defineByExpert`.
  static bool sumsByExpert(const KernelBuilder &builder, int scatter);
  void defineByExpert();

private:
  int pickOf(int operand) const;
  int tableOf(int operand) const;
  void chooseOperands();
  void chooseDims();
  void prepareInput();
  Expr weightAt(int from, const Expr &lane, const Expr &tileIndex, Index index);
  Func packWeight(int from);
  std::vector<Var> tileArgs() const;
  Halide::Region reducedRegion() const;
  void setReduced(Index &index, const Halide::RDom &k) const;
  void scheduleGroups(const Var &along);
  void accumulate();
  void readTiles();
  int fusedResult();
  std::vector<Dim> aroundOf(const std::vector<Dim> &result) const;
  void unrollParts(Func sums, const std::vector<Dim> &outside) const;
  void schedule(Stage &target);
  void write();

  // Neither operand packed (ContractionDense.cpp)
  bool isDense() const { return !packed && row && column && b.graph.nodes[node].op == Op::Contract; }
  struct Products {
    Func strip, sums; ///< columns over a part of the depth; sums of a tile in registers
    Func wide;        ///< rows over a part of the depth, in f32 where they lie in bf16
    RVar over;
  };
  void chooseDepth();
  void accumulateDense();
  Products productsOver(const Halide::RDom &k, const Expr &position, std::vector<Var> args, Index index);
  Expr denseSum(const std::vector<Expr> &call) const;
  void scheduleProducts(Products &out, const Halide::LoopLevel &tiles, const Halide::LoopLevel &copies);
  void scheduleDense(Stage &target);

  // Few rows and weights as they lie (ContractionFew.cpp)
  void makeDirect();

  // A weight for each row, picked from several (ContractionGrouped.cpp)
  bool isGrouped() const { return !pairs.empty(); }
  void findPairs();
  void sortPairs(int positions, const Dim &among, int chunk);
  Expr pairAt(const Expr &slot) const { return order(experts + slot); }
  void setPair(Index &index, const Expr &slot) const;
  void placePairs();
  void findLeaders();
  void stripOfExpert(const Node &gather);
  void accumulateGrouped();
  void writeGrouped(Stage &target, int value);
  void scheduleGrouped(Stage &target);
  void defineGrouped();

  // The gradient of such a weight: for each expert a sum over the pairs that picked it (ContractionByExpert.cpp)
  void chooseFactors();
  void chooseTile(int64_t depth);
  Func sorted(const std::string &name, int factor, const Var &lane, const Var &tileIndex, const Dim &own,
              const std::function<Expr(const Index &)> &value);
  std::vector<Dim> sortedDims(int factor, const Dim &own) const;
  void accumulateByExpert();
  void scheduleByExpert(Stage &target);

  KernelBuilder &b;
  int node;
  int x = 0, w = 0; ///< operands: rows, columns
  bool packed = false;
  bool narrow = false;    ///< x is bf16 in memory
  std::string columnName; ///< the column that was chosen with them
  std::vector<Dim> reduced, others;
  std::optional<Dim> row, column;
  int tile = 0, rows = 1, unroll = 1, rowBlock = 1;
  Func sums, totals;        ///< of a tile in registers; what results read
  Products products, whole; ///< in parts of the depth, and over all of it
  Expr shallow;             ///< whether the depth is short enough for `whole`, where only the run knows
  Func direct;              ///< the products, where there are few rows
  Expr few;                 ///< whether there are
  Func groups;              ///< a copy of x
  Func strip;               ///< a copy of w: of one expert for each chunk, or sorted by expert
  Var lane{"l"};
  std::vector<RVar> over;
  Var groupLane{"g"};
  Halide::RDom parts;
  int partDepth = 0, group = 1;
  bool wholeParts = false;

  std::vector<Dim> pairs; ///< dimensions of the positions that pick: together they number the pairs of row and expert
  Expr experts;           ///< how many
  Expr slotCount;         ///< pairs, and what is empty between
  Func first;             ///< the first slot of each expert
  Func order;             ///< where the next pair of each expert goes; then the pair in each slot, or -1
  Func single;            ///< sums of a block that has one pair
  RVar singleOver;
  Func leader;              ///< the expert of a chunk: as many blocks as share a task
  std::vector<Func> places; ///< per slot, the pair's position along each of several dimensions
  Halide::RDom slots;       ///< within a block, blocks
};

} // namespace quern::codegen
#endif
