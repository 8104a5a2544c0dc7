// Which values of a function become buffers: the results of its kernels. Everything else is computed inside them.
#ifndef QUERN_PASSES_FUSE_FUSIONGROUPS_H
#define QUERN_PASSES_FUSE_FUSIONGROUPS_H

#include "ir/Attributes.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Views.h"
#include "passes/Without.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace quern::passes {

/// An analysis of one function (loops included). The rules are in FusionGroups.cpp, one function each.
class FusionGroups {
public:
  explicit FusionGroups(mlir::func::FuncOp function, const Without &without = {});

  /// True where a kernel ends: the value is stored.
  bool isRoot(mlir::Value value) const { return roots.contains(value); }
  /// Where a value is, if it is stored or a window of something stored.
  const ir::View *viewOf(mlir::Value value) const {
    auto it = views.find(value);
    return it == views.end() ? nullptr : &it->second;
  }
  /// Values that one kernel gives together, in program order: the parts that a contraction's result goes into.
  llvm::ArrayRef<mlir::Value> jointWith(mlir::Value root) const {
    auto it = jointOf.find(root);
    return it == jointOf.end() ? llvm::ArrayRef<mlir::Value>() : llvm::ArrayRef<mlir::Value>(joint[it->second]);
  }
  /// The value is made from positions, lengths and constants by simple operations: cheaper recomputed than stored.
  bool isCheap(mlir::Value value);
  bool isLight(mlir::Operation *op);

private:
  void collect(mlir::Block &block);
  void force(const Without &without);
  void joinAttentions(); // FusionAttention.cpp
  void joinUpdate(mlir::func::FuncOp function);
  void makeJoint(llvm::SmallVector<mlir::Value> ends);
  void keepMasksInside(ir::AttentionGradientOp op);
  void branch();
  void joinCodes();
  void extendEpilogues();
  void splitShared();
  void roundOnReading();
  void separate(const Without &without);
  void dropImpossible();
  void computeViews();
  /// Makes `value` a root, or the value that it is a window of.
  void require(mlir::Value value);
  /// Makes exactly `value` a root.
  void store(mlir::Value value);
  mlir::Value epilogueEnd(mlir::Value start);
  void takeTaps(mlir::Value value);
  bool takePrologue(mlir::Value value, ir::ContractOp contract);
  llvm::SmallVector<mlir::Value> branchesOf(ir::ContractOp contract);
  bool availableAt(mlir::Operation *place, mlir::Value value, const llvm::DenseSet<mlir::Value> &within);

  llvm::SmallVector<mlir::Operation *> order; // all operations, blocks nested, in program order
  llvm::DenseSet<mlir::Value> roots;
  llvm::DenseSet<mlir::Value> forWindows; // roots of which only windows are asked for
  llvm::DenseSet<mlir::Value> inner;      // computed in each kernel that reads it: never stored
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> joint;
  llvm::DenseMap<mlir::Value, unsigned> jointOf;     // root -> index in `joint`
  llvm::DenseMap<unsigned, mlir::Value> jointSource; // the contraction of a joint group
  llvm::DenseSet<mlir::Value> branched;              // contractions whose roots are already known
  llvm::DenseMap<mlir::Value, bool> cheap;
  llvm::DenseMap<mlir::Value, ir::View> views;
};

/// Whether a contraction reads each number of the operand once, for a sum of a few that is not along memory: the taps of
/// a convolution. (codegen/kernel/ContractionPattern.cpp says which of them are written out.)
bool isTapped(ir::ContractOp contract, mlir::Value operand);

/// Says what each contraction's kernel takes along, and which norms are stored; `results`: of the kernel
/// (ExplainFusion.cpp).
void remarkFusion(llvm::ArrayRef<mlir::Operation *> order, const llvm::DenseSet<mlir::Value> &roots,
                  llvm::function_ref<size_t(ir::ContractOp)> results);

} // namespace quern::passes
#endif
