// What the kernels of a function ask for while it runs.
#ifndef QUERN_CODEGEN_HOST_LAUNCHSCRATCH_H
#define QUERN_CODEGEN_HOST_LAUNCHSCRATCH_H

#include "codegen/kernel/Scratch.h"
#include "ir/Size.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace quern::codegen {

struct LaunchScratch {
  std::string kernel;
  Scratch scratch;                         ///< over the kernel's lengths
  std::map<std::string, ir::Size> lengths; ///< those by the function's
};

/// Of a planned function's launches; a kernel that is launched with the same lengths again and again stands here once.
std::vector<LaunchScratch> scratchOfLaunches(mlir::func::FuncOp function, const KernelScratch &kernels);

} // namespace quern::codegen
#endif
