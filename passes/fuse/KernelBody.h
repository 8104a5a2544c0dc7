// The body of a kernel while it is cut out of a function, and its canonical form.
#ifndef QUERN_PASSES_FUSE_KERNELBODY_H
#define QUERN_PASSES_FUSE_KERNELBODY_H

#include "ir/analysis/Views.h"

namespace quern::passes {

/// One buffer of a kernel: the caller's value, and how it is laid out in memory.
struct KernelBuffer {
  mlir::Value value;                   ///< in the function
  llvm::SmallVector<ir::Size> strides; ///< per dimension of the body's type
  std::optional<int64_t> tile;         ///< packed weights: rows a tile
  /// Pairs of neighbouring dimensions that became one: `first` (the caller's label) stands for both.
  llvm::SmallVector<std::pair<ir::DimAttr, ir::DimAttr>> merged;
  int64_t beside = 1; ///< of packed weights: neighbours along the depth that are one word
};

/// A kernel under construction: `kernel` is not inserted anywhere yet.
struct KernelBody {
  ir::KernelOp kernel;
  llvm::SmallVector<KernelBuffer> inputs, outputs;
};

/// Changes the order of an argument's dimensions (and of its strides).
void reorder(KernelBody &body, unsigned index, llvm::ArrayRef<unsigned> order);

/// Makes one dimension of two that always occur together, one right after the other in memory: rows of a batch and
/// positions become one long list of rows. Repeats until nothing more fits.
void collapseDims(KernelBody &body);

/// The same for what leads to a kernel's contraction, where results need both dimensions (rows of a cache): its rows
/// are one dimension, which is split behind it.
void collapseInputDims(KernelBody &body);

/// The same for dimensions that are summed: a gradient's sum over a batch's rows and positions is one over all tokens.
void collapseSummedDims(KernelBody &body);

/// Gives dimensions and run-time symbols canonical names, sets the layouts, and returns for each symbol (in the order
/// of KernelOp::getSymbols) what it is for the caller.
llvm::SmallVector<ir::Size> canonicalize(KernelBody &body);

} // namespace quern::passes
#endif
