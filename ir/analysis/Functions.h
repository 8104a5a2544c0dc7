// What a function of the program is to others: the names that users see, defaults of its arguments, its role.
#ifndef QUERN_IR_ANALYSIS_FUNCTIONS_H
#define QUERN_IR_ANALYSIS_FUNCTIONS_H

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace quern::ir {

/// The name of a function's argument or result (`quern.name`); empty if it has none.
llvm::StringRef argumentName(mlir::func::FuncOp function, unsigned index);
llvm::StringRef resultName(mlir::func::FuncOp function, unsigned index);

/// The result that a text is scored with: the only one, or of several the one named `logits`; -1: there is none.
int scoredResult(mlir::func::FuncOp function);

/// The function that computes an argument's default (`quern.default`), or nothing: the argument is not optional.
mlir::func::FuncOp defaultOf(mlir::func::FuncOp function, unsigned index);

/// Which form of another function it is; nothing for a function of the spec.
std::optional<Role> roleOf(mlir::func::FuncOp function);
void setRole(mlir::func::FuncOp function, Role role, llvm::StringRef of = "");
/// The name of the function that it is a form of; its own if it is one of the spec.
llvm::StringRef originOf(mlir::func::FuncOp function);
/// The form of the function named `of` that has a role; null if there is none.
mlir::func::FuncOp formOf(mlir::ModuleOp module, llvm::StringRef of, Role role);

/// True for a function of comparisons of lengths alone (passes/incremental/Incremental.cpp): it stays an expression,
/// without kernels.
bool isEpoch(mlir::func::FuncOp function);

} // namespace quern::ir
#endif
