// A product with a packed weight.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_PACKEDCONTRACTION_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_PACKEDCONTRACTION_H

#include "codegen/halide/contraction/Contraction.h"

namespace quern::codegen {

class PackedContraction : Contraction {
public:
  PackedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  void define();

private:
  void accumulate();
  void schedule(Stage &target);

  int unroll, fewTiles; ///< with fewer tiles of columns, other dimensions are tasks too
  Func sums;            ///< of a tile in registers
  std::vector<RVar> over;
};

} // namespace quern::codegen
#endif
