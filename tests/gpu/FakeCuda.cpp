// A driver of CUDA for tests: a device that is this processor, which executes kernels' PTX (tests/gpu/ptx). Stricter than a
// card: each address must lie in memory that was taken, new memory is filled with what is no number, sizes and limits are
// checked, and all that was begun is done as late as it may be. Opened by programs through QUERN_CUDA_LIBRARY.
//
//   QUERN_FAKE_CUDA=none        no device;  =old  one of compute capability 3.7;  =full  no memory beyond 128 KB
//   QUERN_FAKE_CUDA=lost        launches fail after the first ten
#include "tests/gpu/ptx/Ptx.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>

using namespace quern;

namespace {

enum Status {
  ok = 0,
  invalidValue = 1,
  outOfMemory = 2,
  notFound = 500,
  noDevice = 100,
  invalidPtx = 218,
  launchFailed = 719,
  noContext = 201
};

struct Block {
  std::vector<uint8_t> bytes;
};

class Blocks : public ptx::Memory {
public:
  uint64_t take(size_t bytes) {
    taken += bytes;
    auto block = std::make_unique<Block>(Block{std::vector<uint8_t>(bytes + 256, 0xff)});
    uint64_t address = (reinterpret_cast<uint64_t>(block->bytes.data()) + 255) / 256 * 256;
    ranges[address] = {bytes, std::move(block)};
    return address;
  }
  bool give(uint64_t address) {
    auto at = ranges.find(address);
    if (at == ranges.end())
      return false;
    taken -= at->second.bytes;
    last = {};
    ranges.erase(at);
    return true;
  }
  uint8_t *at(uint64_t address, size_t bytes) override {
    if (address - last.first >= last.second || last.second - (address - last.first) < bytes) {
      auto next = ranges.upper_bound(address);
      if (next == ranges.begin())
        throw std::runtime_error("an address that is in no memory of the device");
      --next;
      if (address - next->first + bytes > next->second.bytes)
        throw std::runtime_error("an address behind a block's end");
      last = {next->first, next->second.bytes};
    }
    return reinterpret_cast<uint8_t *>(address);
  }
  size_t taken = 0;

private:
  struct Range {
    size_t bytes;
    std::unique_ptr<Block> block;
  };
  std::map<uint64_t, Range> ranges;
  std::pair<uint64_t, uint64_t> last{}; // where the last access was
};

struct LoadedModule {
  std::unique_ptr<ptx::Module> code;
};
struct LoadedKernel {
  const ptx::Module *module;
  const ptx::Function *function;
  unsigned mostShared = 48 << 10;
};

std::mutex lock;
Blocks memory;
std::vector<std::function<void()>> begun;
bool isLost = false, hasContext = false;
size_t launches = 0;
uint64_t orders = 0; // each launch is executed in another one

std::string mode() {
  const char *given = std::getenv("QUERN_FAKE_CUDA");
  return given ? given : "";
}

/// All that was begun, in order.
int flush() {
  auto now = std::move(begun);
  begun.clear();
  for (auto &work : now) {
    if (isLost)
      break;
    try {
      work();
    } catch (const std::exception &error) {
      std::fprintf(stderr, "fake CUDA: %s\n", error.what());
      isLost = true;
    }
  }
  return isLost ? launchFailed : ok;
}

template <typename Code> int guarded(Code code) {
  std::lock_guard<std::mutex> hold(lock);
  if (!hasContext)
    return noContext;
  return isLost ? int(launchFailed) : code();
}

} // namespace

