// A product whose weight is chosen for each row from several (experts).
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_GROUPEDCONTRACTION_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_GROUPEDCONTRACTION_H

#include "codegen/halide/contraction/RoutedPairs.h"

namespace quern::codegen {

class GroupedContraction : RoutedPairs {
public:
  GroupedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  void define();

private:
  void findLeaders();
  void stripOfExpert(const Node &gather);
  void accumulate();
  void writePairs(Stage &target, int value);
  void schedule(Stage &target);

  int unroll;
  Func sums;   ///< of a tile in registers
  Func single; ///< sums of a block that has one pair
  Func strip;  ///< a copy of w, of one expert for each chunk
  Func leader; ///< the expert of a chunk: as many blocks as share a task
  std::vector<RVar> over;
  std::vector<RVar> singleOver;
  Halide::RDom slots; ///< within a block, blocks
};

} // namespace quern::codegen
#endif
