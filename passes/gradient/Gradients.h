// What the gradient rules share: making operations by names of dimensions, and the table of rules.
#ifndef QUERN_PASSES_GRADIENT_GRADIENTS_H
#define QUERN_PASSES_GRADIENT_GRADIENTS_H

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace quern::passes {

/// Makes the operations of a gradient. Types follow from operands, so rules are written by names alone.
class GradientBuilder {
public:
  mlir::OpBuilder b;
  mlir::Location loc;

  GradientBuilder(mlir::OpBuilder builder, mlir::Location loc) : b(builder), loc(loc) {}

  template <class Op, class... Args> mlir::Value make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...)->getResult(0);
  }
  mlir::Value number(double value) { return make<ir::ConstOp>(value); }
  /// Zeros of a type's dimensions.
  mlir::Value zeros(ir::NamedTensorType type);
  mlir::Value add(mlir::Value x, mlir::Value y) { return make<ir::AddOp>(x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return make<ir::SubOp>(x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return make<ir::MulOp>(x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return make<ir::DivOp>(x, y); }
  mlir::Value neg(mlir::Value x) { return make<ir::NegOp>(x); }
  mlir::Value compare(ir::Predicate predicate, mlir::Value x, mlir::Value y) {
    return make<ir::CompareOp>(predicate, x, y);
  }
  mlir::Value choose(mlir::Value condition, mlir::Value x, mlir::Value y) { return make<ir::WhereOp>(condition, x, y); }
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<llvm::StringRef> over);
  /// `g` with just the names of `to`: summed over those that `to` lacks, repeated along those that `g` lacks.
  mlir::Value fit(mlir::Value g, ir::NamedTensorType to);
  /// g * x, summed over names that `to` lacks, repeated along those that both lack.
  mlir::Value productSum(mlir::Value g, mlir::Value x, ir::NamedTensorType to);
  /// g * slope where an exact 0 in g wins over an infinite slope: what `where` did not choose has no gradient. `tame`:
  /// the slope is surely finite, so the plain product will do.
  mlir::Value times(mlir::Value g, mlir::Value slope, bool tame);
};

/// Ranges that follow from how a value is made.
bool isPositive(mlir::Value value);
bool isNonnegative(mlir::Value value);
bool isNonpositive(mlir::Value value);

/// What a rule is given: an operation, the gradient of its (first) result, and where its operands' gradients go.
class RuleInput : public GradientBuilder {
public:
  mlir::Operation *op;
  mlir::Value g;

  RuleInput(mlir::OpBuilder builder, mlir::Operation *op, mlir::Value g, llvm::function_ref<bool(mlir::Value)> needed,
            llvm::function_ref<void(mlir::Value, mlir::Value, ir::CutOp)> give)
      : GradientBuilder(builder, op->getLoc()), op(op), g(g), needed(needed), give(give) {}

  mlir::Value x(unsigned i = 0) { return op->getOperand(i); }
  mlir::Value y() { return op->getResult(0); }
  ir::NamedTensorType type(unsigned i = 0) { return ir::typeOf(op->getOperand(i)); }
  bool needs(unsigned i = 0) { return needed(x(i)); }
  /// The gradient of operand i, already of its names.
  void to(unsigned i, mlir::Value gradient) { give(x(i), gradient, ir::CutOp()); }
  /// The same, of any names.
  void fitted(unsigned i, mlir::Value gradient) { to(i, fit(gradient, type(i))); }
  /// The gradient of the part of operand 0 that `cut` takes; the rest has none.
  void part(mlir::Value gradient, ir::CutOp cut) { give(x(0), gradient, cut); }
  /// The gradient of `value`, which an operand is made from, past the operations between.
  void of(mlir::Value value, mlir::Value gradient) { give(value, gradient, ir::CutOp()); }

private:
  llvm::function_ref<bool(mlir::Value)> needed;
  llvm::function_ref<void(mlir::Value, mlir::Value, ir::CutOp)> give;
};

using GradientRule = void (*)(RuleInput &);

/// Of an attention that `prepareAttentions` let be one (DifferentiateAttention.cpp).
void attentionRule(RuleInput &input);
/// The dimension that only queries have: the innermost whose size only the run knows, as texts of a batch may share
/// keys.
std::optional<ir::DimAttr> queryDim(ir::AttentionOp op);
/// Each attention in `function` that `active` values flow through is made fit for its rule, or written out as plain
/// operations where that is impossible, with a remark (PrepareAttention.cpp).
void prepareAttentions(mlir::func::FuncOp function, const llvm::DenseSet<mlir::Value> &active);
/// `op` in its place with the two numbers of each row's softmax beside its sum, or without them (nobody may read them).
ir::AttentionOp setStatistics(ir::AttentionOp op, bool wanted);
/// `op`, whose sum alone is read, as products, softmax and sum in its place (WriteOutAttention.cpp).
void writeOut(ir::AttentionOp op);

/// Why an operation may lack a rule.
enum class NoRule {
  Constant, // nothing flows through it: numbers, positions, parameters (whose gradient is the result)
  Discrete, // its result is int or bool, or jumps: no gradient
  Walk,     // loops and their ends: the walk itself treats them (Differentiate.cpp)
  Later     // caches and kernels come after differentiation
};

/// The rule for an operation by its mnemonic, or why there is none. Every operation of the dialect is here; a test
/// compares.
struct RuleEntry {
  GradientRule rule = nullptr;
  NoRule without = NoRule::Constant;
};
const llvm::StringMap<RuleEntry> &gradientRules();

} // namespace quern::passes
#endif
