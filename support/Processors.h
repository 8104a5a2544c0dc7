// How much of the machine this process may use.
#ifndef QUERN_SUPPORT_PROCESSORS_H
#define QUERN_SUPPORT_PROCESSORS_H

#include <string>
#include <vector>

namespace quern::support {

/// The processors that this process may use: affinity, then the quotas of its control groups (v2 and v1), at least 1.
int availableThreads();

/// The folders of this process's control groups that count `controller` ("cpu", "memory"), and of all that enclose them; a
/// limit is the least of theirs. `list`: what /proc/self/cgroup says; `root`: where control groups are mounted.
std::vector<std::string> controlGroups(const std::string &controller, const std::string &list,
                                       const std::string &root = "/sys/fs/cgroup");

/// The least quota of `groups`, in processors; infinity for none.
double leastQuota(const std::vector<std::string> &groups);

} // namespace quern::support
#endif
