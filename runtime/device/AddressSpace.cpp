// Takes: blocks of a driver's memory. Gives: an address for each of their bytes.
#include "runtime/device/AddressSpace.h"

#include <sys/mman.h>

namespace quern::runtime {

void *AddressSpace::add(void *block, size_t bytes) {
  void *range = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    return nullptr;
  ranges[reinterpret_cast<uintptr_t>(range)] = {bytes, block};
  return range;
}

void *AddressSpace::remove(void *address) {
  auto range = ranges.find(reinterpret_cast<uintptr_t>(address));
  if (range == ranges.end())
    return nullptr;
  void *block = range->second.block;
  ::munmap(address, range->second.bytes);
  ranges.erase(range);
  return block;
}

AddressSpace::Place AddressSpace::find(const void *address) const {
  uintptr_t at = reinterpret_cast<uintptr_t>(address);
  auto after = ranges.upper_bound(at);
  if (after == ranges.begin())
    return {};
  const auto &[first, range] = *--after;
  if (at - first >= range.bytes)
    return {};
  return {range.block, at - first, range.bytes - (at - first)};
}

} // namespace quern::runtime
