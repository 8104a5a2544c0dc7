// Sums over all positions of the text that a scan would carry from one to the next.
#ifndef QUERN_PASSES_TIME_SLOWSUMS_H
#define QUERN_PASSES_TIME_SLOWSUMS_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace quern::passes {

struct SlowSum {
  mlir::Location where;
  std::string sum, time; ///< labels: over what it runs, and what has a result for each
  std::string pair;      ///< the type of what has both
};

/// The sums of a module in phase `resolved` whose factors have two times of a text, go apart into products of one time
/// each, and are masked by an order of the two: their work and memory grow with the square of the text, those of a scan do
/// not. Attention is none of them (its weights do not go apart), nor is a sum without a mask.
std::vector<SlowSum> slowSums(mlir::ModuleOp module);

} // namespace quern::passes
#endif
