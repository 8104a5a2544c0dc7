// Takes: what copies and uses a step. Gives: loops in which copies run ahead, and the instructions of tensor cores.
//
// One barrier a step: behind it all warps have left the step before, and the copies that each thread waited for are seen by
// all.
#include "codegen/tile/ptx/TensorIr.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace quern::codegen::tile {

void TensorIr::pieces(int count, int threads, const std::function<void(llvm::Value *)> &copy) {
  for (int first = 0; first < count; first += threads) {
    llvm::Value *piece = add(thread, first);
    if (first + threads <= count)
      copy(piece);
    else
      when(b.CreateICmpSLT(piece, number(count)), [&] { copy(piece); });
  }
}

void TensorIr::commitCopies() {
  call(Intrinsic::nvvm_cp_async_commit_group, {});
}

void TensorIr::ring(llvm::Value *from, llvm::Value *to, int step, int stages, std::vector<llvm::Value *> &carried,
                    const Step &copy, const Step &use) {
  const size_t slots = carried.size(); // the one that is used and the one that is filled
  carried.push_back(number(0));
  carried.push_back(number(stages - 1));
  auto next = [&](llvm::Value *slot) {
    llvm::Value *following = add(slot, 1);
    return b.CreateSelect(b.CreateICmpEQ(following, number(stages)), number(0), following);
  };
  loop(from, to, number(step), carried, [&](llvm::Value *at) {
    llvm::Value *used = carried[slots], *filled = carried[slots + 1];
    call(Intrinsic::nvvm_cp_async_wait_group, {number(stages - 2)});
    barrier();
    copy(filled, add(at, (stages - 1) * step));
    use(used, at);
    carried[slots] = next(used), carried[slots + 1] = next(filled);
  });
  call(Intrinsic::nvvm_cp_async_wait_group, {number(0)});
}

std::vector<llvm::Value *> TensorIr::matrices(llvm::Value *bytes, bool transposed) {
  llvm::Value *from = shared(bytes);
  llvm::Value *four = call(transposed ? Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16
                                      : Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16,
                           {from}, {from->getType()});
  std::vector<llvm::Value *> registers;
  for (unsigned i = 0; i < 4; ++i)
    registers.push_back(b.CreateExtractValue(four, i));
  return registers;
}

void TensorIr::multiplyAdd(const std::vector<llvm::Value *> &x, llvm::Value *w0, llvm::Value *w1, llvm::Value **sums) {
  std::vector<llvm::Value *> arguments = x;
  arguments.push_back(w0), arguments.push_back(w1);
  arguments.insert(arguments.end(), sums, sums + 4);
  llvm::Value *four = call(Intrinsic::nvvm_mma_m16n8k16_row_col_bf16, arguments);
  for (unsigned e = 0; e < 4; ++e)
    sums[e] = b.CreateExtractValue(four, e);
}

} // namespace quern::codegen::tile
