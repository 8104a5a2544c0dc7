// A product of values as they lie in memory, packed part by part of the depth.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_DENSECONTRACTION_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_DENSECONTRACTION_H

#include "codegen/halide/contraction/Contraction.h"

namespace quern::codegen {

class DenseContraction : Contraction {
public:
  DenseContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  void define();

private:
  struct Products {
    Func strip, sums; ///< columns over a part of the depth; sums of a tile in registers
    Func wide;        ///< rows over a part of the depth, in f32 where they lie in bf16
    RVar over;
  };
  void accumulate();
  Products productsOver(const Halide::RDom &k, const Expr &position, std::vector<Var> args, Index index);
  Expr sumAt(const std::vector<Expr> &call) const;
  void scheduleProducts(Products &out, const Halide::LoopLevel &tiles, const Halide::LoopLevel &copies);
  void schedule(Stage &target);

  const PlanPart &plan;
  int unroll, group, partDepth, shallowParts; ///< the last: of the depth, that need no totals
  bool narrow;                                ///< x is bf16 in memory
  bool wholeParts;
  Func totals;              ///< what results read
  Products products, whole; ///< in parts of the depth, and over all of it
  Expr shallow;             ///< whether the depth is short enough for `whole`, where only the run knows
  Func groups;              ///< a copy of x
  Halide::RDom parts;
};

} // namespace quern::codegen
#endif
