// Many rows of a product whose weight is chosen for each (experts), by vectors, with copies of columns.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_GROUPEDROWS_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_ROUTED_GROUPEDROWS_H

#include "codegen/halide/contraction/PackedSums.h"
#include "codegen/halide/contraction/routed/RoutedPairs.h"

namespace quern::codegen {

/// Beside the loops of GroupedContraction.h, which few rows have: an update of the result of its own.
class GroupedRows : RoutedPairs {
public:
  /// `asked`: whether these loops run.
  GroupedRows(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan, Expr asked);
  void define(int positions, const Dim &among);
  void write(Stage &target, int value);
  /// `update`: which of the result's.
  void schedule(Stage &target, int update);

private:
  const PlanPart &plan;
  Expr asked;
  std::optional<PackedSums> tiles;
  PackedSums::Sums sums;
};

} // namespace quern::codegen
#endif
