// Kinds of operations that several rooms distinguish.
#ifndef QUERN_IR_ANALYSIS_OPERATIONS_H
#define QUERN_IR_ANALYSIS_OPERATIONS_H

#include "ir/Dialect.h"

namespace quern::ir {

/// Elementwise: one element of the result from the same element of the operands.
bool isElementwise(mlir::Operation *op);

/// Whether it makes real numbers of those that are stored in fewer bits, as they are: widen, dequantize.
bool widensStored(mlir::Operation *op);
/// What such an operation reads, or the value itself.
mlir::Value storedBehind(mlir::Value value);

/// True for operations that may be mere changes of strides: rename, permute, split, merge, cut, unit, squeeze.
bool isViewLike(mlir::Operation *op);

} // namespace quern::ir
#endif
