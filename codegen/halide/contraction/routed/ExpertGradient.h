// The gradient of weights that rows are routed to: for each expert a product over the rows routed to it.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_EXPERTGRADIENT_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_EXPERTGRADIENT_H

#include "codegen/halide/contraction/routed/RoutedPairs.h"

namespace quern::codegen {

class ExpertGradient : RoutedPairs {
public:
  ExpertGradient(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  void define();

private:
  Func sorted(const std::string &name, int factor, const Var &lane, const Var &tileIndex, const Dim &own,
              const std::function<Expr(const Index &)> &value);
  std::vector<Dim> sortedDims(int factor, const Dim &own) const;
  void accumulate();
  void schedule(Stage &target);
  /// By AMX's registers.
  Func sortedWords(const std::string &name, int factor, std::vector<Var> args, const Var &tileIndex, const Dim &own,
                   Func *across, const std::function<Expr(const Index &)> &value);
  void accumulateTiles();
  void scheduleTiles(const Halide::LoopLevel &level);

  int group, beside;
  int amx;            ///< AMX's tiles of rows at a time; 0: none
  Func sums;          ///< of a tile in registers
  Func strip, groups; ///< copies of w and x, sorted by expert
  Func turned;        ///< for AMX: 16 x 16 words of x, where its rows are side by side
  std::vector<RVar> over;
};

} // namespace quern::codegen
#endif
