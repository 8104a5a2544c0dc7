// Questions about values that several rules of fusion ask.
#ifndef QUERN_PASSES_FUSE_FUSIONVALUES_H
#define QUERN_PASSES_FUSE_FUSIONVALUES_H

#include "ir/Dialect.h"

namespace quern::passes {

/// Stored before any kernel runs: arguments, parameters, caches.
bool isBuffer(mlir::Value value);
/// The value that `value` is a window of, as far as strides can say it if that one is stored densely.
mlir::Value windowed(mlir::Value value);
bool overRunTimeDim(ir::NamedTensorType type, llvm::ArrayRef<llvm::StringRef> dims);

} // namespace quern::passes
#endif
