// Takes: sizes. Gives: memory, or a sentence about why there is none, before anything was allocated.
#include "runtime/machine/Memory.h"

#include "runtime/Error.h"
#include "support/Files.h"
#include "support/Processors.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace quern::runtime {

void Buffer::reset(size_t bytes) {
  if (memory)
    device->release(memory, length);
  memory = nullptr;
  length = 0;
  if (bytes == 0)
    return;
  memory = static_cast<uint8_t *>(device->allocate(bytes));
  if (!memory)
    throw MachineError((device->isHost() ? "the machine" : device->name()) + std::string(" has no ") +
                       formatBytes(double(bytes)) + " of memory left");
  length = bytes;
}

size_t Buffer::touched() const {
  return memory ? device->touched(memory, length) : 0;
}

namespace {

uint64_t readNumber(const std::string &path) {
  std::string text = readSmallFile(path);
  return text.empty() || text[0] < '0' || text[0] > '9' ? UINT64_MAX
                                                        : std::strtoull(text.c_str(), nullptr, 10); // "max"
}

} // namespace

uint64_t availableMemory() {
  uint64_t available = UINT64_MAX;
  std::string info = readSmallFile("/proc/meminfo");
  if (size_t at = info.find("MemAvailable:"); at != std::string::npos)
    available = std::strtoull(info.c_str() + at + 13, nullptr, 10) * 1024;
  for (const std::string &group : support::controlGroups("memory", readSmallFile("/proc/self/cgroup")))
    for (bool first : {true, false}) { // of the two versions
      uint64_t limit = readNumber(group + (first ? "/memory.limit_in_bytes" : "/memory.max"));
      uint64_t used = readNumber(group + (first ? "/memory.usage_in_bytes" : "/memory.current"));
      if (limit != UINT64_MAX && used != UINT64_MAX) // what the group uses is partly page cache, which it can give back
        available = std::min(available, std::max(limit > used ? limit - used : 0, limit / 2));
    }
  return available;
}

void requireMemory(uint64_t bytes, const std::string &purpose) {
  if (bytes < uint64_t(64) << 20)
    return;
  uint64_t available = availableMemory();
  if (bytes > available)
    throw MachineError("not enough memory: " + formatBytes(double(bytes)) + " are needed for " + purpose + ", " +
                       formatBytes(double(available)) + " are available");
}

} // namespace quern::runtime