extern "C" {

int cuInit(unsigned) {
  return mode() == "none" ? noDevice : ok;
}
int cuDriverGetVersion(int *version) {
  *version = 12040;
  return ok;
}
int cuGetErrorString(int status, const char **text) {
  *text = status == launchFailed   ? "unspecified launch failure"
          : status == invalidValue ? "invalid argument"
          : status == notFound     ? "named symbol not found"
                                   : "unknown error";
  return ok;
}
int cuDeviceGetCount(int *count) {
  *count = 1;
  return ok;
}
int cuDeviceGet(int *device, int number) {
  *device = 40 + number; // a handle, not the number
  return number == 0 ? ok : invalidValue;
}
int cuDeviceGetName(char *text, int room, int device) {
  std::snprintf(text, size_t(room), "Quern's fake device");
  return device == 40 ? ok : invalidValue;
}
int cuDeviceGetAttribute(int *value, int what, int device) {
  bool old = mode() == "old";
  *value = what == 75 ? (old ? 3 : 9) : what == 76 ? (old ? 7 : 0) : -1;
  return device == 40 && *value >= 0 ? ok : invalidValue;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = &memory;
  return device == 40 ? ok : invalidValue;
}
int cuCtxSetCurrent(void *context) {
  hasContext = context == &memory;
  return hasContext ? ok : invalidValue;
}
int cuStreamCreate(void **stream, unsigned) {
  *stream = &begun;
  return ok;
}
int cuStreamSynchronize(void *) {
  return guarded([] { return flush(); });
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  return guarded([&]() -> int {
    if (!bytes)
      return invalidValue;
    if (mode() == "full" && memory.taken + bytes > (size_t(128) << 10))
      return outOfMemory;
    *address = memory.take(bytes);
    return ok;
  });
}
int cuMemFree_v2(uint64_t address) {
  return guarded([&] {
    int status = flush();
    return status ? status : memory.give(address) ? ok : invalidValue;
  });
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *) {
  return guarded([&] {
    const uint8_t *begin = static_cast<const uint8_t *>(from);
    begun.push_back([=, staged = std::vector<uint8_t>(begin, begin + bytes)] {
      std::memcpy(memory.at(to, bytes), staged.data(), bytes);
    });
    return int(ok);
  });
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *) {
  return guarded([&] {
    begun.push_back([=] { std::memcpy(to, memory.at(from, bytes), bytes); });
    return int(ok);
  });
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *) {
  return guarded([&] {
    if (to < from + bytes && from < to + bytes)
      return int(invalidValue); // undefined on a card
    begun.push_back([=] { std::memcpy(memory.at(to, bytes), memory.at(from, bytes), bytes); });
    return int(ok);
  });
}
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *) {
  return guarded([&] {
    begun.push_back([=] { std::memset(memory.at(to, bytes), byte, bytes); });
    return int(ok);
  });
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *names, void **values) {
  return guarded([&] {
    try {
      auto loaded = std::make_unique<LoadedModule>(LoadedModule{ptx::parse(static_cast<const char *>(image))});
      *module = loaded.release();
      return int(ok);
    } catch (const std::exception &error) {
      char *log = nullptr;
      size_t room = 0;
      for (unsigned i = 0; i < options; ++i)
        if (names[i] == 5)
          log = static_cast<char *>(values[i]);
        else if (names[i] == 6)
          room = reinterpret_cast<size_t>(values[i]);
      if (log && room)
        std::snprintf(log, room, "%s", error.what());
      return int(invalidPtx);
    }
  });
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  return guarded([&] {
    const ptx::Module &code = *static_cast<LoadedModule *>(module)->code;
    auto found = code.functions.find(name);
    if (found == code.functions.end())
      return int(notFound);
    *function = new LoadedKernel{&code, found->second.get()};
    return int(ok);
  });
}
int cuFuncSetAttribute(void *function, int what, int value) {
  return guarded([&] {
    if (what != 8 || value < 0 || value > 227 << 10) // dynamic shared memory
      return int(invalidValue);
    static_cast<LoadedKernel *>(function)->mostShared = unsigned(value);
    return int(ok);
  });
}
int cuLaunchKernel(void *function, unsigned groupsX, unsigned groupsY, unsigned groupsZ, unsigned threadsX,
                   unsigned threadsY, unsigned threadsZ, unsigned sharedBytes, void *, void **arguments, void **) {
  return guarded([&] {
    if (!groupsX || !groupsY || !groupsZ || groupsY > 65535 || groupsZ > 65535 || !threadsX || !threadsY || !threadsZ ||
        threadsZ > 64 || size_t(threadsX) * threadsY * threadsZ > 1024 ||
        sharedBytes > static_cast<LoadedKernel *>(function)->mostShared)
      return int(invalidValue);
    if (mode() == "lost" && ++launches > 10) {
      isLost = true;
      return int(launchFailed);
    }
    auto &kernel = *static_cast<LoadedKernel *>(function);
    ptx::Launch launch{
        *kernel.module, *kernel.function, {groupsX, groupsY, groupsZ}, {threadsX, threadsY, threadsZ}, {},
        sharedBytes,    orders++};
    launch.parameters.resize(kernel.function->parameterBytes);
    for (size_t i = 0; i < kernel.function->parameters.size(); ++i) {
      const ptx::Parameter &parameter = kernel.function->parameters[i];
      std::memcpy(&launch.parameters[parameter.offset], arguments[i], parameter.bytes);
    }
    begun.push_back([launch] { ptx::run(launch, memory); });
    return int(ok);
  });
}

} // extern "C"
