// The processor as a device: memory is the system's, functions run in the caller and the process's pool.
#include "runtime/Error.h"
#include "runtime/machine/Device.h"
#include "runtime/machine/KernelCall.h"
#include "runtime/machine/ThreadPool.h"
#include "support/Processors.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <vector>

namespace quern::runtime {

namespace {

class CpuDevice : public Device {
public:
  const char *name() const override { return "cpu"; }
  bool isHost() const override { return true; }
  bool holds(const void *) const override { return true; }

  void *allocate(size_t bytes) override {
    void *made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
      return nullptr;
    support::preferHugePages(made, bytes);
    return made;
  }
  void release(void *memory, size_t bytes) override { ::munmap(memory, bytes); }

  size_t touched(const void *memory, size_t bytes) override {
    constexpr size_t page = 4096;
    std::vector<unsigned char> pages((bytes + page - 1) / page);
    if (::mincore(const_cast<void *>(memory), bytes, pages.data()))
      return 0;
    return size_t(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; })) * page;
  }

  void copy(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void *memory, int byte, size_t bytes) override { std::memset(memory, byte, bytes); }
  int32_t run(Scratch &scratch, quern_function function, const quern_call &call) override {
    return runKernels(scratch, function, call);
  }
  void synchronise() override {} // `run` returns when all is done
};

} // namespace

const DeviceCounts &Device::counts() const {
  static const DeviceCounts none;
  return none;
}

uint64_t Device::mark() {
  return monotonicNanoseconds();
}
double Device::seconds(uint64_t from, uint64_t to) {
  return double(to - from) * 1e-9;
}

Device &Device::named(const std::string &name) {
  if (name.empty())
    return cpu();
  if (!quern_open_device)
    throw MachineError("this program computes on a device (" + name + "), but was linked without what reaches one");
  return *quern_open_device();
}

Device &Device::cpu() {
  static CpuDevice device;
  return device;
}

} // namespace quern::runtime
