// Matrix products: one operand packed in tiles of columns, accumulators in registers, the epilogue at the tile.
#ifndef QUERN_CODEGEN_CONTRACTIONFAMILY_H
#define QUERN_CODEGEN_CONTRACTIONFAMILY_H

#include "codegen/KernelBuilder.h"

namespace quern::codegen {

class ContractionFamily {
public:
  ContractionFamily(KernelBuilder &builder, int node);
  /// Gives the node its value: from accumulators computed at the tile of the kernel's result where all between is
  /// elementwise, else from a stage of its own.
  void define();

private:
  int tableOf(int operand) const;
  void chooseOperands();
  void chooseDims();
  void prepareInput();
  Expr weightAt(const Expr &lane, const Expr &tileIndex, Index index);
  Func packWeight();
  void accumulate();
  void readTiles();
  int fusedResult();
  std::vector<Dim> aroundOf(const std::vector<Dim> &result) const;
  void schedule(Stage &target);

  // Neither operand packed (ContractionDense.cpp)
  bool isDense() const { return !packed && row && column; }
  void chooseDepth();
  void accumulateDense();
  void scheduleDense(Stage &target);

  KernelBuilder &b;
  int node;
  int x = 0, w = 0;            ///< operands: rows, columns
  bool packed = false;
  std::string columnName; ///< the column that was chosen with them
  std::vector<Dim> reduced, others;
  std::optional<Dim> row, column;
  int tile = 0, rows = 1, unroll = 1, rowBlock = 1;
  Func sums, totals; ///< of a tile in registers; what results read
  Func strip, groups; ///< copies of w and x
  Var lane{"l"};
  std::vector<RVar> over;
  Var groupLane{"g"};
  Halide::RDom parts;
  int partDepth = 0, group = 1;
  bool wholeParts = false;
};

} // namespace quern::codegen
#endif
