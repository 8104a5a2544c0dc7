// What a kernel needs of tables that rows pick from.
#ifndef QUERN_IR_ANALYSIS_PICKED_H
#define QUERN_IR_ANALYSIS_PICKED_H

#include "ir/Dialect.h"

namespace quern::ir {

/// The gathers that pick from a value, if nothing else needs it, itself or what is computed from it element by element.
std::optional<llvm::SmallVector<GatherOp>> pickedBy(mlir::Value value);

/// Bytes that one run of a kernel reads of an argument, at least: all of it; of a table that is only picked from, each row
/// that can be picked once. Over the kernel's own lengths.
Size bytesRead(KernelOp kernel, unsigned argument);

} // namespace quern::ir
#endif
