// How much of the machine this process may use, and in which pages its memory lies.
#ifndef QUERN_SUPPORT_PROCESSORS_H
#define QUERN_SUPPORT_PROCESSORS_H

#include <cstddef>
#include <string>
#include <vector>

namespace quern::support {

/// The processors that this process may use: affinity, then the quotas of its control groups (v2 and v1), at least 1.
int availableThreads();

/// Whether this process may use AMX's tile registers, on a processor that has them: Linux (5.16 and later) gives them to
/// whoever asks, as each thread that uses them has 8 KB more to be saved. Asks once, for all threads.
bool allowTiles();

/// Asks Linux for pages of 2 MiB in all of `memory` that whole ones fit in: one that is touched is resident as a whole. A processor
/// remembers the places of some thousand pages, and kernels read copies, strips and rows at more places than that in pages of 4 KiB.
void preferHugePages(void *memory, size_t bytes);

/// Bytes that begin at a multiple of `alignment`, or null where there are none left; `std::free` gives them back. Those that huge pages
/// fit in begin with one.
void *allocateAligned(size_t bytes, size_t alignment);

/// The folders of this process's control groups that count `controller` ("cpu", "memory"), and of all that enclose them; a
/// limit is the least of theirs. `list`: what /proc/self/cgroup says; `root`: where control groups are mounted.
std::vector<std::string> controlGroups(const std::string &controller, const std::string &list,
                                       const std::string &root = "/sys/fs/cgroup");

/// The least quota of `groups`, in processors; infinity for none.
double leastQuota(const std::vector<std::string> &groups);

} // namespace quern::support
#endif
