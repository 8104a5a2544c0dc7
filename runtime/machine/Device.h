// Where a program's buffers are and its functions run.
#ifndef QUERN_RUNTIME_MACHINE_DEVICE_H
#define QUERN_RUNTIME_MACHINE_DEVICE_H

#include "runtime/abi/Abi.h"
#include "runtime/machine/Scratch.h"
#include "runtime/sampling/Draw.h"

#include <cstddef>
#include <string>

namespace quern::runtime {

/// What a device was asked to do so far.
struct DeviceCounts {
  uint64_t launches = 0, allocations = 0;
  uint64_t graphs = 0;                    ///< many launches at once
  uint64_t sent = 0, sentBytes = 0;       ///< copies from the host
  uint64_t fetched = 0, fetchedBytes = 0; ///< and to it
  uint64_t moved = 0;                     ///< copies within its memory
};

/// A second: bytes read, f32 operations of arithmetic in registers (a fused multiply-add counts two), the same of products of
/// bf16 by tensor cores. 0: not known.
struct DeviceLimits {
  double bytes = 0, flops = 0, products = 0;
};

/// Chooses tokens among logits that are in a device's memory.
class TokenChooser {
public:
  virtual ~TokenChooser() = default;
  /// `token`, in its memory, gets the number of one of `words`; -1 where no logit is a finite number.
  virtual void choose(const Draw &draw, const void *logits, int64_t words, void *token) = 0;
};

/// One memory and what computes in it. Another device is another class; `Buffer`, `Cache` and `Session` ask no more of it
/// than this.
class Device {
public:
  virtual ~Device() = default;
  virtual const char *name() const = 0;
  /// Whether its memory is the host's: pointers into it are what they are everywhere.
  virtual bool isHost() const = 0;
  /// Whether an address is in memory that it allocated; the processor's is anywhere.
  virtual bool holds(const void *address) const = 0;
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

  /// For quern_call: what generated code asks of it beside launches. Null: nothing.
  virtual quern_device *services() { return nullptr; }
  virtual const DeviceCounts &counts() const;
  /// A point in the order of all that was asked for; known until `seconds` asked for it.
  virtual uint64_t mark();
  /// Seconds that it worked from one mark to a later one, which it waits for: the device's own time, not the host's.
  virtual double seconds(uint64_t from, uint64_t to);
  /// Of what `once` asks for.
  template <typename Code> double timed(Code once) {
    uint64_t from = mark();
    once();
    return seconds(from, mark());
  }
  /// What it can do at most, measured now; the processor's is measured elsewhere (Probe.h).
  virtual DeviceLimits measureLimits() { return {}; }
  /// Begins a copy of a few bytes to the host, behind all that was asked for so far; false: it has no such copies. One at a
  /// time, and `endFetch` waits for it alone, while what was asked for in between goes on.
  virtual bool beginFetch(const void *, size_t) { return false; }
  virtual void endFetch(void *, size_t) {}
  /// Null: the host chooses.
  virtual TokenChooser *chooser() { return nullptr; }

  /// The processor and the machine's own memory.
  static Device &cpu();
  /// What a program was compiled for (`device` of its description; empty: the processor), opened at the first call. Throws
  /// MachineError where there is none, with what to do.
  static Device &named(const std::string &name);
};

} // namespace quern::runtime

/// Of the one archive of runtime/device that a program for a device is linked with; absent from others.
extern "C" __attribute__((weak)) quern::runtime::Device *quern_open_device();
#endif
