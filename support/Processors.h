// How much of the machine this process may use.
#ifndef QUERN_SUPPORT_PROCESSORS_H
#define QUERN_SUPPORT_PROCESSORS_H

#include <string>
#include <vector>

namespace quern::support {

/// The processors that this process may use: affinity, then the quotas of its control groups (v2 and v1), at least 1.
int availableThreads();

/// Whether this process may use AMX's tile registers, on a processor that has them: Linux (5.16 and later) gives them to
/// whoever asks, as each thread that uses them has 8 KB more to be saved. Asks once, for all threads.
bool allowTiles();

/// The folders of this process's control groups that count `controller` ("cpu", "memory"), and of all that enclose them; a
/// limit is the least of theirs. `list`: what /proc/self/cgroup says; `root`: where control groups are mounted.
std::vector<std::string> controlGroups(const std::string &controller, const std::string &list,
                                       const std::string &root = "/sys/fs/cgroup");

/// The least quota of `groups`, in processors; infinity for none.
double leastQuota(const std::vector<std::string> &groups);

} // namespace quern::support
#endif
