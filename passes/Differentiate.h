// The walk of reverse mode over one function; Differentiate.cpp has blocks, DifferentiateLoop.cpp loops.
#ifndef QUERN_PASSES_DIFFERENTIATE_H
#define QUERN_PASSES_DIFFERENTIATE_H

#include "passes/Gradients.h"

#include "llvm/ADT/MapVector.h"

#include <memory>

namespace mlir {
class Pass;
}

namespace quern::passes {

/// In a module to be trained adds @loss.grad: the loss and the gradient of every parameter. `recompute`: what is cheaper made
/// again than saved is not saved. The module's priceAttr makes saving dearer.
std::unique_ptr<mlir::Pass> createDifferentiatePass(bool recompute = true);

/// On a module: seconds that saving a byte costs beyond its traffic. The higher, the less a gradient saves (`--memory`).
inline constexpr llvm::StringLiteral priceAttr = "quern.saving_price";

/// What decides between saving and making again.
struct Recomputing {
  bool allowed = true;
  double price = 0;
};

/// A contribution to a value's gradient: all of it, or of the part that `cut` takes.
struct GradientPart {
  mlir::Value value;
  ir::CutOp cut;
};

/// The gradient of a parameter: of one tensor, or of one for each turn of the loops around it (leading dimensions).
struct ParameterGradient {
  mlir::ArrayAttr paths;
  ir::NamedTensorType type; ///< what the result is to be
  mlir::Value gradient;
};

class Differentiator {
public:
  Differentiator(mlir::func::FuncOp function, Recomputing recomputing) : function(function), recomputing(recomputing) {}
  /// Makes the function return the gradients of all of its parameters beside its loss.
  mlir::LogicalResult run();

private:
  void findActive(mlir::Block &block);
  void give(mlir::Value value, mlir::Value gradient, ir::CutOp cut);
  /// The sum of what was given to a value, made at `builder`; nothing if nothing was.
  mlir::Value gradientOf(mlir::Value value, mlir::OpBuilder &builder);
  mlir::Value gradientOrZeros(mlir::Value value, mlir::OpBuilder &builder);
  mlir::LogicalResult reverseOp(mlir::Operation *op, mlir::OpBuilder &builder);
  /// The gradients of everything in `block`, made at `builder`; parameters of the block go to `found`, the last first.
  mlir::LogicalResult reverseBlock(mlir::Block &block, mlir::OpBuilder &builder, std::vector<ParameterGradient> &found);
  mlir::LogicalResult reverseLoop(ir::RepeatOp repeat, mlir::OpBuilder &builder, std::vector<ParameterGradient> &found);

  mlir::func::FuncOp function;
  Recomputing recomputing;
  llvm::DenseSet<mlir::Value> active;
  llvm::MapVector<mlir::Value, llvm::SmallVector<GradientPart>> pending;
};

/// What the gradient of a loop's body reads of the forward turn (values of `body` used inside `gradient`): replaced by
/// parts of stacks, which become new arguments of `gradient`, or by operations done again there. Returns what must be saved.
llvm::SmallVector<mlir::Value> saveForGradient(mlir::Block &body, mlir::Block &gradient, Recomputing how);

/// The same outside of loops, for a gradient that stands behind the function in its block: what is made again is marked, so
/// that it stays apart from what it repeats.
void repeatForGradient(mlir::Operation *firstOfGradient);
inline constexpr llvm::StringLiteral againAttr = "quern.again";

} // namespace quern::passes
#endif
