// Takes: calls that generated kernels make (parallel loops, scratch memory, errors). Gives: the runtime's pool and
// allocator. Why: Halide's standalone runtime defines these weakly. Its threads would stand beside ours, and its
// allocator goes to malloc for the scratch of every task; a decode step asks for the same few sizes hundreds of times.
// Room after each block: Halide may read a little beyond the end.
// Not here: halide_do_parallel_tasks and semaphores, which only `async` schedules call; codegen makes none.
#include "runtime/machine/HalideHooks.h"

#include "runtime/abi/Abi.h"
#include "runtime/machine/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace quern::runtime {
namespace {

constexpr size_t alignment = QUERN_SCRATCH_ALIGNMENT;
constexpr size_t none = SIZE_MAX;

std::atomic<uint64_t> workerScratch = 0; // what a call in progress plans for each thread that helps
std::atomic<uint64_t> scratchNow = 0,
                      scratchPeak = 0; // the highest that the stacks of all threads have been, and blocks beside them

void countScratch(uint64_t bytes) {
  uint64_t now = scratchNow.fetch_add(bytes) + bytes;
  for (uint64_t peak = scratchPeak; peak < now && !scratchPeak.compare_exchange_weak(peak, now);)
    ;
}

/// Stands in the alignment before a block.
struct Header {
  size_t before; // of the stack, the header below; `none` if there is none
  size_t bytes;  // header and room after included
  bool beside;   // not of the stack
  bool freed;
};

Header &header(void *block) {
  return *reinterpret_cast<Header *>(static_cast<uint8_t *>(block) - alignment);
}

/// A thread's scratch. Blocks of a kernel live one within the other, so they lie one above the other; what is freed
/// below another block waits for that. The thread that took a block frees it (codegen makes no `async` schedules).
/// codegen/halide/KernelScratch.cpp counts alike, so that the plan is what is used.
class ScratchStack {
public:
  ~ScratchStack() {
    scratchNow -= highest;
    std::free(memory);
  }
  void plan(size_t bytes) { planned = bytes; }

  void *take(size_t size) {
    size_t bytes = size + 2 * alignment;
    if (top == 0)
      ensure(std::max({bytes, planned, wanted, size_t(workerScratch)}));
    if (capacity - top < bytes) { // more than was planned: the next kernel finds a larger stack
      wanted = std::max(wanted, top + bytes);
      void *block = std::aligned_alloc(alignment, bytes);
      return block ? place(block, bytes, true) : nullptr;
    }
    if (!memory)
      return nullptr;
    void *block = place(memory + top, bytes, false);
    last = top;
    top += bytes;
    if (top > highest) {
      countScratch(top - highest);
      highest = top;
    }
    return block;
  }

  void give(void *block) {
    Header &own = header(block);
    if (own.beside) {
      scratchNow -= own.bytes;
      std::free(static_cast<uint8_t *>(block) - alignment);
      return;
    }
    own.freed = true;
    while (last != none && reinterpret_cast<Header *>(memory + last)->freed) {
      top = last;
      last = reinterpret_cast<Header *>(memory + last)->before;
    }
  }

private:
  uint8_t *memory = nullptr;
  size_t capacity = 0, top = 0, last = none, highest = 0, planned = 0, wanted = 0;

  /// The stack is empty.
  void ensure(size_t bytes) {
    if (bytes <= capacity)
      return;
    scratchNow -= highest;
    highest = 0;
    std::free(memory);
    bytes += bytes / 8; // so that a growing text does not come here every step
    memory =
        static_cast<uint8_t *>(std::aligned_alloc(alignment, bytes = (bytes + alignment - 1) / alignment * alignment));
    capacity = memory ? bytes : 0;
  }
  void *place(void *at, size_t bytes, bool beside) {
    *static_cast<Header *>(at) = {last, bytes, beside, false};
    if (beside)
      countScratch(bytes);
    return static_cast<uint8_t *>(at) + alignment;
  }
};
thread_local ScratchStack scratch;

} // namespace

void useHalideHooks() {}

void planScratch(uint64_t caller, uint64_t worker) {
  scratch.plan(caller);
  workerScratch = worker;
}

uint64_t scratchPeakBytes() {
  return scratchPeak;
}

} // namespace quern::runtime

using quern::runtime::ThreadPool;

extern "C" {

int halide_do_par_for(void *context, int (*task)(void *, int, uint8_t *), int min, int size, uint8_t *closure) {
  return ThreadPool::instance().parallelFor(context, task, min, size, closure);
}

int halide_do_task(void *context, int (*task)(void *, int, uint8_t *), int index, uint8_t *closure) {
  return task(context, index, closure);
}

void *halide_malloc(void *, size_t size) {
  using namespace quern::runtime;
  return size > SIZE_MAX / 2 ? nullptr : scratch.take((size + alignment - 1) / alignment * alignment);
}

void halide_free(void *, void *block) {
  if (block)
    quern::runtime::scratch.give(block);
}

/// Kernels are built without assertions, so only a broken invariant comes here.
void halide_error(void *, const char *message) {
  std::fprintf(stderr, "error: a kernel failed: %s\n", message);
  std::_Exit(2); // not exit: a worker would wait for itself
}

void halide_print(void *, const char *message) {
  std::fputs(message, stderr);
}

} // extern "C"
