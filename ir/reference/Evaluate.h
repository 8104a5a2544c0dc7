// How operations are evaluated: `QUERN_EVALUATE(AddOp) { ... }` in Evaluate*.cpp, and what several of these share.
#ifndef QUERN_IR_REFERENCE_EVALUATE_H
#define QUERN_IR_REFERENCE_EVALUATE_H

#include "ir/reference/Interpreter.h"

#include <limits>

#define QUERN_EVALUATE(OP)                                                                                             \
  LogicalResult OP::evaluate([[maybe_unused]] ArrayRef<Array> operands, [[maybe_unused]] Interpreter &interpreter,     \
                             [[maybe_unused]] Arrays &results)

namespace quern::ir {

using Arrays = std::vector<Array>;
using Dims = std::vector<NamedSize>;

/// Dimensions split into those not named and those named.
std::pair<Dims, Dims> divide(const Dims &dims, llvm::ArrayRef<llvm::StringRef> over);
Dims joined(const Dims &a, const Dims &b);
/// Sum of a * b over the dimensions named.
Array contracted(Array a, Array b, llvm::ArrayRef<llvm::StringRef> over);

/// The nearest number of bf16 to that of f32, as kernels round, whose real is f32.
double inBF16(double x);

} // namespace quern::ir
#endif
