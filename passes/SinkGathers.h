// Gathers of experts moved before what computes them; used by the pass of its own and by the incremental lowering.
#ifndef QUERN_PASSES_SINKGATHERS_H
#define QUERN_PASSES_SINKGATHERS_H

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace quern::passes {

/// On a function: the variant for calls of at most this many rows (B * T), where it reads less than the one for many.
inline constexpr llvm::StringLiteral fewRows = "quern.few_rows";

/// Computes only what gathers pick (SinkGathers.cpp).
void sinkGathers(mlir::func::FuncOp function);
/// Up to how many rows that reads less than computing all does; 0: there is nothing to sink.
int64_t rowsWhereSinkingPays(mlir::func::FuncOp function);

/// `op` on other operands, with the result types that follow from them.
mlir::Operation *cloneOn(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands);

} // namespace quern::passes
#endif
