// What the families of contractions share: tiles of columns, copies of operands, the result that takes the tiles.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_CONTRACTION_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_CONTRACTION_H

#include "codegen/halide/Codes.h"
#include "codegen/halide/KernelBuilder.h"

namespace quern::codegen {

/// What is read again and again becomes memory. Returns whether rows are bf16 there, and widened on the way to the loops.
/// `sorted`: rows of experts, which are copied.
bool prepareOperands(KernelBuilder &builder, const ContractionPattern &pattern, bool sorted = false);

/// The same on a device. A number of an operand, as real.
void storeOperands(KernelBuilder &builder, const ContractionPattern &pattern);
Expr readFactor(KernelBuilder &builder, int operand, const Index &index);

/// Tiles of columns that stand beside each other in registers may be far apart in memory, so that reading goes on in as many long runs:
/// place 0 is the first tile of the first run, 1 that of the second one.
struct Streams {
  int count = 1, tiles = 0; ///< of each
  Expr tileAt(const Expr &place) const { return count > 1 ? place % count * tiles + place / count : place; }
  Expr placeOf(const Expr &tile) const { return count > 1 ? tile % tiles * count + tile / tiles : tile; }
};

/// Base of the families.
class Contraction : protected ContractionPattern {
protected:
  Contraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);

  int pickOf(int operand) const { return codegen::pickOf(b.graph, operand); }
  int tableOf(int operand) const { return codegen::tableOf(b.graph, *this, operand); }
  Expr loadWeight(int from, const Expr &lane, const Expr &tileIndex, Index index) const;
  /// Of a packed weight in codes: loops over the codes of a step, the steps of a group, the groups; where one is, and
  /// the number there.
  Halide::Region codedRegion() const;
  void setDepth(Index &index, const CodePlace &place) const;
  /// `number`, of a row; where codes beyond the depth stand for another number than 0, it is 0 there.
  Expr withinDepth(const Expr &number, const CodePlace &place) const;
  CodedColumns columnsAt(const Expr &lane, const Expr &tileIndex, const Index &index) const {
    return {packedBuffer(), storage, packedArgs(lane, tileIndex, index), b.target, true};
  }
  std::vector<Expr> packedArgs(const Expr &lane, const Expr &tileIndex, const Index &index) const;
  /// By AMX's tiles: how many codes' products are summed before a scale multiplies them, a few tiles at most; and a code of such a
  /// run, with a sign.
  int runOfTiles() const;
  Expr signedCodeOfRun(const CodedColumns &columns, const Expr &run, const Expr &four, const Expr &byte) const;
  const Halide::ImageParam &packedBuffer() const { return b.arguments[tableOf(w)]; }
  /// Of a packed weight: neighbours along the depth that are one word of its buffer.
  int numbersInWord() const {
    return packed ? static_cast<int>(b.graph.argumentLayouts[size_t(tableOf(w))].beside) : 1;
  }
  std::vector<Var> tileArgs() const;
  Halide::Region reducedRegion() const;
  void setReduced(Index &index, const Halide::RDom &k) const;
  /// Where a tile of sums has the element at a position.
  std::vector<Expr> tileCall(const Index &position) const { return tileCall(position, tile); }
  std::vector<Expr> tileCall(const Index &position, int columns) const;
  std::vector<Dim> besideDepth(int operand) const;
  /// A copy of an operand has the loops of all its dimensions: `first`, of its own one and the depth, the others, `last`. Its variables,
  /// and a call.
  std::vector<Var> copyArgs(std::vector<Var> first, int operand, const Var &last) const;
  std::vector<Expr> copyCall(std::vector<Expr> first, int operand, const Expr &last, const Index &index) const;
  void scheduleGroups(Func &groups, const Var &along, int beside) const;
  /// Sums over parts of the depth, in memory for a block of rows and some tiles of columns at `level`. Returns the loop over tiles
  /// of rows within a part, where a tile's sums belong.
  Halide::LoopLevel scheduleTotals(Func &totals, const Halide::RDom &parts, const Halide::LoopLevel &level,
                                   int tilesAtOnce) const;
  /// Copies for AMX, of words of two numbers along the depth, and of pieces of f32 (CopiedWords.cpp).
  static constexpr int wordsOfTile = depthOfTile / 2;
  static inline const Var piece{"piece"}, slice{"slice"}; ///< a slice: 16 columns of a tile
  int pieces(int operand) const { return piecesOf(b.graph, operand); }
  static Expr wordsOf(const Expr &depth);
  Expr orZero(Index index, const Expr &position, bool whole, const std::function<Expr(const Index &)> &number) const;
  /// Strips of columns in whole tiles, a kilobyte each, [16 columns][16 words][pieces][slices][steps of the depth]: their first
  /// variables, the place of a tile's column `lane`, word `at` and a piece, and how many of each there are.
  std::vector<Var> stripArgs() const;
  std::vector<Expr> stripCall(const Expr &at, const Expr &piece) const;
  void boundStrip(Func &strip, const Halide::LoopLevel &level, int tilesAtOnce) const;
  void scheduleWords(Func &strip, Func &turned, const Halide::LoopLevel &level, int tilesAtOnce, int pieces,
                     int words = wordsTurned);
  int fusedResult() const;
  std::vector<Dim> aroundOf(const std::vector<Dim> &result) const;
  std::vector<Dim> partsWithin(const std::vector<Dim> &outside) const;
  void unrollParts(Func sums, const std::vector<Dim> &outside) const;
  int vectorOfTile() const { return std::min(tile, b.target.vector); }
  /// Loops of the result that takes the tiles; of the product alone where there is no such one.
  void write(const std::function<Expr(const Index &)> &value, const std::function<void(Stage &)> &schedule);

  KernelBuilder &b;
  int tile, rows, rowBlock;
  Storage storage; ///< of a packed weight
  int bits;        ///< of its codes, where it has some; else 0
  Streams streams; ///< of a packed weight's tiles, whose places sums count
  Var lane{"l"}, groupLane{"g"};
};

} // namespace quern::codegen
#endif
