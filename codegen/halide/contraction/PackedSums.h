// Sums of a tile of rows and columns in registers, whose columns are packed or copied: what products with a packed weight and
// those with routed weights share.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_PACKEDSUMS_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_PACKEDSUMS_H

#include "codegen/halide/contraction/Contraction.h"

namespace quern::codegen {

/// Rows that are routed to experts: a block of these, which is a tile's, has one expert. Only the run knows which.
struct RoutedRows {
  Dim block;
  std::string among;                             ///< the weight's dimension of experts
  Expr chunk;                                    ///< of the block: some of one expert, which share copies of columns
  std::function<Expr(const Expr &chunk)> expert; ///< of a chunk
  std::function<void(Index &)> setRow;           ///< where a row of the block is
  Expr asked;                                    ///< whether the block's sums are
};

class PackedSums : protected Contraction {
public:
  struct Sums {
    Func func;
    std::vector<RVar> over; ///< of pairs: within one, the pairs, for AMX the pieces of rows
    Func ofGroup;           ///< of codes: the sums over a group, before its scale multiplies them; else undefined
    std::vector<RVar> overGroup;
    bool integers = false; ///< `ofGroup` sums integers, the first of `overGroup` within an instruction
    Func halves{}; ///< of integers: two sums for each of `ofGroup`, where an instruction sums pairs; else undefined
    std::vector<RVar> overHalves{};
    bool pairs = false; ///< the first of `over` is summed within an instruction
    int inWord = 1;     ///< where more: it is over the numbers that stand in one word
    Func scaled{},
        lowered{}; ///< of integers in super-blocks: what units of scales and of minimums multiply; else undefined
    std::vector<RVar> overBlock{};
    Func ofRow{}; ///< a row's sum over a group, where columns have minimums or codes without a sign; else undefined
    std::vector<Func> halvesOfRow{}; ///< what it is made of
    bool byTiles = false;            ///< the products are AMX's: of `func`, or of `ofGroup` where there is one
    int runs = 0;                    ///< groups of these
  };
  struct Columns {
    std::function<Expr(const Index &)> at;
    int inWord = 1; ///< neighbours along the depth that are read as one word
    Expr operator()(const Index &index) const { return at(index); }
  };
  /// As they are in memory, or out of strips that all tiles of rows of a task share.
  enum class Codes { Stored, Copied };

  PackedSums(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan,
             std::optional<RoutedRows> routed = std::nullopt);

  /// How sums that are made from now on read columns.
  void readIn(const Streams &of) { streams = of; }
  /// A step's columns as numbers, as they are stored; out of a strip that all tiles of rows of a task share.
  Columns storedColumns() const;
  Columns copiedColumns();
  /// Of numbers; of rows in numbers and columns in codes; of both in codes. `at`: the row, if there is one and it is not routed.
  Sums sumsOf(const std::string &name, const Expr &at, const Columns &columns);
  Sums codedSums(const std::string &name, const Expr &at, bool ofOneRow);
  Sums integerSums(const std::string &name, const Expr &at, Codes codes);

  void scheduleSums(Sums &sums, const Halide::LoopLevel &level, const std::vector<Dim> &outside, int rowsAtOnce,
                    int tilesAtOnce);
  /// Of numbers, or of integers.
  void scheduleStrips(const Halide::LoopLevel &level);

protected:
  Index start(const Expr &row) const;
  Expr ofRow(const Func &func, Index index, const Expr &place) const;
  /// Where a strip stands beside its column and depth: its own variables, a call from `index`, and where its columns are; the tile
  /// comes last.
  struct Beside {
    std::vector<Var> args;
    std::vector<Expr> call;
    Index columns;
  };
  Beside besideStrip(const Index &index) const;
  /// What stands beside each other in registers, `columns` of a tile, but not what is within.
  void scheduleSum(Sums &sums, const Halide::LoopLevel &level, const std::vector<Dim> &outside, int rowsAtOnce,
                   int tilesAtOnce, int columns);

  int unroll;
  Func
      strip; ///< a tile of columns in f32, where they are stored in fewer bits; in bytes or pairs for products of these
  Func stripScale, stripMinimum; ///< of the runs of such bytes

private:
  /// Loops over what is summed.
  Halide::RDom steps(const Halide::Region &region) const;
  Expr rowSum(Sums &sums, const Expr &at, const Expr &ofGroup);
  int codesOfRun() const;
  bool fitsHalves(int steps) const;
  bool widensCodes() const;
  int stepsOfHalves() const;
  Expr integerColumns(bool shared, const Index &index, const Expr &step, const Expr &part);
  void sumsOfLevels(Sums &sums, const Index &index, int runs, bool shared);
  void sumsOfBlocks(Sums &sums, const Index &index, int runs);
  Expr levelOfRun(Func &ofAll, const Index &index, const Expr &run, bool shared);
  void scheduleGroup(Sums &sums, int rowsAtOnce, int tilesAtOnce);
  void scheduleIntegers(Sums &sums, int rowsAtOnce, int tilesAtOnce);
  void scheduleIntegerStrip(const Halide::LoopLevel &level);

  std::optional<RoutedRows> routed;
};

} // namespace quern::codegen
#endif
