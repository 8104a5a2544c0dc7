// A driver of CUDA for tests: a device that is this processor, which executes kernels' PTX (tests/gpu/ptx). Stricter than a
// card: each address must be in memory that was taken, new memory is filled with what is no number, sizes and limits are
// checked, and all that was begun is done as late as it may be. Opened by programs through QUERN_CUDA_LIBRARY.
//
//   QUERN_FAKE_CUDA=none        no device;  =old  one of compute capability 3.7;  =volta  of 7.0;  =ampere  of 8.0;  =full  no memory beyond 128 KB
//   QUERN_FAKE_CUDA=lost        launches fail after the first ten (lost:N: after N);  =cuda11  a driver of CUDA 11.8
//   QUERN_FAKE_CUDA_LOG=FILE    what was asked of it, as JSON, when the program ends
#include "runtime/device/cuda/Cuda.h"
#include "tests/gpu/FakeMemory.h"
#include "tests/gpu/ptx/Tensor.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
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

struct LoadedModule {
  std::unique_ptr<ptx::Module> code;
  bool waits = false;
};
struct LoadedKernel {
  const ptx::Module *module;
  const ptx::Function *function;
  bool waits; ///< for the kernel before it, which may be at work when it begins
  unsigned mostShared = 48 << 10;
};

/// What programs asked for; written where QUERN_FAKE_CUDA_LOG says.
struct Record {
  std::map<std::string, size_t> counts;
  ~Record() {
    const char *path = std::getenv("QUERN_FAKE_CUDA_LOG");
    std::FILE *file = path ? std::fopen(path, "w") : nullptr;
    if (!file)
      return;
    std::fputs("{\"end\": 0", file);
    for (const auto &[name, count] : counts)
      std::fprintf(file, ", \"%s\": %zu", name.c_str(), count);
    std::fputs("}\n", file);
    std::fclose(file);
  }
} record;

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

/// A copy on the device, to be done later.
int moving(std::function<void()> &work, uint64_t to, uint64_t from, size_t bytes) {
  if (to < from + bytes && from < to + bytes)
    return invalidValue; // undefined on a card
  work = [=] { std::memcpy(memory.at(to, bytes), memory.at(from, bytes), bytes); };
  return ok;
}

/// A launch, likewise; its arguments are read now.
int launching(std::function<void()> &work, const runtime::cuda::KernelNode &node) {
  if (!node.groupsX || !node.groupsY || !node.groupsZ || node.groupsY > 65535 || node.groupsZ > 65535 ||
      !node.threadsX || !node.threadsY || !node.threadsZ || node.threadsZ > 64 ||
      size_t(node.threadsX) * node.threadsY * node.threadsZ > 1024 ||
      node.sharedBytes > reinterpret_cast<LoadedKernel *>(node.kernel)->mostShared)
    return invalidValue;
  auto &kernel = *reinterpret_cast<LoadedKernel *>(node.kernel);
  ptx::Launch launch{*kernel.module,
                     *kernel.function,
                     {node.groupsX, node.groupsY, node.groupsZ},
                     {node.threadsX, node.threadsY, node.threadsZ},
                     {},
                     node.sharedBytes,
                     orders++};
  launch.parameters.resize(kernel.function->parameterBytes);
  for (size_t i = 0; i < kernel.function->parameters.size(); ++i) {
    const ptx::Parameter &parameter = kernel.function->parameters[i];
    std::memcpy(&launch.parameters[parameter.offset], node.arguments[i], parameter.bytes);
  }
  work = [launch] { ptx::run(launch, memory); };
  return ok;
}

/// The device is lost after so many launches, if it is to be.
bool losesDevice(size_t many) {
  launches += many;
  static const size_t last = [] {
    std::string text = mode();
    return text == "lost"                ? size_t(10)
           : text.rfind("lost:", 0) == 0 ? size_t(std::strtoull(text.c_str() + 5, nullptr, 10))
                                         : SIZE_MAX;
  }();
  isLost |= launches > last;
  return isLost;
}

// Graphs: a chain of nodes, each with what it does; a graph that can be launched has its own copy.
struct FakeNode {
  std::function<void()> work;
  const LoadedKernel *kernel; ///< null: a copy
  std::vector<const FakeNode *> after;
};
struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
};
struct FakeExec {
  std::vector<std::pair<const FakeNode *, std::function<void()>>> nodes;
};

int addNode(FakeNode **made, FakeGraph *graph, FakeNode *const *after, size_t count, FakeNode node) {
  for (size_t i = 0; i < count; ++i)
    node.after.push_back(after[i]);
  *made = graph->nodes.emplace_back(std::make_unique<FakeNode>(std::move(node))).get();
  return ok;
}

