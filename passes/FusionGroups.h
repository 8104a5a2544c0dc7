// Which values of a function become buffers: the results of its kernels. Everything else is computed inside them.
#ifndef QUERN_PASSES_FUSION_GROUPS_H
#define QUERN_PASSES_FUSION_GROUPS_H

#include "passes/Views.h"
#include "passes/Without.h"

#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace quern::passes {

/// An analysis of one function (loops included). The rules are in FusionGroups.cpp, one function each.
class FusionGroups {
public:
  explicit FusionGroups(mlir::func::FuncOp function, const Without &without = {});

  /// True where a kernel ends: the value is stored.
  bool isRoot(mlir::Value value) const { return roots.contains(value); }
  /// Where a value lies, if it is stored or a window of something stored.
  const View *viewOf(mlir::Value value) const {
    auto it = views.find(value);
    return it == views.end() ? nullptr : &it->second;
  }
  /// The value is made from positions, lengths and constants by simple operations: cheaper made again than stored.
  bool isCheap(mlir::Value value);

private:
  void collect(mlir::Block &block);
  void force();
  void findAttention();
  void extendEpilogues();
  void splitShared();
  void separate(const Without &without);
  void computeViews();
  /// Makes `value` a root, or the value that it is a window of.
  void require(mlir::Value value);
  mlir::Value epilogueEnd(mlir::Value start);

  llvm::SmallVector<mlir::Operation *> order; // all operations, blocks nested, in program order
  llvm::DenseSet<mlir::Value> roots;
  llvm::DenseSet<mlir::Value> inner;          // scores and weights of attention: never stored
  llvm::DenseMap<mlir::Value, bool> cheap;
  llvm::DenseMap<mlir::Value, View> views;
};

/// Elementwise: one element of the result from the same element of the operands.
bool isElementwise(mlir::Operation *op);

} // namespace quern::passes
#endif
