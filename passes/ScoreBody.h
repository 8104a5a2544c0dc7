// What is made element by element from products of queries and keys: the body of attention and of its gradient.
#ifndef QUERN_PASSES_SCOREBODY_H
#define QUERN_PASSES_SCOREBODY_H

#include "ir/Dialect.h"

#include "llvm/ADT/SetVector.h"

namespace quern::passes {

/// Element by element, or the same elements with other dimensions around them.
bool isElementByElement(mlir::Operation *op);

struct ScoreBody {
  llvm::SmallVector<ir::ContractOp> products;
  llvm::SetVector<mlir::Operation *> operations; ///< what depends on a product

  bool contains(mlir::Value value) const;
  /// What the operations read, but each other, products and constants.
  llvm::SmallVector<mlir::Value> inputs() const;
  /// Fills the region: arguments for products, then for `inputs`; it yields copies of `yielded`.
  void copyInto(mlir::Region &region, llvm::ArrayRef<mlir::Value> inputs, llvm::ArrayRef<mlir::Value> yielded,
                mlir::Location loc) const;
};

/// Backwards from `values` through pointwise operations of their block to products, both in program order.
ScoreBody collectBody(llvm::ArrayRef<mlir::Value> values, mlir::Block *block,
                      llvm::function_ref<bool(ir::ContractOp)> isProduct);

/// Erases what has no users left, from the end.
void eraseDead(mlir::Block &block);

} // namespace quern::passes
#endif