template <typename Code> int guarded(Code code) {
  std::lock_guard<std::mutex> hold(lock);
  if (!hasContext)
    return noContext;
  return isLost ? int(launchFailed) : code();
}

template <typename Work> int setNode(FakeExec *exec, const FakeNode *node, const LoadedKernel *kernel, Work work) {
  return guarded([&]() -> int {
    ++record.counts["nodes_set"];
    for (auto &[known, does] : exec->nodes)
      if (known == node)
        return node->kernel == kernel ? work(does) : int(invalidValue);
    return invalidValue;
  });
}
} // namespace

extern "C" {

int cuInit(unsigned) {
  return mode() == "none" ? noDevice : ok;
}
int cuDriverGetVersion(int *version) {
  *version = mode() == "cuda11" ? 11080 : 12040;
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
  *value = what == 75   ? (old                  ? 3
                           : mode() == "volta"  ? 7
                           : mode() == "ampere" ? 8
                                                : 9)
           : what == 76 ? (old ? 7 : 0)
                        : -1;
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
    ++record.counts["allocations"];
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

int cuMemAllocHost_v2(void **memory, size_t bytes) {
  return guarded([&] {
    static std::vector<std::unique_ptr<uint8_t[]>> taken;
    *memory = taken.emplace_back(new uint8_t[bytes]).get();
    return int(ok);
  });
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *) {
  return guarded([&] {
    ++record.counts["sent"];
    record.counts["sent_bytes"] += bytes;
    const uint8_t *begin = static_cast<const uint8_t *>(from);
    begun.push_back([=, staged = std::vector<uint8_t>(begin, begin + bytes)] {
      std::memcpy(memory.at(to, bytes), staged.data(), bytes);
    });
    return int(ok);
  });
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *) {
  return guarded([&] {
    ++record.counts["fetched"];
    record.counts["fetched_bytes"] += bytes;
    begun.push_back([=] { std::memcpy(to, memory.at(from, bytes), bytes); });
    return int(ok);
  });
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *) {
  return guarded([&] {
    ++record.counts["moved"];
    std::function<void()> work;
    int status = moving(work, to, from, bytes);
    if (!status)
      begun.push_back(work);
    return status;
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
      // Launches overlap in what is recorded, not in what is done: here a kernel has nothing to wait for.
      std::string text = static_cast<const char *>(image);
      size_t entries = 0, waits = 0;
      for (size_t at = 0; (at = text.find(".entry", at)) != std::string::npos; ++at) {
        ++entries;
        size_t wait = text.find("griddepcontrol.wait", at), next = text.find(".entry", at + 1);
        if (wait > next || wait == std::string::npos)
          continue;
        // What stands before a wait may be what the launch before is about to write: no memory is read there.
        for (const char *reads : {"ld.global", "st.global", "cp.async"})
          if (text.find(reads, at) < wait)
            throw std::runtime_error("a kernel touches memory before it waits");
        record.counts["kernels_that_fetch_ahead"] += text.find("prefetch.global", at) < wait;
      }
      for (size_t at; (at = text.find("griddepcontrol.")) != std::string::npos;) {
        waits += text.compare(at, 19, "griddepcontrol.wait") == 0;
        text.erase(at, text.find(';', at) + 1 - at);
      }
      auto loaded = std::make_unique<LoadedModule>(LoadedModule{ptx::parse(text), waits == entries});
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
int cuTensorMapEncodeTiled(ptx::TensorMap *map, int type, uint32_t rank, uint64_t address, const uint64_t *extents,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                           int swizzle, int promotion, int fill) {
  return guarded([&]() -> int {
    ++record.counts["tensors"];
    for (uint32_t d = 0; d < rank; ++d)
      if (steps[d] != 1)
        return invalidValue;
    // Of numbers of bf16, with zeros beside them.
    bool known = type == 9 && interleave == 0 && fill == 0 && promotion >= 0 && promotion <= 3;
    return known && ptx::encode(*map, rank, address, extents, strides, box, uint32_t(swizzle)) ? ok : invalidValue;
  });
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  return guarded([&] {
    const ptx::Module &code = *static_cast<LoadedModule *>(module)->code;
    auto found = code.functions.find(name);
    if (found == code.functions.end())
      return int(notFound);
    *function = new LoadedKernel{&code, found->second.get(), static_cast<LoadedModule *>(module)->waits};
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
                   unsigned threadsY, unsigned threadsZ, unsigned sharedBytes, void *, void **arguments, void **extra) {
  return guarded([&] {
    ++record.counts["launches"];
    std::function<void()> work;
    int status = launching(work, {static_cast<runtime::cuda::Function>(function), groupsX, groupsY, groupsZ, threadsX,
                                  threadsY, threadsZ, sharedBytes, arguments, extra});
    if (!status)
      begun.push_back(work);
    return losesDevice(1) ? int(launchFailed) : status;
  });
}

int cuEventCreate(uint64_t **event, unsigned) {
  return guarded([&] {
    *event = new uint64_t(0);
    return int(ok);
  });
}
int cuEventRecord(uint64_t *event, void *) {
  return guarded([&] {
    begun.push_back([=] { *event = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()); });
    return int(ok);
  });
}
int cuEventSynchronize(uint64_t *event) {
  return guarded([&] {
    int status = flush();
    return status ? status : int(*event ? ok : invalidValue);
  });
}
int cuEventElapsedTime(float *milliseconds, const uint64_t *from, const uint64_t *to) {
  return guarded([&] {
    *milliseconds = float(double(*to - *from) * 1e-6);
    return int(*from && *to ? ok : invalidValue);
  });
}
int cuGraphCreate(FakeGraph **graph, unsigned) {
  return guarded([&] {
    *graph = new FakeGraph;
    return int(ok);
  });
}
int cuGraphAddKernelNode(FakeNode **node, FakeGraph *graph, FakeNode *const *after, size_t count,
                         const runtime::cuda::KernelNode *launch) {
  return guarded([&] {
    FakeNode made{{}, reinterpret_cast<const LoadedKernel *>(launch->kernel), {}};
    int status = launching(made.work, *launch);
    return status ? status : addNode(node, graph, after, count, std::move(made));
  });
}
int cuGraphAddMemcpyNode(FakeNode **node, FakeGraph *graph, FakeNode *const *after, size_t count,
                         const runtime::cuda::CopyNode *copy, void *) {
  return guarded([&] {
    FakeNode made{{}, nullptr, {}};
    int status = moving(made.work, copy->to.address, copy->from.address, copy->bytes);
    return status ? status : addNode(node, graph, after, count, std::move(made));
  });
}
int cuGraphAddDependencies_v2(FakeGraph *, FakeNode *const *from, FakeNode *const *to,
                              const runtime::cuda::EdgeData *edges, size_t count) {
  return guarded([&] {
    for (size_t i = 0; i < count; ++i) {
      // A kernel that begins early must wait itself.
      bool early = edges[i].type == 1 && edges[i].fromPort == 1;
      if (!early || !from[i]->kernel || !to[i]->kernel || !to[i]->kernel->waits)
        return int(invalidValue);
      to[i]->after.push_back(from[i]);
      ++record.counts["early_nodes"];
    }
    return int(ok);
  });
}
int cuGraphInstantiateWithFlags(FakeExec **exec, FakeGraph *graph, unsigned long long) {
  return guarded([&] {
    ++record.counts["graphs_made"];
    auto made = std::make_unique<FakeExec>();
    const FakeNode *before = nullptr;
    for (const auto &node : graph->nodes) {
      // Nodes that nothing orders would run at the same time.
      if (node->after.size() != (before ? 1 : 0) || (before && node->after[0] != before))
        return int(invalidValue);
      made->nodes.emplace_back(before = node.get(), node->work);
    }
    *exec = made.release();
    return int(ok);
  });
}
int cuGraphExecKernelNodeSetParams(FakeExec *exec, FakeNode *node, const runtime::cuda::KernelNode *launch) {
  return setNode(exec, node, reinterpret_cast<const LoadedKernel *>(launch->kernel),
                 [&](std::function<void()> &work) { return launching(work, *launch); });
}
int cuGraphExecMemcpyNodeSetParams(FakeExec *exec, FakeNode *node, const runtime::cuda::CopyNode *copy, void *) {
  return setNode(exec, node, nullptr, [&](std::function<void()> &work) {
    return moving(work, copy->to.address, copy->from.address, copy->bytes);
  });
}
int cuGraphLaunch(FakeExec *exec, void *) {
  return guarded([&] {
    ++record.counts["graph_launches"];
    record.counts["graph_nodes"] += exec->nodes.size();
    for (const auto &[node, work] : exec->nodes)
      begun.push_back(work);
    return losesDevice(exec->nodes.size()) ? int(launchFailed) : int(ok);
  });
}
int cuGraphExecDestroy(FakeExec *exec) {
  delete exec;
  return ok;
}
int cuGraphDestroy(FakeGraph *graph) {
  delete graph;
  return ok;
}

} // extern "C"
