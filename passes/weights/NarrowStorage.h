// What a gradient keeps in two bytes with `--precision bf16`: asked before, where saving is priced, and by the pass
// that does it.
#ifndef QUERN_PASSES_WEIGHTS_NARROWSTORAGE_H
#define QUERN_PASSES_WEIGHTS_NARROWSTORAGE_H

#include "ir/Dialect.h"

namespace quern::passes {

/// Operations that neither change nor gather numbers, but for their order: bf16 goes through them.
bool movesNarrow(mlir::Operation *op);
/// What `value` is made from by such moves of one operand alone.
mlir::Value withoutMoves(mlir::Value value);

/// `value` rounded to bf16, by a `narrow` and a `widen` behind it.
mlir::Value roundedToBF16(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

/// Caches of positions in bf16, or in int8 with scales (NarrowCaches.cpp). `ofSteps`: not those of the spec's own functions, which
/// read whole texts.
void narrowCaches(mlir::ModuleOp module, ir::Storage storage, bool ofSteps);

/// A copy of `op`, behind it, that gives `storage`: of a parameter, or of what only moves numbers, with `operands` in that.
mlir::Value copyStoredIn(ir::Storage storage, mlir::OpBuilder &builder, mlir::Operation *op,
                         llvm::ArrayRef<mlir::Value> operands = {});

/// Each operand has a dimension of its own, or one is a matrix that each row is routed to.
bool isMatrixProduct(ir::ContractOp op);

/// What matrix products of `op` read: a contraction's operands, an attention's queries, keys and values, those of its
/// gradient.
llvm::SmallVector<mlir::OpOperand *> productOperands(mlir::Operation *op);

/// Follows from reductions alone, element by element: a largest score, the inverse of a sum, a norm's divisor; or is
/// a statistic of an attention.
bool isStatistic(mlir::Value value);

/// Where a value is kept for the gradient: on a loop's stack, or outside of loops.
enum class Kept { OnStack, InPlace };

/// Whether `value` is kept in bf16, where the module stores that.
bool isKeptNarrow(mlir::Value value, Kept kept);

} // namespace quern::passes
#endif
