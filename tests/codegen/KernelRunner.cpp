// Takes: a graph and tensors. Gives: what the compiled kernel makes of them.
// Why through an object and dlopen: it is the way that programs take, C interface and shared runtime included.
#include "tests/codegen/KernelRunner.h"

#include "codegen/halide/HalideProducer.h"
#include "ir/reference/BF16.h"
#include "ir/reference/Codes.h"
#include "runtime/abi/Abi.h"
#include "tests/codegen/Instructions.h"

#include <HalideRuntime.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <unistd.h>

namespace quern::codegen {

struct KernelRunner::Buffer {
  std::vector<char> memory;
  std::vector<halide_dimension_t> dims;
  halide_buffer_t halide{};
  std::vector<int64_t> shape, strides; ///< logical, outermost first
  Layout layout;
  Kind kind;

  char *base() { return reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64); }
  int64_t offset(const std::vector<int64_t> &at) const {
    size_t rank = shape.size();
    if (!layout.packed) {
      int64_t sum = 0;
      for (size_t i = 0; i < rank; ++i)
        sum += at[i] * strides[i];
      return sum;
    }
    int64_t rows = shape[rank - 2], depth = shape[rank - 1], tile = layout.tile, matrix = (rows + tile - 1) / tile,
            stacked = 0;
    for (size_t i = 0; i + 2 < rank; ++i)
      stacked = stacked * shape[i] + at[i];
    return ((stacked * matrix + at[rank - 2] / tile) * depth + at[rank - 1]) * tile + at[rank - 2] % tile;
  }
};

static std::string systemRun(const std::string &command) {
  return std::system(command.c_str()) ? "failed: " + command : "";
}

static const std::string &runtimeObject(const CpuTarget &target) {
  static std::map<std::string, std::string> known;
  std::string &path = known[target.halide];
  if (path.empty()) {
    path = "/tmp/quern_test_runtime_" + std::to_string(getpid()) + "_" + std::to_string(known.size()) + ".o";
    emitHalideRuntime(target, path);
    static std::vector<std::string> remove;
    remove.push_back(path);
    std::atexit([] {
      for (const std::string &file : remove)
        std::filesystem::remove(file);
    });
  }
  return path;
}

namespace {
/// Scratch memory that stays with its thread, as the runtime's does (runtime/machine/HalideHooks.cpp): else kernels would be
/// measured with the system's page faults. It counts as that does: what is freed below another block waits for it.
struct ThreadScratch {
  std::vector<std::pair<size_t, char *>> kept;
  std::vector<std::pair<void *, bool>> stack; ///< blocks in use, and whether each was freed
  int64_t now = 0;
  ~ThreadScratch() {
    for (auto &[size, block] : kept)
      std::free(block);
  }
};
thread_local ThreadScratch scratch;
thread_local bool calls = false;             ///< this thread called the kernel
std::atomic<int64_t> callerPeak, workerPeak; ///< since the last call
constexpr size_t scratchHeader = QUERN_SCRATCH_ALIGNMENT;

size_t &sizeOf(void *block) {
  return *reinterpret_cast<size_t *>(static_cast<char *>(block) - scratchHeader);
}
int64_t planned(size_t size) {
  return static_cast<int64_t>((size + scratchHeader - 1) / scratchHeader * scratchHeader + 2 * scratchHeader);
}
} // namespace

static void *takeScratch(void *, size_t size) {
  scratch.now += planned(size);
  std::atomic<int64_t> &peak = calls ? callerPeak : workerPeak;
  for (int64_t before = peak; before < scratch.now && !peak.compare_exchange_weak(before, scratch.now);)
    ;
  void *block = nullptr;
  for (size_t i = 0; i < scratch.kept.size() && !block; ++i)
    if (auto [capacity, memory] = scratch.kept[i]; capacity >= size && capacity <= 2 * size + 4096) {
      scratch.kept.erase(scratch.kept.begin() + i);
      block = memory + scratchHeader;
      sizeOf(block) = size;
    }
  if (!block) {
    block = static_cast<char *>(std::aligned_alloc(scratchHeader, planned(size))) + scratchHeader;
    sizeOf(block) = size;
  }
  scratch.stack.push_back({block, false});
  return block;
}
static void freeScratch(void *, void *memory) {
  if (!memory)
    return;
  for (auto &[block, freed] : scratch.stack)
    freed |= block == memory;
  while (!scratch.stack.empty() && scratch.stack.back().second) {
    void *block = scratch.stack.back().first;
    scratch.now -= planned(sizeOf(block));
    scratch.kept.emplace_back(sizeOf(block), static_cast<char *>(block) - scratchHeader);
    scratch.stack.pop_back();
  }
  while (scratch.kept.size() > 64) {
    std::free(scratch.kept.front().second);
    scratch.kept.erase(scratch.kept.begin());
  }
}

