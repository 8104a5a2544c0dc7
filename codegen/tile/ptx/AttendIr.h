// What both forms of attention are written with: of a warp, scores where the sums of its products are in registers, their
// softmax, and what becomes of the totals.
#ifndef QUERN_CODEGEN_TILE_PTX_ATTENDIR_H
#define QUERN_CODEGEN_TILE_PTX_ATTENDIR_H

#include "codegen/tile/ptx/TensorIr.h"

namespace quern::codegen::tile {

class AttendIr : public TensorIr {
protected:
  using Numbers = std::vector<llvm::Value *>;
  AttendIr(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module);

  const Attend &a;
  int ownRows, blocks; ///< of a warp; of 16 rows
  bool softmax;
  llvm::Value *row0 = nullptr, *rows = nullptr, *keys = nullptr, *end = nullptr;
  llvm::Value *warpRow = nullptr;                        ///< the warp's first, of the block's
  llvm::Value *wholeFrom = nullptr, *wholeEnd = nullptr; ///< keys that all rows see
  std::vector<size_t> totalAt;                           ///< where a total's sums are in `acc`
  /// [total][block][8 columns][4], then of a softmax for each block and half the largest score, which lacks its scale, and
  /// the sum.
  Numbers acc;
  size_t mostAt = 0;
  Numbers ownRow; ///< of each block and half: the row that it stands for, within what there is

  llvm::Value *real(double value) { return llvm::ConstantFP::get(b.getFloatTy(), value); }
  llvm::Value *&total(size_t t, int i, int n, int e) {
    return acc[totalAt[t] + (size_t(i) * size_t(a.totals[t].v.padded() / 8) + size_t(n)) * 4 + size_t(e)];
  }
  llvm::Value *&most(int i, int half) { return acc[mostAt + size_t(2 * i + half)]; }
  llvm::Value *&sum(int i, int half) { return acc[mostAt + size_t(2 * (blocks + i) + half)]; }
  using KernelIr::most;
  llvm::Value *rowOf(int i, int half) { return add(add(row0, add(warpRow, divide(lane, 4))), 16 * i + 8 * half); }
  llvm::Value *lastRow() { return add(rows, -1); }

  /// Two numbers as words of bf16, `low` in the lower half; `finite`: no infinity is among them.
  Numbers words(llvm::Value *low, llvm::Value *high, int pieces, bool finite);

  /// Which rows are the block's; the first key that it looks at, and `end`.
  llvm::Value *place();
  /// What all of a warp's rows from `first` to `last` see, what follows from its rows alone, and sums that are still 0.
  void prepare(llvm::Value *first, llvm::Value *last);
  /// What is made of a row's and a key's sums [block][8 keys][4]; beyond the last key it is `nothing`.
  Numbers evaluated(int value, const std::vector<Numbers> &dots, llvm::Value *k0, double nothing);
  /// The same of scores: where all rows see all keys of the tile, without the mask.
  Numbers scoresOf(const std::vector<Numbers> &dots, llvm::Value *k0);
  /// Scores become weights. What the totals so far count then, for each block and half.
  Numbers soften(Numbers &scores);
  /// Where that differs from 1 for some row of the warp.
  void rescale(const Numbers &keeps);
  /// Stores of totals and of rows.
  void finish();

private:
  llvm::Value *power(llvm::Value *x);
  llvm::Value *weight(llvm::Value *score, llvm::Value *shift);
  llvm::Value *shiftOf(llvm::Value *top);
  llvm::Value *larger(llvm::Value *x, llvm::Value *y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, x, y); }
  llvm::Value *across(llvm::Value *x, bool isMost);
  llvm::Value *within(int value, llvm::Value *row, int64_t more);
  void hoist();
  void storeTwo(const Store &one, llvm::Value *inside, const std::function<void(int)> &standAt);
  llvm::Value *closed(llvm::Value *row, llvm::Value *&largest, llvm::Value *&all);
};

} // namespace quern::codegen::tile
#endif
