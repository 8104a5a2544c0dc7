// Where a program's buffers are and its functions run.
#ifndef QUERN_RUNTIME_MACHINE_DEVICE_H
#define QUERN_RUNTIME_MACHINE_DEVICE_H

#include "runtime/abi/Abi.h"
#include "runtime/machine/Scratch.h"

#include <cstddef>

namespace quern::runtime {

/// One memory and what computes in it. Another device is another class; `Buffer`, `Cache` and `Session` ask no more of it
/// than this.
class Device {
public:
  virtual ~Device() = default;
  virtual const char *name() const = 0;
  /// Zero-filled, aligned to 64 bytes and more; null where there is none left.
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *memory, size_t bytes) = 0;
  /// Bytes of it that are in use because somebody wrote them, in whole pages.
  virtual size_t touched(const void *memory, size_t bytes) = 0;
  /// Within its memory, or between that and the host's.
  virtual void copy(void *to, const void *from, size_t bytes) = 0;
  virtual void fill(void *memory, int byte, size_t bytes) = 0;
  /// One call of a compiled function: its status. Throws MachineError where a kernel failed.
  virtual int32_t run(Scratch &scratch, quern_function function, const quern_call &call) = 0;
  /// Until all that was begun is done.
  virtual void synchronise() = 0;

  /// The processor and the machine's own memory.
  static Device &cpu();
};

} // namespace quern::runtime
#endif
