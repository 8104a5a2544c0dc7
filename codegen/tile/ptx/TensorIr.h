// What launches on tensor cores are written with. Of any card: a ring of copies, fragments, their products. Of Hopper: barriers
// in shared memory, copies of whole boxes, products of warp groups (GroupIr.cpp).
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

  // ---- Hopper; addresses of shared memory are integers of 32 bits
  void does(const std::string &text, const std::string &constraints = "",
            const std::vector<llvm::Value *> &arguments = {});
  void makeBarrier(llvm::Value *barrier, int64_t arrivals);
  void arrive(llvm::Value *barrier); ///< once for the warp
  void expect(llvm::Value *barrier, int64_t bytes);
  /// Until the barrier's phase of this parity is over.
  void await(llvm::Value *barrier, llvm::Value *parity);
  /// The slot after this one, and the parity of its next phase.
  void advance(llvm::Value *&slot, llvm::Value *&parity, int slots);
  /// One copy of the operand's tensor. `number`: the operand's; `own0`, `k0`: where its box begins.
  void copyBox(const Operand &from, size_t number, llvm::Value *to, llvm::Value *own0, llvm::Value *k0,
               llvm::Value *barrier);
  /// Registers of a thread move from the group that copies to the others. 0: as the launch gave them.
  void giveRegisters(int left);
  void takeRegisters(int now);

  /// Where an operand's lines are, as tensor cores ask for it; the address is added. `deep`: its box along the depth.
  struct Lines {
    uint64_t high;
    int64_t step; ///< bytes between sixteen and sixteen of the depth
  };
  static Lines linesOf(const Operand &from, int64_t deep);
  llvm::Value *descriptor(llvm::Value *address, const Lines &lines);
  /// `tied`: registers that the instruction reads and writes, in place. `reads`: others that must be as they are until then.
  std::vector<llvm::Value *> inPlace(const std::string &text, const std::vector<llvm::Value *> &reads,
                                     const std::vector<llvm::Value *> &tied);
  /// wgmma m64nNk16: a descriptor or four registers for the left factor. Without `sums` they begin at 0.
  std::vector<llvm::Value *> multiplyGroup(int columns, const std::vector<llvm::Value *> &x, llvm::Value *w,
                                           bool depthInner, const std::vector<llvm::Value *> &sums,
                                           bool depthInnerOfX = true);
};

} // namespace quern::codegen::tile
#endif
