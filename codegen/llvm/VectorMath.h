// The elementwise functions of the language in LLVM IR, of floats or vectors of them, without calls or branches.
#ifndef QUERN_CODEGEN_LLVM_VECTORMATH_H
#define QUERN_CODEGEN_LLVM_VECTORMATH_H

#include "codegen/kernel/KernelGraph.h"

#include "llvm/IR/IRBuilder.h"

namespace quern::codegen {

/// The polynomials are those of halide/Math.cpp, which says where they come from.
class VectorMath {
public:
  explicit VectorMath(llvm::IRBuilder<> &builder) : b(builder) {}

  llvm::Value *exp(llvm::Value *x);
  llvm::Value *expm1(llvm::Value *x);
  llvm::Value *log(llvm::Value *x);
  llvm::Value *log1p(llvm::Value *x);
  llvm::Value *sigmoid(llvm::Value *x);
  llvm::Value *tanh(llvm::Value *x);
  llvm::Value *erf(llvm::Value *x);
  llvm::Value *pow(llvm::Value *a, llvm::Value *b);
  /// sqrt, floor, ceil, nearbyint, sin, cos, fabs.
  llvm::Value *intrinsic(llvm::Intrinsic::ID id, llvm::Value *x);
  llvm::Value *max(llvm::Value *a, llvm::Value *b);
  llvm::Value *min(llvm::Value *a, llvm::Value *b);
  /// Cut towards zero; NaN is 0, what is too large the largest.
  llvm::Value *toInt(llvm::Value *x);
  llvm::Value *asReal(llvm::Value *x);
  /// An elementwise operation of operands of these kinds, scalars or vectors alike.
  llvm::Value *elementwise(const Node &node, const std::vector<Kind> &kinds, std::vector<llvm::Value *> operands);

private:
  llvm::IRBuilder<> &b;

  llvm::Value *floorDivide(llvm::Value *a, llvm::Value *c);
  llvm::Value *number(llvm::Value *like, double value);
  llvm::Type *ints(llvm::Value *like);
  llvm::Value *bits(llvm::Value *x);
  llvm::Value *floats(llvm::Value *bits, llvm::Value *like);
  llvm::Value *polynomial(llvm::Value *x, std::initializer_list<float> coefficients);
  llvm::Value *fma(llvm::Value *x, llvm::Value *y, llvm::Value *z);
  llvm::Value *withSign(llvm::Value *magnitude, llvm::Value *x);
  llvm::Value *nanThrough(llvm::Value *x, llvm::Value *result);
};

} // namespace quern::codegen
#endif
