// A product whose weight is chosen for each row from several (experts).
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_GROUPEDCONTRACTION_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_GROUPEDCONTRACTION_H

#include "codegen/halide/contraction/GroupedTiles.h"

#include <optional>

namespace quern::codegen {

class GroupedContraction : RoutedPairs {
public:
  GroupedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  void define();

private:
  void stripOfExpert(const Node &gather);
  void accumulate();
  void schedule(Stage &target);
  Expr fewPairs(const Dim &among) const;
  Expr sumAt(const Index &position) const;
  void writeBoth(Stage &target, int value);
  void scheduleBoth(Stage &target);

  const PlanPart &plan;
  int unroll;
  Func sums;   ///< of a tile in registers
  Func single; ///< sums of a block that has one pair
  Func strip;  ///< a copy of w, of one expert for each chunk
  std::vector<RVar> over;
  std::vector<RVar> singleOver;
  Expr isFew;                       ///< whether these loops run, else the tiles'
  std::optional<GroupedTiles> many; ///< where AMX multiplies many pairs
};

} // namespace quern::codegen
#endif
