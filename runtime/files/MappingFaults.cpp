// Takes: SIGBUS. Gives: a sentence, where it comes from a mapped file. Other causes stay what they were.
// A signal handler may neither lock nor allocate, so the mappings are noted in a table of fixed size; those that do not
// fit in are named "a mapped file".
#include "runtime/files/MappingFaults.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <unistd.h>

namespace quern::runtime {

namespace {

struct Mapping {
  std::atomic<uintptr_t> begin{0}; // 0: free
  std::atomic<uintptr_t> end{0};
  std::atomic<const char *> name{nullptr};
};
Mapping mappings[256];
std::atomic<int> unnoted{0};
struct sigaction before; ///< what other bus errors come to

void say(const char *text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0)
    return; // there is nobody to notify
}

void onBusError(int signal, siginfo_t *info, void *) {
  auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  const char *name = nullptr;
  for (const Mapping &mapping : mappings)
    if (uintptr_t begin = mapping.begin; begin && at >= begin && at < mapping.end)
      name = mapping.name;
  if (!name && unnoted > 0)
    name = "a mapped file";
  if (!name) {
    ::sigaction(signal, &before, nullptr); // the access is tried again, and fails as it would have
    return;
  }
  static std::atomic_flag said; // several threads may meet the end of a file together
  while (said.test_and_set())
    ::pause();
  say("error: ");
  say(name);
  say(" became shorter while it was in use, or cannot be read\n");
  ::_exit(2);
}

} // namespace

void reportMappingFaults() {
  struct sigaction action = {};
  action.sa_sigaction = onBusError;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &before);
}

void noteMapping(const void *begin, size_t bytes, const char *name) {
  for (Mapping &mapping : mappings) {
    uintptr_t empty = 0;
    if (!mapping.begin.compare_exchange_strong(empty, reinterpret_cast<uintptr_t>(begin)))
      continue;
    mapping.name = name;
    mapping.end = reinterpret_cast<uintptr_t>(begin) + bytes;
    return;
  }
  ++unnoted;
}

void forgetMapping(const void *begin) {
  for (Mapping &mapping : mappings)
    if (mapping.begin == reinterpret_cast<uintptr_t>(begin)) {
      mapping.end = 0;
      mapping.name = nullptr;
      mapping.begin = 0;
      return;
    }
  --unnoted;
}

} // namespace quern::runtime
