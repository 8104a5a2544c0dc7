// A product with a packed weight.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_PACKEDCONTRACTION_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_PACKEDCONTRACTION_H

#include "codegen/halide/contraction/PackedSums.h"
#include "codegen/halide/words/Pieces.h"
#include "codegen/halide/words/TileProducts.h"

namespace quern::codegen {

class PackedContraction : PackedSums {
public:
  PackedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  void define();

private:
  /// What tiles of rows give.
  const Func &many() const { return totals.defined() ? totals : kept.defined() ? kept : tiles.func; }
  Func copyOf(const std::string &name, const Sums &sums) const;
  bool keepsParts(const std::vector<Dim> &outside) const;
  Halide::LoopLevel scheduleKept(const Halide::LoopLevel &level, const std::vector<Dim> &outside);
  bool isPicked() const { return b.graph.nodes[pickOf(w)].op == Op::Gather; }
  Sums sumsOfParts(const Expr &at);
  Sums pairSums(const std::string &name, const Expr &at);
  Sums tiledPairs();
  Sums tiledWords();
  Expr wordOfColumn(const Expr &at, const Expr &which);
  void scheduleWordsOfColumns(const Halide::LoopLevel &level);
  Halide::LoopLevel scheduleTotalsOfWords(const Halide::LoopLevel &level);
  Expr copiedRow(const Expr &at, const Expr &ofRun, int run, const Expr &piece, const Index &index);
  void scheduleCopiedRows();
  Sums tiledCodes();
  Expr codesOfColumns(const CodedColumns &from) const;
  Expr ofSlices(Func &func, const char *name, std::vector<Var> args, std::vector<Expr> call, const Expr &value) const;
  void multiplyRuns(Sums &sums, const std::vector<Var> &whole, const CodedColumns &from);
  Expr sumOfRow(int run, const Expr &at, Index index);
  Expr halfOfPair(Index index, const Expr &which, const Expr &at) const;
  void scheduleTiledGroups(Sums &sums);
  void scheduleTiledStrip(const Halide::LoopLevel &level);
  Halide::LoopLevel scheduleTiledTotals(const Halide::LoopLevel &level);
  void addParts(const Func &sums, const std::vector<Var> &args, int count);
  void scheduleTiled(const Sums &sums, const Halide::LoopLevel &level);
  /// Columns of a tile of sums: of codes only as many as AMX's registers hold, beside whose sums f32's stay in registers.
  int manyColumns() const { return tiles.byTiles && tiles.ofGroup.defined() ? tileColumns : tile; }
  void schedule(Stage &target);
  enum class Rows { Alone, Few, Many };
  template <typename Loops> void fuseTasks(Loops out, const std::vector<Halide::VarOrRVar> &around, Var &task) const;
  Var loopOfRow(const std::vector<Dim> &around) const;
  template <typename Loops> Var scheduleLoops(Loops out, const std::vector<Dim> &outside, Rows rows);
  Halide::LoopLevel levelOf(const Var &task, const std::vector<Dim> &outside, const Func &out) const;
  void scheduleWhole(const Func &out);
  template <typename Loops> void scheduleEnds(Loops out, const std::vector<Dim> &outside);
  void scheduleStrip(const Halide::LoopLevel &level);
  void scheduleTile(const Halide::LoopLevel &level, const std::vector<Dim> &outside);

  int mostTasks;       ///< with fewer tiles of columns, other dimensions are tasks too
  int side;            ///< tiles of columns that a single row is multiplied with at a time
  int few, together;   ///< up to so many rows are multiplied with columns as they are stored, so many at a time
  int ahead;           ///< bytes ahead of what such a row reads that columns are fetched
  int amx;             ///< AMX's tiles of rows at a time; 0: none
  int group;           ///< tiles of columns of a task of many rows
  Expr isAlone, isFew; ///< whether rows are so few
  int partDepth;       ///< steps of the depth that all tiles of rows of a task take before the next ones
  Func totals;         ///< of the parts of the depth, where there are several; else undefined
  Func kept;           ///< sums of a tile's parts, in memory: in place of `tiles.func` where `keepsParts`
  Func copied;         ///< for AMX: pieces of rows that are not stored in bf16; else undefined
  Func rowSums;        ///< beside these, for columns with minimums; else undefined
  Halide::RDom parts;
  Streams ofAlone; ///< of rows by themselves
  Func whole;      ///< all sums of these, by their places, where they are several streams; else undefined
  static inline const Var fewTiles{"ft"};
  Sums tiles, fews,
      singles; ///< of a tile of rows and columns in registers; of a few; of one. Undefined where they never run
};

} // namespace quern::codegen
#endif
