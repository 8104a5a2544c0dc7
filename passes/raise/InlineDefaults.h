// Inputs that may be left out, and are.
#ifndef QUERN_PASSES_RAISE_INLINEDEFAULTS_H
#define QUERN_PASSES_RAISE_INLINEDEFAULTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace quern::passes {

/// Puts the bodies of the functions that compute them in place of the optional arguments, and drops these.
void inlineDefaults(mlir::func::FuncOp function);

} // namespace quern::passes
#endif
