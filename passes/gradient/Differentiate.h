// The walk of reverse mode over one function; Differentiate.cpp has blocks, DifferentiateLoop.cpp loops.
#ifndef QUERN_PASSES_GRADIENT_DIFFERENTIATE_H
#define QUERN_PASSES_GRADIENT_DIFFERENTIATE_H

#include "passes/gradient/Gradients.h"
#include "support/Machine.h"

#include "llvm/ADT/MapVector.h"

namespace quern::passes {

/// What decides between saving and making again.
struct Recomputing {
  bool allowed = true;
  double price = 0;
  bool narrow = false; ///< what is saved is kept in bf16
  int64_t segment = 0; ///< iterations of a segment; 0: loops are not cut
  support::Machine machine = support::assumedMachine();
};

/// A contribution to a value's gradient: all of it, or of the part that `cut` takes.
struct GradientPart {
  mlir::Value value;
  ir::CutOp cut;
};

/// The gradient of a parameter: of one tensor, or of one for each iteration of the loops around it (leading dimensions).
struct ParameterGradient {
  mlir::ArrayAttr paths;
  ir::NamedTensorType type; ///< what the result is to be
  mlir::Value gradient;
};

class Differentiator {
public:
  /// `adaptersAlone`: all other parameters are frozen.
  Differentiator(mlir::func::FuncOp function, Recomputing recomputing, bool adaptersAlone)
      : function(function), recomputing(recomputing), adaptersAlone(adaptersAlone) {}
  /// Makes the function return the gradients of all parameters that are trained beside its loss.
  mlir::LogicalResult run();

private:
  bool isTrained(ir::ParamOp param) const;
  mlir::LogicalResult liftParameters();
  bool isActiveResult(mlir::Operation *op, mlir::Value result) const;
  void findActive(mlir::Block &block);
  void give(mlir::Value value, mlir::Value gradient, ir::CutOp cut);
  /// The sum of what was given to a value, made at `builder`; nothing if nothing was.
  mlir::Value gradientOf(mlir::Value value, mlir::OpBuilder &builder);
  mlir::Value gradientOrZeros(mlir::Value value, mlir::OpBuilder &builder);
  mlir::LogicalResult reverseOp(mlir::Operation *op, mlir::OpBuilder &builder);
  /// The gradients of everything in `block`, made at `builder`; parameters of the block go to `found`, the last first.
  mlir::LogicalResult reverseBlock(mlir::Block &block, mlir::OpBuilder &builder, std::vector<ParameterGradient> &found);
  mlir::LogicalResult reverseLoop(ir::RepeatOp repeat, mlir::OpBuilder &builder, std::vector<ParameterGradient> &found);

  /// What a quern.scan makes active, and its gradient.
  void findActiveIn(mlir::Operation *scan);
  mlir::LogicalResult reverseScan(mlir::Operation *scan, mlir::OpBuilder &builder);

  mlir::func::FuncOp function;
  Recomputing recomputing;
  bool adaptersAlone;
  llvm::DenseSet<mlir::Value> active;
  llvm::MapVector<mlir::Value, llvm::SmallVector<GradientPart>> pending;
};

/// Cuts the function's loops into segments of `iterations` iterations (SegmentLoops.cpp).
void segmentLoops(mlir::func::FuncOp function, int64_t iterations);

/// What the gradient of a loop's body reads of the forward iteration (values of `body` used inside `gradient`): replaced by
/// parts of stacks, which become new arguments of `gradient`, or by operations done again there. Returns what must be
/// saved.
llvm::SmallVector<mlir::Value> saveForGradient(mlir::Block &body, mlir::Block &gradient, const Recomputing &how);

/// The same outside of loops, for a gradient that stands behind the function in its block: what is recomputed is
/// marked, so that it stays apart from what it repeats.
void repeatForGradient(mlir::Operation *firstOfGradient, const Recomputing &how);

} // namespace quern::passes
#endif