KernelRunner::KernelRunner(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules)
    : KernelRunner(graph, target, halideProducer().choose(graph, target, schedules)) {}

KernelRunner::KernelRunner(const KernelGraph &graph, const CpuTarget &target, const KernelPlan &plan) : graph(graph) {
  char name[] = "/tmp/quern_kernel_XXXXXX";
  folder = mkdtemp(name);
  auto start = std::chrono::steady_clock::now();
  bool named = target.name != "native";
  memory = emitKernel(graph, "k", plan, target, named ? EmitForm::Assembly : EmitForm::Object,
                      folder + (named ? "/k.s" : "/k.o"));
  compileSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string error = named ? assembleFor(target, folder + "/k.s", folder + "/k.o") : "";
  if (!error.empty())
    throw std::runtime_error(graph.name + " for " + target.name + ": " + error);
  if (!machineRuns(target))
    return;
  error = systemRun("cc -shared -o " + folder + "/k.so " + folder + "/k.o " + runtimeObject(target) +
                    " -lm -lpthread -ldl");
  if (!error.empty())
    throw std::runtime_error(error);
  library = dlopen((folder + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  function = library ? dlsym(library, "k") : nullptr;
  if (!function)
    throw std::runtime_error(dlerror());
  using Take = void *(*)(void *, size_t);
  using Free = void (*)(void *, void *);
  reinterpret_cast<Take (*)(Take)>(dlsym(library, "halide_set_custom_malloc"))(takeScratch);
  reinterpret_cast<Free (*)(Free)>(dlsym(library, "halide_set_custom_free"))(freeScratch);
}

KernelRunner::~KernelRunner() {
  if (library) {
    // Halide's threads would wake up in code that is gone.
    if (auto shutdown = reinterpret_cast<void (*)()>(dlsym(library, "halide_shutdown_thread_pool")))
      shutdown();
    dlclose(library);
  }
  std::filesystem::remove_all(folder);
}

static void forEachPosition(const std::vector<int64_t> &shape,
                            const std::function<void(const std::vector<int64_t> &)> &visit) {
  std::vector<int64_t> at(shape.size());
  for (int64_t n : shape)
    if (!n)
      return;
  while (true) {
    visit(at);
    size_t i = shape.size();
    while (i && ++at[i - 1] == shape[i - 1])
      at[--i] = 0;
    if (!i)
      return;
  }
}

void KernelRunner::bind(const Lengths &now, const std::vector<DenseTensor> &arguments) {
  lengths = now;
  buffers.clear();
  size_t count = graph.argumentCount();
  for (size_t i = 0; i < count + graph.results.size(); ++i) {
    auto buffer = std::make_unique<Buffer>();
    const Node &node = graph.nodes[i < count ? i : graph.results[i - count]];
    buffer->layout = i < count ? graph.argumentLayouts[i] : graph.resultLayouts[i - count];
    buffer->shape = shapeOf(node, lengths);
    buffer->kind = node.kind;
    size_t rank = buffer->shape.size(), size = node.kind == Kind::Bool                             ? 1
                                               : node.kind == Kind::Real || node.kind == Kind::Int ? 4
                                                                                                   : 2;
    int64_t elements = 1;
    if (buffer->layout.packed) {
      int64_t tile = buffer->layout.tile, depth = buffer->shape[rank - 1],
              tiles = (buffer->shape[rank - 2] + tile - 1) / tile;
      if (int bits = bitsOfCode(node.kind))
        depth = support::codedWords(bits, depth);
      std::vector<int64_t> extents = {tile, depth, tiles};
      for (size_t d = rank - 2; d-- > 0;)
        extents.push_back(buffer->shape[d]);
      for (int64_t extent : extents) {
        buffer->dims.push_back({0, int32_t(extent), int32_t(elements), 0});
        elements *= extent;
      }
    } else {
      buffer->strides.resize(rank);
      int64_t dense = 1;
      for (size_t d = rank; d-- > 0;) {
        buffer->strides[d] = buffer->layout.strides[d].value_or(dense);
        dense = buffer->strides[d] * buffer->shape[d];
        buffer->dims.push_back({0, int32_t(buffer->shape[d]), int32_t(buffer->strides[d]), 0});
        elements += (buffer->shape[d] - 1) * buffer->strides[d];
      }
    }
    buffer->memory.assign(elements * size + 64, 0);
    char *base = buffer->base();
    if (i >= count && node.kind == Kind::Real)
      for (int64_t e = 0; e < elements; ++e)
        reinterpret_cast<float *>(base)[e] = std::numeric_limits<float>::quiet_NaN();
    if (i >= count && node.kind == Kind::BF16)
      std::fill_n(reinterpret_cast<uint16_t *>(base), elements, uint16_t(0x7fc0));
    if (i < count && bitsOfCode(node.kind)) {
      ir::packCodes(bitsOfCode(node.kind), buffer->shape, buffer->layout.tile, arguments[i].data.data(),
                    reinterpret_cast<uint16_t *>(base));
    } else if (i < count) {
      size_t next = 0;
      forEachPosition(buffer->shape, [&](const std::vector<int64_t> &at) {
        int64_t offset = buffer->offset(at);
        double value = arguments[i].data[next++];
        if (node.kind == Kind::Real)
          reinterpret_cast<float *>(base)[offset] = static_cast<float>(value);
        else if (node.kind == Kind::Int)
          reinterpret_cast<int32_t *>(base)[offset] = static_cast<int32_t>(value);
        else if (node.kind == Kind::BF16)
          reinterpret_cast<uint16_t *>(base)[offset] = ir::toBF16(static_cast<float>(value));
        else
          base[offset] = value != 0;
      });
    }
    buffer->halide.host = reinterpret_cast<uint8_t *>(base);
    buffer->halide.dim = buffer->dims.data();
    buffer->halide.dimensions = static_cast<int32_t>(buffer->dims.size());
    buffer->halide.type = node.kind == Kind::Real  ? halide_type_t(halide_type_float, 32)
                          : node.kind == Kind::Int ? halide_type_t(halide_type_int, 32)
                                                   : halide_type_t(halide_type_uint, node.kind == Kind::Bool ? 8 : 16);
    buffers.push_back(std::move(buffer));
  }
}

void KernelRunner::shareResult(int argument) {
  buffers[graph.argumentCount()]->halide.host = buffers[argument]->halide.host;
}

int KernelRunner::run() {
  // All parameters are integers or pointers: a callee with fewer of them ignores the rest.
  intptr_t a[20] = {};
  size_t n = 0;
  for (const std::string &symbol : graph.symbols)
    a[n++] = lengths.at(symbol);
  for (auto &buffer : buffers)
    a[n++] = reinterpret_cast<intptr_t>(&buffer->halide);
  if (n > 20)
    throw std::runtime_error("too many parameters for the test's call");
  using I = intptr_t;
  auto call = reinterpret_cast<int (*)(I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I)>(function);
  calls = true;
  callerPeak = workerPeak = 0;
  int status = call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14],
                    a[15], a[16], a[17], a[18], a[19]);
  peak = {callerPeak, workerPeak};
  return status;
}

