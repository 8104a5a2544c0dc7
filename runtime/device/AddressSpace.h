// Addresses in a device's memory that the host can count with, and that fault where the host touches them.
#ifndef QUERN_RUNTIME_DEVICE_ADDRESSSPACE_H
#define QUERN_RUNTIME_DEVICE_ADDRESSSPACE_H

#include <cstddef>
#include <cstdint>
#include <map>

namespace quern::runtime {

/// Generated code computes addresses (an arena's buffers, a layer's part of a cache) as on the processor. For each block of
/// a device's memory a range of the process's addresses is reserved with nothing behind it; a driver is handed the block
/// and the offset in it.
class AddressSpace {
public:
  struct Place {
    void *block = nullptr; ///< the driver's; null: the address is none of the device's
    size_t offset = 0, left = 0;
  };
  /// Null where the system has no range left.
  void *add(void *block, size_t bytes);
  /// The driver's block that was added there.
  void *remove(void *address);
  Place find(const void *address) const;
  size_t blocks() const { return ranges.size(); }

private:
  struct Range {
    size_t bytes;
    void *block;
  };
  std::map<uintptr_t, Range> ranges; // by their first address
};

} // namespace quern::runtime
#endif
