// A product whose weight is chosen for each row from several (experts), many rows, by AMX's registers.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_GROUPEDTILES_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_GROUPEDTILES_H

#include "codegen/halide/contraction/routed/RoutedPairs.h"
#include "codegen/halide/words/Pieces.h"

namespace quern::codegen {

/// Beside the loops of GroupedContraction.h, which few rows have: an update of the result of its own.
class GroupedTiles : RoutedPairs {
public:
  using Numbers = std::function<Expr(const Index &)>;
  /// `numbers`: of rows, as they are in memory. `asked`: whether these loops run.
  GroupedTiles(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan, Numbers numbers, Expr asked);
  void define(int positions, const Dim &among);
  void write(Stage &target, int value);
  /// `update`: which of the result's.
  void schedule(Stage &target, int update);

private:
  std::vector<Dim> besidePairs() const;
  std::vector<Dim> besideExperts() const;
  /// Of bf16 and its pieces.
  Expr wordAt(const Index &index, const Expr &word, const Expr &piece, const Numbers &number) const;
  Func sortedCopy(const std::string &name, std::vector<Var> args, std::vector<Halide::VarOrRVar> loops, size_t along,
                  const Halide::RDom &steps, const Numbers &number);
  Halide::RDom stepsOfTiles(const Expr &count) const;
  void sortWords();
  void stripOfWords();
  void accumulateWords(const std::vector<Var> &args);
  void scheduleWords(const Halide::LoopLevel &ofBlock, const Halide::LoopLevel &ofTask);
  /// Of codes (GroupedCodes.cpp), 16 columns at a time.
  int columnsAtOnce() const { return bits ? tileColumns : tile; }
  int runsOfDepth() const;
  Func sortCodes(const std::string &name, const Func &ofRows, const std::vector<Dim> &dims, const std::string &along,
                 int length, bool rowsBeside);
  Func stripOfCodes(const std::string &name, std::vector<Var> args,
                    const std::function<Expr(const CodedColumns &, const Expr &run)> &value);
  void accumulateCodes(const std::vector<Var> &args);
  void scheduleCodes(const Halide::LoopLevel &ofColumns, const Halide::LoopLevel &ofTask);

  Numbers numbers;
  Expr asked;
  int amx;                     ///< AMX's tiles of rows at a time
  std::vector<TileTerm> terms; ///< of its products
  Func sorted;                 ///< a copy of x in whole tiles, in the order of slots
  Func strip;                  ///< a copy of w, of one expert for each chunk
  Func turned;                 ///< 16 x 16 words of that, where columns lie along their depth
  Func sums;                   ///< of a block
  Func whole;                  ///< of codes: a group's sums of integers, out of AMX's registers
  std::vector<Func> strips;    ///< of codes: strips and scales of columns
  std::vector<RVar> over, overWhole;
};

} // namespace quern::codegen
#endif
