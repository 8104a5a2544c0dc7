// Contractions with what a fixed weight makes of remembered values, done in the other order; used by the pass of its
// own and by the incremental lowering, which remembers less where it counts on it.
#ifndef QUERN_PASSES_WEIGHTS_ABSORBPROJECTIONS_H
#define QUERN_PASSES_WEIGHTS_ABSORBPROJECTIONS_H

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace quern::passes {

/// What absorbing one projection adds and saves, in operations.
struct Absorption {
  double added;                            // for each new row and remembered position
  double expanded;                         // making the projection again, for each remembered position
  llvm::SmallVector<ir::ContractOp> meets; // the contractions that become two
  /// Up to how many new rows it is cheaper than making the projection again.
  int64_t rows() const;
};

/// For `y = contract(x, w)` with a fixed w, all of whose uses are contractions of new rows with it along memory: what
/// it costs to contract with x and then with w. Nothing if something else uses y. `isMemory`: dimensions over what is
/// remembered.
std::optional<Absorption> absorptionOf(ir::ContractOp y, ir::DimAttr batch,
                                       llvm::function_ref<bool(ir::DimAttr)> isMemory);

} // namespace quern::passes
#endif
