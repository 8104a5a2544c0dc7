// A product with columns that are packed before: a weight, or a copy of what is none.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_PACKEDCONTRACTION_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_PACKEDCONTRACTION_H

#include "codegen/halide/contraction/Contraction.h"

namespace quern::codegen {

class PackedContraction : Contraction {
public:
  PackedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  void define();

private:
  Func packWeight();
  void accumulate();
  void schedule(Stage &target);

  int unroll, fewTiles; ///< with fewer tiles of columns, other dimensions are tasks too
  Func sums;            ///< of a tile in registers
  std::vector<RVar> over;
};

} // namespace quern::codegen
#endif
