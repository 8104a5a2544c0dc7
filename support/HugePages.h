// Memory in pages of 2 MiB, where Linux has them: a processor remembers the places of some thousand pages, and kernels read copies,
// strips and rows at more places than that in pages of 4 KiB.
#ifndef QUERN_SUPPORT_HUGEPAGES_H
#define QUERN_SUPPORT_HUGEPAGES_H

#include <cstddef>

namespace quern::support {

/// Asks for them in all of `memory` that whole ones fit in, if that is worth it: one that is touched is resident as a whole.
void preferHugePages(void *memory, size_t bytes);

/// Bytes that begin at a multiple of `alignment`, or null where there are none left; `std::free` gives them back. Where huge pages are
/// worth it, they begin with one.
void *allocateAligned(size_t bytes, size_t alignment);

} // namespace quern::support
#endif
