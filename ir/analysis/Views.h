// How a value is stored: a base buffer, an offset and one stride per dimension.
#ifndef QUERN_IR_ANALYSIS_VIEWS_H
#define QUERN_IR_ANALYSIS_VIEWS_H

#include "ir/analysis/Operations.h"

namespace quern::ir {

/// A value as a strided window of a buffer. Offsets and strides count elements.
struct View {
  mlir::Value base; ///< what owns the buffer: an argument, a parameter, a kernel's result, a `remember`
  Size offset;
  llvm::SmallVector<Size> strides; ///< one for each dimension of the value's type

  /// The whole of `value`, row-major in the order of its type.
  static View dense(mlir::Value value);
  /// Row-major strides for a type.
  static llvm::SmallVector<Size> denseStrides(NamedTensorType type);
};

/// How a value that is no view is stored: densely, but for rows of a cache (the result of `remember`).
View ownView(mlir::Value owner);

/// How any value of an outlined function is stored, traced through view-like operations to what owns the buffer.
View viewOf(mlir::Value value);

/// The result of a view-like `op` as a view, given its operand's. Nothing where strides cannot say it (a merge of
/// dimensions that do not follow each other in memory).
std::optional<View> viewThrough(mlir::Operation *op, const View &operand);

} // namespace quern::ir
#endif
