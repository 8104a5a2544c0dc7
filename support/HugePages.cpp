#include "support/HugePages.h"

#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

namespace quern::support {

static constexpr size_t hugePage = size_t(2) << 20;

void preferHugePages(void *memory, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory), first = (begin + hugePage - 1) / hugePage * hugePage,
                  end = (begin + bytes) / hugePage * hugePage;
  if (first < end) // refused where the system has none; nothing depends on it
    ::madvise(reinterpret_cast<void *>(first), end - first, MADV_HUGEPAGE);
}

void *allocateAligned(size_t bytes, size_t alignment) {
  if (bytes >= hugePage && alignment < hugePage)
    alignment = hugePage;
  const size_t whole = (bytes + alignment - 1) / alignment * alignment; // as C asks
  if (whole < bytes)
    return nullptr;
  void *memory = std::aligned_alloc(alignment, whole);
  if (memory)
    preferHugePages(memory, bytes);
  return memory;
}

} // namespace quern::support
