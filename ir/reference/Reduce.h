// What evaluations that combine positions share.
#ifndef QUERN_IR_REFERENCE_REDUCE_H
#define QUERN_IR_REFERENCE_REDUCE_H

#include "ir/reference/Interpreter.h"

namespace quern::ir {

using Dims = std::vector<NamedSize>;

/// Dimensions split into those not named and those named.
std::pair<Dims, Dims> divide(const Dims &dims, llvm::ArrayRef<llvm::StringRef> over);
Dims joined(const Dims &a, const Dims &b);
/// Sum of a * b over the dimensions named.
Array contracted(Array a, Array b, llvm::ArrayRef<llvm::StringRef> over);

} // namespace quern::ir
#endif
