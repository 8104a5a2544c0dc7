// What kernels of one session work in beside the arena: a stack of blocks for each thread.
#ifndef QUERN_RUNTIME_MACHINE_SCRATCH_H
#define QUERN_RUNTIME_MACHINE_SCRATCH_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace quern::runtime {

class Scratch;

/// A thread's blocks. Those of a kernel live one within the other, so they are one above the other; what is freed below
/// another block waits for that. The thread that took a block frees it (codegen makes no `async` schedules).
/// codegen/halide/KernelScratch.cpp counts alike, so that the plan is what is used.
class ScratchStack {
public:
  ScratchStack() = default;
  ScratchStack(const ScratchStack &) = delete;
  ~ScratchStack();
  /// Null where the machine has no memory left. Aligned to QUERN_SCRATCH_ALIGNMENT, as is the room after each block:
  /// Halide may read a little beyond the end.
  void *take(Scratch &scratch, size_t size, size_t planned);
  void give(Scratch &scratch, void *block);
  /// What a failed kernel left is given back: blocks of the stack above `mark` at once, others when the stack goes.
  size_t mark() const { return top; }
  void cut(size_t mark);

private:
  struct Header;
  uint8_t *memory = nullptr;
  size_t capacity = 0, top = 0, last = SIZE_MAX, highest = 0, wanted = 0;
  Header *beside = nullptr; // blocks that the stack had no room for, linked
  void ensure(Scratch &scratch, size_t bytes, size_t expected);
};

class Scratch {
public:
  Scratch();
  ~Scratch();
  /// Before kernels run: bytes that they will ask for at one time at most, in the calling thread and in each that helps
  /// it. The memory is taken at the first need.
  void plan(uint64_t caller, uint64_t worker);
  /// The most bytes that kernels have had: of each thread as much as it ever had at one time.
  uint64_t peakBytes() const { return peak; }

  /// For the thread of the pool with this number (0: the caller).
  void *take(int thread, size_t size);
  void give(int thread, void *block);
  size_t mark(int thread) const { return stacks[thread].mark(); }
  void cut(int thread, size_t mark) { stacks[thread].cut(mark); }

private:
  friend class ScratchStack;
  std::unique_ptr<ScratchStack[]> stacks; // one for each thread of the pool
  uint64_t caller = 0, worker = 0;
  std::atomic<uint64_t> now{0}, peak{0}; // the highest that all stacks have been, and blocks beside them
  void count(uint64_t bytes);
};

} // namespace quern::runtime
#endif
