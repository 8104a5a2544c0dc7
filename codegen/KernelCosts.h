// What a kernel must do at least.
#ifndef QUERN_CODEGEN_KERNELCOSTS_H
#define QUERN_CODEGEN_KERNELCOSTS_H

#include "ir/Dialect.h"

namespace quern::codegen {

/// Lower bounds of one run. Why lower: a rate made from them is never better than what was reached.
struct KernelCosts {
  ir::Size products; ///< multiply-adds of contractions and attentions, each as two
  ir::Size flops;    ///< those and all other arithmetic on reals, as CostOpInterface counts it
  ir::Size bytes;    ///< arguments and results, each once; of tables what can be gathered (ir/analysis/Gathered.h)
};

/// Over the kernel's own lengths. Of attention and its gradient only pairs of a query and a key count that the mask lets see
/// each other, as far as lengths decide (of masks that are data nothing is known).
KernelCosts costsOf(ir::KernelOp kernel);
/// The same over the caller's.
KernelCosts costsOf(ir::LaunchOp launch);

/// What a kernel computes, as a number in hexadecimal: equal kernels of any programs have the same, whatever their names
/// and plans are.
std::string contentOf(ir::KernelOp kernel);

} // namespace quern::codegen
#endif
