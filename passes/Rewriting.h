// Small helpers on labels and operations that passes share.
#ifndef QUERN_PASSES_REWRITING_H
#define QUERN_PASSES_REWRITING_H

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace quern::passes {

/// Dimensions by their old names: what stands for each.
using Relabelling = std::map<std::string, ir::DimAttr>;

/// `type` with dimensions replaced.
ir::NamedTensorType relabelled(ir::NamedTensorType type, const Relabelling &table);
/// Replaces dimensions in an operation's attributes and result types (regions excluded).
void relabel(mlir::Operation *op, const Relabelling &table);
/// `value` under other labels; itself if it has none that the table replaces.
mlir::Value renamed(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, const Relabelling &table);
/// Whether the operation treats the dimension other than position by position: reduces, gathers, cuts, renames, makes
/// it.
bool touches(mlir::Operation *op, llvm::StringRef label);
/// Whether results follow position by position from the operands, along every dimension that `touches` denies.
bool isPointwise(mlir::Operation *op);
/// `op` on other operands, with the result types that follow from them.
mlir::Operation *cloneOn(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands);
/// Moves what `value` is made of before `place`, as far as it stands behind it in the same block.
void moveBefore(mlir::Value value, mlir::Operation *place);
/// Erases what nothing uses, loops' bodies included.
void eraseDead(mlir::func::FuncOp function);
/// Number of iterations of all loops around an operation; 0 outside of loops.
int64_t iterationsAround(mlir::Operation *op);

} // namespace quern::passes
#endif