void KernelRunner::useOneThread() {
  reinterpret_cast<int (*)(int)>(dlsym(library, "halide_set_num_threads"))(1);
}

ScratchBytes KernelRunner::planned() const {
  return bytesOf(memory, [&](const std::string &symbol) { return lengths.at(symbol); });
}

DenseTensor KernelRunner::result(size_t i) const {
  Buffer &buffer = *buffers[graph.argumentCount() + i];
  DenseTensor tensor{buffer.shape, {}};
  char *base = reinterpret_cast<char *>(buffer.halide.host);
  forEachPosition(buffer.shape, [&](const std::vector<int64_t> &at) {
    int64_t offset = buffer.offset(at);
    tensor.data.push_back(buffer.kind == Kind::Real   ? reinterpret_cast<float *>(base)[offset]
                          : buffer.kind == Kind::Int  ? reinterpret_cast<int32_t *>(base)[offset]
                          : buffer.kind == Kind::BF16 ? ir::fromBF16(reinterpret_cast<uint16_t *>(base)[offset])
                                                      : base[offset]);
  });
  return tensor;
}

DenseTensor randomTensor(const Node &node, const Lengths &lengths, uint64_t seed) {
  DenseTensor tensor{shapeOf(node, lengths), {}};
  int64_t count = 1;
  for (int64_t n : tensor.shape)
    count *= n;
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint32_t bits = static_cast<uint32_t>(state >> 33);
    tensor.data.push_back(
        node.kind == Kind::Real || bitsOfCode(node.kind) ? static_cast<float>(bits % 65536 / 32768.0 - 1)
        : node.kind == Kind::BF16 ? ir::fromBF16(ir::toBF16(static_cast<float>(bits % 65536 / 32768.0 - 1)))
        : node.kind == Kind::Int  ? bits % 7
                                  : bits >> 8 & 1);
  }
  if (int bits = bitsOfCode(node.kind)) // numbers that codes stand for: their codes are the same
    for (int64_t depth = tensor.shape.back(), at = 0, length; at < count; at += length) {
      length = std::min(support::codedGroup, depth - at % depth);
      ir::CodedGroup group = ir::codedGroup(bits, {tensor.data.begin() + at, tensor.data.begin() + at + length});
      for (int64_t i = 0; i < length; ++i)
        tensor.data[at + i] = group.number(i);
    }
  return tensor;
}

} // namespace quern::codegen
