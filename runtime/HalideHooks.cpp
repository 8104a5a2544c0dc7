// Takes: calls that generated kernels make (parallel loops, scratch memory, errors). Gives: the runtime's pool and
// allocator. Why: Halide's standalone runtime defines these weakly. Its threads would stand beside ours, and its
// allocator goes to malloc for the scratch of every task; a decode step asks for the same few sizes hundreds of times.
// Not here: halide_do_parallel_tasks and semaphores, which only `async` schedules call; codegen makes none.
#include "runtime/HalideHooks.h"

#include "runtime/ThreadPool.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace quern::runtime {
namespace {

constexpr size_t blockAlignment = 128; // two cache lines; vectors need 64
constexpr size_t cachedBlocks = 16, cachedBytes = size_t(64) << 20;

/// Counted where the system is asked, not where a kept block serves again.
std::atomic<uint64_t> scratchNow = 0, scratchPeak = 0;

void countScratch(size_t bytes) {
  uint64_t now = scratchNow.fetch_add(bytes) + bytes;
  for (uint64_t peak = scratchPeak; peak < now && !scratchPeak.compare_exchange_weak(peak, now);)
    ;
}

/// Stands in the 128 bytes before a block.
struct Header {
  size_t capacity;
};

/// A thread's freed blocks. A block may be freed by another thread than its maker; it then serves that one.
struct ScratchCache {
  void *blocks[cachedBlocks];
  size_t count = 0, bytes = 0;

  ~ScratchCache() {
    while (count > 0)
      release(blocks[--count]);
  }
  static Header &header(void *block) {
    return *reinterpret_cast<Header *>(static_cast<uint8_t *>(block) - blockAlignment);
  }
  static void release(void *block) {
    scratchNow -= header(block).capacity + 2 * blockAlignment;
    std::free(static_cast<uint8_t *>(block) - blockAlignment);
  }

  /// The smallest block that is large enough but not more than twice as large.
  void *take(size_t size) {
    size_t best = cachedBlocks;
    for (size_t i = 0; i < count; ++i) {
      size_t capacity = header(blocks[i]).capacity;
      if (capacity >= size && capacity / 2 <= size &&
          (best == cachedBlocks || capacity < header(blocks[best]).capacity))
        best = i;
    }
    if (best == cachedBlocks)
      return nullptr;
    void *block = blocks[best];
    blocks[best] = blocks[--count];
    bytes -= header(block).capacity;
    return block;
  }
  void put(void *block) {
    size_t capacity = header(block).capacity;
    if (capacity > cachedBytes / 4)
      return release(block);
    while (count > 0 && (count == cachedBlocks || bytes + capacity > cachedBytes)) { // the oldest goes
      void *oldest = blocks[0];
      for (size_t i = 1; i < count; ++i)
        blocks[i - 1] = blocks[i];
      --count;
      bytes -= header(oldest).capacity;
      release(oldest);
    }
    blocks[count++] = block;
    bytes += capacity;
  }
};
thread_local ScratchCache scratch;

} // namespace

void useHalideHooks() {}

uint64_t scratchPeakBytes() { return scratchPeak; }

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
  if (size > SIZE_MAX / 2)
    return nullptr;
  size = (size + blockAlignment - 1) / blockAlignment * blockAlignment;
  if (void *block = scratch.take(size))
    return block;
  // One alignment before for the header; one after, as Halide may read a little beyond the end.
  void *memory = std::aligned_alloc(blockAlignment, size + 2 * blockAlignment);
  if (!memory)
    return nullptr;
  void *block = static_cast<uint8_t *>(memory) + blockAlignment;
  ScratchCache::header(block).capacity = size;
  countScratch(size + 2 * blockAlignment);
  return block;
}

void halide_free(void *, void *block) {
  if (block)
    quern::runtime::scratch.put(block);
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
