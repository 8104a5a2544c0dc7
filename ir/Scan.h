// The operation quern.scan: recurrences over a dimension.
#ifndef QUERN_IR_SCAN_H
#define QUERN_IR_SCAN_H

#include "ir/Dialect.h"

#define GET_OP_CLASSES
#include "ir/ScanOps.h.inc"

namespace quern::ir {

/// `type` without the dimension.
NamedTensorType sliceOf(NamedTensorType type, llvm::StringRef dim);
/// `part` with the dimension: behind `batch` if that is its first dimension, else first.
NamedTensorType stackedAlong(NamedTensorType part, DimAttr dim, llvm::StringRef batch = "");

/// The last dimension of a carried value that the body treats element by element alone: vectors can run along it. Not
/// `batch`, whose length is the caller's. Null if there is none.
DimAttr laneOf(ScanOp scan, unsigned carried, DimAttr batch);

/// Takes what nothing uses out of a scan: results, carried values that only their own updates read, arguments. The scan
/// that has none of it, which stands in the place of the old one; `scan` itself if there was nothing to take out.
ScanOp prune(ScanOp scan, mlir::RewriterBase &rewriter);

} // namespace quern::ir
#endif
