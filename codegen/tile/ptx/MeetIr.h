// The end of a product of few rows.
#ifndef QUERN_CODEGEN_TILE_PTX_MEETIR_H
#define QUERN_CODEGEN_TILE_PTX_MEETIR_H

#include "codegen/tile/ptx/KernelIr.h"

namespace quern::codegen::tile {

/// What becomes of the sums of dots. Blocks that share columns have parts of their depth, and results may read sums of several
/// blocks' columns; then one of these blocks puts all together.
class MeetIr : public KernelIr {
public:
  MeetIr(const Program &program, const Stage &stage, const std::string &name, llvm::Module &module)
      : KernelIr(program, stage, name, module), slice(stage.slice), memory(sharedDotsOf(stage)) {}

protected:
  const int slice;
  const SharedDots memory;
  llvm::Value *rows = nullptr, *allColumns = nullptr; ///< set by whoever sums

  size_t parts() const { return s.w.size(); }
  /// Where blocks meet. Before anything is summed, as it comes late, or where registers are few when all is.
  void takeTicket();
  /// `own`: of each part, the block's sum of a row and a column of its slice, once all threads stand at the next barrier.
  void finish(const std::function<std::vector<llvm::Value *>(llvm::Value *row, llvm::Value *inSlice)> &own);
  /// In order.
  llvm::Value *added(int count, const std::function<llvm::Value *(int number)> &one);
  llvm::Value *ownRow(llvm::Value *row) { return least(row, add(rows, -1)); }

private:
  llvm::GlobalVariable *left = nullptr; ///< sums of parts of the depth
  llvm::Value *ticket = nullptr;
  llvm::Value *launch = nullptr; ///< its number; never 0, as what is there before the first launch

  llvm::GlobalVariable *kept(llvm::Type *each, int64_t count, const char *name);
  int64_t columnsOfAll() const { return s.columns.extent().constant().value(); }
  llvm::Value *firstOfGroup();
  void
  each(int width, llvm::Value *first,
       const std::function<void(llvm::Value *row, llvm::Value *in, llvm::Value *column, llvm::Value *isThere)> &use);
  void until(const std::function<llvm::Value *()> &body);
  llvm::Value *word(llvm::Value *split, size_t part, llvm::Value *row, llvm::Value *column);
  void leave(const std::vector<llvm::Value *> &made, llvm::Value *row, llvm::Value *column, llvm::Value *isThere);
  std::vector<llvm::Value *> collected(llvm::Value *row, llvm::Value *column);
  void keep(const std::vector<llvm::Value *> &made, llvm::Value *row, llvm::Value *column, llvm::Value *isThere);
  void put();
  llvm::Value *togetherAt(llvm::Value *row, llvm::Value *in);
  llvm::Value *sumAt(llvm::Value *row, llvm::Value *column) override;
};

} // namespace quern::codegen::tile
#endif
