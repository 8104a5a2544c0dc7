// Few rows of weights as they are stored, one for each head: read once, nothing packed.
#ifndef QUERN_CODEGEN_HALIDE_CONTRACTION_FEWROWS_H
#define QUERN_CODEGEN_HALIDE_CONTRACTION_FEWROWS_H

#include "codegen/halide/contraction/Contraction.h"

namespace quern::codegen {

/// A way of a dense product that the run takes where there are few rows.
class FewRows : Contraction {
public:
  FewRows(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan);
  /// The products.
  Func define();
  /// Whether there are few.
  Expr isFew() const;

private:
  const PlanPart &plan;
};

} // namespace quern::codegen
#endif
