// Takes: what Linux says of this process. Gives: how many threads may run at the same time.
// Why quotas: a container with two processors' time on a machine of 64 only waits for itself with 64 threads.
#include "support/Processors.h"

#include "support/Files.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace quern::support {

namespace {

/// The quota of one cgroup folder as processors, or infinity. "max 100000" and "-1" are none.
double readQuota(const std::string &folder) {
  std::string text = readSmallFile(folder + "/cpu.max"); // v2: quota and period
  if (text.empty())
    text = readSmallFile(folder + "/cpu.cfs_quota_us") + " " + readSmallFile(folder + "/cpu.cfs_period_us"); // v1
  char *end = nullptr;
  double quota = std::strtod(text.c_str(), &end);
  double period = std::strtod(end, nullptr);
  return quota > 0 && period > 0 ? quota / period : INFINITY;
}

} // namespace

// Lines of /proc/self/cgroup: "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1).
std::vector<std::string> controlGroups(const std::string &controller, const std::string &list,
                                       const std::string &root) {
  std::vector<std::string> folders = {root, root + "/" + controller};
  for (size_t at = 0; at < list.size();) {
    std::string line = list.substr(at, list.find('\n', at) - at);
    at += line.size() + 1;
    size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string names = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (!names.empty() && names.find(controller) == std::string::npos)
      continue;
    std::string group = names.empty() ? root : root + "/" + names;
    while (path.size() > 1) {
      folders.push_back(group + path);
      size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos || slash == 0 ? 1 : slash);
    }
  }
  return folders;
}

double leastQuota(const std::vector<std::string> &groups) {
  double least = INFINITY;
  for (const std::string &folder : groups)
    least = std::min(least, readQuota(folder));
  return least;
}

int availableThreads() {
  int count = 1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    count = std::max(1, CPU_COUNT(&set));
  else
    count = std::max(1, int(std::thread::hardware_concurrency()));
  double quota = leastQuota(controlGroups("cpu", readSmallFile("/proc/self/cgroup")));
  if (quota < count)
    count = std::max(1, int(std::ceil(quota)));
  return count;
}

bool allowTiles() {
#if defined(__x86_64__)
  constexpr long request = 0x1023, tileData = 18; // ARCH_REQ_XCOMP_PERM; older headers of Linux lack the names
  static const bool allowed = syscall(SYS_arch_prctl, request, tileData) == 0;
  return allowed;
#else
  return false;
#endif
}

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
