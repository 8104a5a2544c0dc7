// Large memory, and how much of it the machine has.
#ifndef QUERN_RUNTIME_MACHINE_MEMORY_H
#define QUERN_RUNTIME_MACHINE_MEMORY_H

#include "runtime/machine/Device.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace quern::runtime {

/// Zero-filled memory of a device, aligned to 64 bytes and more; pages that nobody touches cost nothing.
class Buffer {
public:
  explicit Buffer(Device &device = Device::cpu()) : device(&device) {}
  explicit Buffer(size_t bytes, Device &device = Device::cpu()) : device(&device) { reset(bytes); }
  ~Buffer() { reset(0); }
  Buffer(Buffer &&other) noexcept : device(other.device) { swap(other); }
  Buffer &operator=(Buffer &&other) noexcept {
    swap(other);
    return *this;
  }
  /// Exactly this many fresh zero bytes. Throws MachineError where the system has none.
  void reset(size_t bytes);
  /// At least this many bytes; the content is lost where it must grow.
  void ensure(size_t bytes) {
    if (bytes > length)
      reset(bytes);
  }
  /// Bytes of it that are in memory because somebody used them, in whole pages.
  size_t touched() const;
  uint8_t *data() const { return memory; }
  size_t size() const { return length; }
  template <typename T> T *as() const { return reinterpret_cast<T *>(memory); }

private:
  Device *device;
  uint8_t *memory = nullptr;
  size_t length = 0;
  void swap(Buffer &other) {
    std::swap(device, other.device);
    std::swap(memory, other.memory);
    std::swap(length, other.length);
  }
};

/// Bytes that this process can still take: the machine's free and reclaimable memory, within the limit of its control
/// group.
uint64_t availableMemory();

/// Throws MachineError ("needs 12.0 GB for the weights ...") if more is planned than there is.
void requireMemory(uint64_t bytes, const std::string &purpose);

} // namespace quern::runtime
#endif
