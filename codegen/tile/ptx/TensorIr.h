// What launches on tensor cores of compute capability 8.0 are written with: a ring of copies, fragments, their products.
#ifndef QUERN_CODEGEN_TILE_PTX_TENSORIR_H
#define QUERN_CODEGEN_TILE_PTX_TENSORIR_H

#include "codegen/tile/ptx/KernelIr.h"

namespace quern::codegen::tile {

class TensorIr : public KernelIr {
protected:
  using KernelIr::KernelIr;
  using Step = std::function<void(llvm::Value *slot, llvm::Value *at)>;

  /// Each of a block's `threads` copies some of `count` pieces.
  void pieces(int count, int threads, const std::function<void(llvm::Value *piece)> &copy);
  void commitCopies();
  /// For `at` from `from`, by `step`, while it is less than `to`: copies run `stages` - 1 steps ahead, into the slot that the
  /// step before left. The first of them are already begun. `carried` go from step to step.
  void ring(llvm::Value *from, llvm::Value *to, int step, int stages, std::vector<llvm::Value *> &carried,
            const Step &copy, const Step &use);
  /// Four matrices of 8 x 8 (ldmatrix); a lane says where a row of one of them is.
  std::vector<llvm::Value *> matrices(llvm::Value *bytes, bool transposed);
  /// Adds a product of fragments (mma.sync m16n8k16, bf16) to four sums.
  void multiplyAdd(const std::vector<llvm::Value *> &x, llvm::Value *w0, llvm::Value *w1, llvm::Value **sums);
};

} // namespace quern::codegen::tile
#endif
