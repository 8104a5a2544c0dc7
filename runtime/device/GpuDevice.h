// What devices behind a driver have in common: addresses, copies, blocks between launches, failures. A driver's interface
// is a class of this, in a folder of its own.
#ifndef QUERN_RUNTIME_DEVICE_GPUDEVICE_H
#define QUERN_RUNTIME_DEVICE_GPUDEVICE_H

#include "runtime/device/AddressSpace.h"
#include "runtime/machine/Device.h"

#include <bitset>
#include <functional>
#include <string>
#include <vector>

namespace quern::runtime {

/// One queue in order: what was begun later sees what was begun before, so nothing waits but a copy to the host.
class GpuDevice : public Device, private TokenChooser {
public:
  GpuDevice();
  bool isHost() const override { return false; }
  bool holds(const void *address) const override { return space.find(address).block; }
  void *allocate(size_t bytes) override;
  void release(void *memory, size_t bytes) override;
  size_t touched(const void *, size_t bytes) override { return bytes; }
  void copy(void *to, const void *from, size_t bytes) override;
  void fill(void *memory, int byte, size_t bytes) override;
  bool beginFetch(const void *from, size_t bytes) override;
  /// Launches; the status is that of the checks, for which it waits.
  int32_t run(Scratch &scratch, quern_function function, const quern_call &call) override;
  void synchronise() override { finish(); }
  uint64_t mark() final;
  double seconds(uint64_t from, uint64_t to) final;
  TokenChooser *chooser() override;
  DeviceLimits measureLimits() override; // DeviceProbe.cpp
  /// Of some tries of `launches` the fastest, by the device's clock. Probes grow until it is `enoughToMeasure`.
  double leastSeconds(const std::function<void()> &launches);
  /// Seconds: the clock's grain and a launch's cost are nothing beside it.
  static constexpr double enoughToMeasure = 2e-3;
  quern_device *services() override { return &calls; }
  const DeviceCounts &counts() const override { return counted; }

  // For the functions that kernels call (HalideDevice.cpp, and those of a driver's folder).

  struct Grid {
    size_t groups[3], threads[3];
    size_t shared = 0; ///< bytes of a group's memory beside what its kernel declares
  };
  /// A buffer of numbers of two bytes as copies of whole boxes see it, the innermost dimension first; strides in bytes.
  struct Tensor {
    static constexpr int64_t mostDims = 5;
    const void *address;
    int64_t rank, lineBytes, extents[mostDims], strides[mostDims], box[mostDims];
  };
  struct Argument {
    const void *value; ///< of a buffer its address, of a number where it is
    size_t bytes;      ///< of a buffer from its first element to behind its last
    bool isBuffer;
    const Tensor *tensor = nullptr; ///< a buffer that is given so
  };
  /// Runs `code` on the device whose kernels are being launched. What it throws ends the call with its message: generated
  /// code goes on, but nothing is launched any more.
  template <typename Code> static int inLaunch(Code code) {
    if (!running || !running->failure.empty())
      return 1;
    try {
      code(*running);
      return 0;
    } catch (const std::exception &error) {
      running->failure = error.what();
      return 1;
    }
  }
  /// Memory between launches of one kernel. Given back it serves launches that come later in the queue.
  void *takeBlock(size_t bytes);
  void giveBlock(void *address);
  /// A table of constants that a kernel carries: stays on the device.
  void *keepConstants(const void *host, size_t bytes);
  /// Whether this device can run a kernel's source, beside which there is another one for all devices.
  virtual bool takes(const char *, size_t) const { return true; }
  /// What a driver makes of a kernel's source.
  virtual void *build(const char *source, size_t bytes) = 0;
  void launch(void *built, const char *name, const Grid &grid, const std::vector<Argument> &arguments);

protected:
  using Place = AddressSpace::Place;
  // The driver. All throw MachineError in its words.
  /// Null where there is no memory left. Of any content.
  virtual void *takeMemory(size_t bytes) = 0;
  virtual void giveMemory(void *block) = 0;
  virtual void send(const Place &to, const void *from, size_t bytes) = 0;
  virtual void fetch(void *to, const Place &from, size_t bytes) = 0;
  /// False: nothing can be fetched behind the host's back.
  virtual bool fetchBehind(const Place &, size_t) { return false; }
  virtual void move(const Place &to, const Place &from, size_t bytes) = 0;
  virtual void fillWith(const Place &to, int byte, size_t bytes) = 0;
  /// `places[i]`: of argument i, if it is a buffer.
  virtual void begin(void *built, const char *name, const Grid &grid, const std::vector<Argument> &arguments,
                     const std::vector<Place> &places) = 0;
  virtual void finish() = 0;
  /// Marks of intervals that are not over: those of whoever measures a decode, and of whoever measures its launches.
  static constexpr size_t mostMarks = 64;
  virtual void setMark(size_t number) = 0;
  /// From one to another, which both are set.
  virtual double secondsBetween(size_t from, size_t to) = 0;
  DeviceCounts counted;

private:
  struct Block {
    void *address;
    size_t bytes;
    bool used;
  };
  /// `code` makes launches. Throws MachineError where one of them failed.
  int32_t launching(const std::function<int32_t()> &code);
  void choose(const Draw &draw, const void *logits, int64_t words, void *token) override; // DeviceSampler.cpp
  Place placeOf(const void *address, size_t bytes, const char *what) const;

  static inline GpuDevice *running = nullptr;
  AddressSpace space;
  std::vector<Block> blocks;
  std::bitset<mostMarks> marks; // that are in use
  std::string failure;
  quern_device calls;
  std::vector<Place> places; // of the launch that is being begun
};

/// What a kernel's code asks for first, under its interface's own name (halide_opencl_initialize_kernels, ...): `*state` is
/// what the driver made of `source`, once.
int buildForHalide(void **state, const char *source, int bytes);
/// What a kernel's code asks for, under its interface's own name (halide_opencl_run, halide_cuda_run): `bytes` ends with a 0,
/// a buffer's value is a HalideBuffer.
int launchForHalide(void *built, const char *name, const GpuDevice::Grid &grid, const size_t bytes[],
                    void *const values[], const int8_t isBuffer[]);

} // namespace quern::runtime
#endif
