// States of running sums and scans as operations of their own.
#ifndef QUERN_PASSES_FUSE_EXPANDSTATES_H
#define QUERN_PASSES_FUSE_EXPANDSTATES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace quern::passes {

/// Every `state` and `states` of the function's running sums and scans becomes a quern.recall and a quern.store.
void expandStates(mlir::func::FuncOp function);

} // namespace quern::passes
#endif
