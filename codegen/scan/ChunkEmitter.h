// Positions of a scan in chunks, in LLVM IR: within a chunk the recurrence is a few products of matrices.
#ifndef QUERN_CODEGEN_SCAN_CHUNKEMITTER_H
#define QUERN_CODEGEN_SCAN_CHUNKEMITTER_H

#include "codegen/scan/ChunkForm.h"
#include "codegen/scan/ScanValues.h"

namespace quern::codegen::scan {

/// How a recognised scan runs: so many positions at a time.
struct ChunkPlan {
  ChunkForm form;
  int64_t size;          ///< a multiple of 16
  int vector, registers; ///< of the target
};

/// What a task does with its positions by chunks. With the state H: [A, W] before a chunk, A keys, W lanes, C positions:
///
///   passed[i, j] = decay[j + 1] ... decay[i - 1] for j < i, first[i] = decay[0] ... decay[i - 1]
///   read[i] = scale[i] (first[i] query[i] H + sum over j < i of passed[i, j] (query[i] . key[j]) value[j])
///             + own[i] (query[i] . key[i]) value[i]
///   H = first[C] H + sum over j of passed[C, j] key[j] value[j]
///
/// `own` is 0 where a read is of the state before the position's update, and `scale` has decay[i] where it is of the state
/// after it. A delta rule's values are made of the read before them: forward substitution, position by position.
class Chunks : protected Values {
protected:
  Chunks(const KernelGraph &graph, const ScanShape &shape, const ChunkPlan *plan, llvm::Module &module);

  const ChunkPlan *plan; ///< null: no chunks
  /// All positions of a task; its state is in `states` before and after.
  void runByChunks(llvm::Value *length);

private:
  /// Floats of the task's block, row by row.
  struct Rows {
    llvm::Value *memory = nullptr;
    int64_t width = 1;
  };
  struct ReadRows {
    Rows query;      ///< [C, A]
    Rows products;   ///< [C, C]: passed[i, j] (query[i] . key[j]) and what else stands before value[j]
    Rows sums;       ///< [C, W]: the read
    Rows scale, own; ///< [C]
  };
  struct Chunk {
    llvm::Value *start, *count, *length; ///< positions before it, in it, of all
  };
  int64_t keys = 0, paddedKeys = 0, lanes = 0, strip = 0;
  Rows state, keyRows, keyColumns, written, rate, passed, first;
  std::vector<ReadRows> reads;

  // ---- rows of numbers
  Rows takeRows(int64_t count, int64_t width);
  void takeAll();
  llvm::Value *get(const Rows &rows, llvm::Value *row, llvm::Value *column, int64_t width);
  llvm::Value *get(const Rows &rows, llvm::Value *row) { return get(rows, row, number(0), rows.width); }
  llvm::Value *numberAt(const Rows &rows, llvm::Value *row, llvm::Value *column) { return get(rows, row, column, 1); }
  void put(const Rows &rows, llvm::Value *row, llvm::Value *value, llvm::Value *column = nullptr);
  llvm::Value *times(llvm::Value *scalar, llvm::Value *vector);
  llvm::Value *isLane(llvm::Value *lane, int64_t width);
  void addProduct(llvm::Value *&sum, llvm::Value *scalar, llvm::Value *vector);
  using Sums = std::vector<llvm::Value *>;
  Sums fold(llvm::Value *count, Sums sums, const std::function<void(llvm::Value *, Sums &)> &step);
  llvm::Value *dividedUp(llvm::Value *count, int64_t by);
  /// Rows of a tile whose sums, each so many floats, take half of the registers.
  int64_t tileRows(int64_t width) const { return plan->registers / 2 / std::max<int64_t>(1, width / plan->vector); }

  void eachStrip(const std::function<void(llvm::Value *)> &inside);

  // ---- a chunk
  void eachPosition(const Chunk &chunk, const std::function<void(llvm::Value *)> &inside);
  llvm::Value *product(const Product &product);
  void assume(int node, llvm::Value *value);
  void oneChunk(const Chunk &chunk);
  void readPosition(llvm::Value *i);
  void readKeys(const Product &numbers, const Rows &to, llvm::Value *i);
  void transposeKeys(llvm::Value *count);
  void multiplyKeys(const ReadRows &read, llvm::Value *count);
  void sumTile(size_t number, llvm::Value *start, llvm::Value *lane);
  void updateTile(llvm::Value *start, int64_t rows, llvm::Value *lane, llvm::Value *count);
  void updateState(llvm::Value *count);
  void storeOutputs(const Chunk &chunk);
};

} // namespace quern::codegen::scan
#endif
