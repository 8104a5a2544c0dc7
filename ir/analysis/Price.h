// What operations take on a machine: choices that weigh computing against memory ask here, and CostOpInterface is what
// counts.
#ifndef QUERN_IR_ANALYSIS_PRICE_H
#define QUERN_IR_ANALYSIS_PRICE_H

#include "ir/Dialect.h"
#include "support/Machine.h"

namespace quern::ir {

/// Seconds to compute the results of `op` once from operands that are at hand. `at`: what a size counts for.
double secondsToCompute(mlir::Operation *op, const support::Machine &machine,
                        llvm::function_ref<double(const Size &)> at);
/// Seconds to write or read a number.
double secondsToMove(Storage storage, const support::Machine &machine);
/// Seconds to round a number that is computed to a storage of fewer bits, and to widen it again; 0 where nothing is done.
double secondsToNarrow(Storage storage, const support::Machine &machine);

} // namespace quern::ir
#endif
