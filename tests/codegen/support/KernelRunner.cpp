// Takes: a graph and tensors. Gives: what the compiled kernel makes of them.
// Why through an object and dlopen: it is the way that programs take, C interface and shared runtime included.
#include "tests/codegen/support/KernelRunner.h"

#include "codegen/Producers.h"
#include "codegen/halide/HalideProducer.h"
#include "runtime/abi/Abi.h"
#include "support/Processors.h"
#include "tests/codegen/support/Instructions.h"

#include <HalideRuntime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <stdexcept>
#include <unistd.h>

namespace quern::codegen {

static std::string systemRun(const std::string &command) {
  return std::system(command.c_str()) ? "failed: " + command : "";
}

/// Halide's runtime for a target: in the build folder, for the next process, too; it takes as long as several kernels.
static std::string runtimeObject(const CpuTarget &target) {
  const std::filesystem::path folder = QUERN_BUILD_FOLDER "/tests/halide",
                              path = folder / ("runtime-" + halideVersion() + "-" + target.halide + ".o");
  if (!std::filesystem::exists(path)) {
    std::filesystem::create_directories(folder);
    const std::string made = path.string() + "." + std::to_string(getpid()) + ".o"; // another process may make the same
    emitHalideRuntime(target, made);
    std::filesystem::rename(made, path);
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
    block = static_cast<char *>(support::allocateAligned(planned(size), scratchHeader)) + scratchHeader;
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
    : KernelRunner(graph, target, choosePlan(graph, {target, schedules})) {}

KernelRunner::KernelRunner(const KernelGraph &graph, const CpuTarget &target, const KernelPlan &plan)
    : graph(graph), plan(plan) {
  char name[] = "/tmp/quern_kernel_XXXXXX";
  folder = mkdtemp(name);
  auto start = std::chrono::steady_clock::now();
  bool named = target.name != "native";
  const KernelProducer &producer = producerOf(plan, graph, {target, ScheduleTable::standard()});
  memory = producer.make(graph, plan, target, "k", named ? EmitForm::Assembly : EmitForm::Object,
                         folder + (named ? "/k.s" : "/k.o"));
  compileSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string error = named ? assembleFor(target, folder + "/k.s", folder + "/k.o") : "";
  if (!error.empty())
    throw std::runtime_error(graph.name + " for " + target.name + ": " + error);
  if (!machineRuns(target))
    return;
  // Without the system's libraries, which this process has: reading them takes the linker twice as long as the rest.
  error = systemRun("cc -shared -nostdlib -o " + folder + "/k.so " + folder + "/k.o " + runtimeObject(target));
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

void KernelRunner::bind(const Lengths &now, const std::vector<DenseTensor> &arguments) {
  lengths = now;
  buffers = bindBuffers(graph, lengths, arguments);
}

void KernelRunner::shareResult(int argument, int result) {
  buffers[graph.argumentCount() + result]->halide.host = buffers[argument]->halide.host;
}

int KernelRunner::run() {
  calls = true;
  callerPeak = workerPeak = 0;
  int status = callKernel(function, graph, lengths, buffers);
  peak = {callerPeak, workerPeak};
  return status;
}

Rounding KernelRunner::rounding(const Lengths &) const {
  return {};
}

bool KernelRunner::usesTiles() const {
  return std::any_of(plan.parts.begin(), plan.parts.end(), [](const PlanPart &part) { return part.tiles() > 0; });
}

void KernelRunner::useOneThread() {
  reinterpret_cast<int (*)(int)>(dlsym(library, "halide_set_num_threads"))(1);
}

ScratchBytes KernelRunner::planned() const {
  return bytesOf(memory, [&](const std::string &symbol) { return lengths.at(symbol); });
}

DenseTensor KernelRunner::result(size_t i) const {
  return tensorOf(*buffers[graph.argumentCount() + i]);
}

} // namespace quern::codegen
