// A product of values as they are stored in memory, packed part by part of the depth.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_DENSECONTRACTION_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_DENSECONTRACTION_H

#include "codegen/halide/contraction/Contraction.h"
#include "codegen/halide/words/Pieces.h"
#include "codegen/halide/words/TileProducts.h"

namespace quern::codegen {

class DenseContraction : Contraction {
public:
  DenseContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  void define();

private:
  struct Products {
    Func strip, sums; ///< columns over a part of the depth; sums of a tile in registers
    Func
        copy; ///< rows over a part of the depth, widened where they are stored in bf16, rounded where they are made here
    Func turned;           ///< blocks of words of columns that lie along the depth
    RVar over, pair, term; ///< the steps of the depth; of pairs also which of the two; for AMX also which pieces of f32
  };
  Expr tilesOfRows() const;
  Expr numberOf(int operand, const Index &index, const Expr &position) const;
  Expr bf16At(int operand, const Index &index, const Expr &position) const {
    return asBF16(numberOf(operand, index, position));
  }
  Expr stepsOfDepth() const;
  Halide::RDom depthOf(const Expr &length, const std::string &name) const;
  void copyColumns(Products &out);
  Expr rowsAt(Products &out, const Expr &step, Index index);
  void accumulate();
  Products productsOver(const Halide::RDom &k, const Expr &step, std::vector<Var> args, const Index &index);
  Expr sumAt(const std::vector<Expr> &call) const;
  void scheduleProducts(Products &out, const Halide::LoopLevel &tiles, const Halide::LoopLevel &copies);
  void scheduleStrip(Products &out, const Halide::LoopLevel &copies);
  /// By AMX's registers (DenseTiles.cpp).
  bool liesInTiles() const;
  Expr wordAt(int operand, const Index &index, const Expr &word, const Expr &piece) const;
  void copyTilesOfRows();
  Expr wordOfRow(const Expr &word, const Expr &piece, Index index) const;
  Expr rowsLeft() const;
  void copyWordsOfColumns(Products &out);
  void scheduleTilesOfRows();
  void scheduleTilesOfColumns(Products &out, const Halide::LoopLevel &level);
  void scheduleTiledProducts(Products &out, const Halide::LoopLevel &tiles);
  void schedule(Stage &target);

  const PlanPart &plan;
  int unroll, group, partDepth, shallowParts; ///< the last: of the depth, that need no totals
  int amx;                                    ///< AMX's tiles of rows at a time; 0: none
  std::vector<TileTerm> terms;                ///< of its products
  bool narrow;                                ///< x is bf16 in memory
  bool wholeParts;
  bool pairs;               ///< both are in bf16, and vectors multiply these in pairs
  bool turns;               ///< columns that lie along the depth become words, in blocks that registers turn
  Func totals;              ///< what results read
  Products products, whole; ///< in parts of the depth, and over all of it
  Expr shallow;             ///< whether the depth is short enough for `whole`, where only the run knows
  Func groups;              ///< a copy of x; for AMX in whole tiles
  Func turnedRows;          ///< 16 x 16 words of that, where rows are side by side
  Halide::RDom parts;
};

} // namespace quern::codegen
#endif
