// What a kernel needs of tables that rows are gathered from.
#ifndef QUERN_IR_ANALYSIS_GATHERED_H
#define QUERN_IR_ANALYSIS_GATHERED_H

#include "ir/Dialect.h"

namespace quern::ir {

/// The gathers from a value, if nothing else needs it, itself or what is computed from it element by element.
std::optional<llvm::SmallVector<GatherOp>> gatheredBy(mlir::Value value);

/// Bytes that one run of a kernel reads of an argument, at least: all of it; of a table that is only gathered from, each row
/// that can be gathered once. Over the kernel's own lengths.
Size bytesRead(KernelOp kernel, unsigned argument);

} // namespace quern::ir
#endif
