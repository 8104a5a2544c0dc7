// A product whose weight is chosen for each row from several (experts).
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_GROUPEDCONTRACTION_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_GROUPEDCONTRACTION_H

#include "codegen/halide/contraction/routed/GroupedRows.h"
#include "codegen/halide/contraction/routed/GroupedTiles.h"

#include <optional>

namespace quern::codegen {

class GroupedContraction : RoutedPairs {
public:
  GroupedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  void define();

private:
  void accumulate();
  void schedule(Stage &target);
  Expr fewPairs(const Dim &among) const;
  void writeBoth(Stage &target, int value);
  void scheduleBoth(Stage &target);

  const PlanPart &plan;
  std::optional<PackedSums> several, alone; ///< of blocks that have some pairs, and one
  PackedSums::Sums sums, single;
  Expr isFew;                        ///< whether these loops run, else those for many pairs:
  std::optional<GroupedTiles> tiles; ///< by AMX
  std::optional<GroupedRows> copied; ///< by vectors
};

} // namespace quern::codegen
#endif
