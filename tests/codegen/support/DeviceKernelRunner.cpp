// Takes: a graph and tensors. Gives: what a device makes of them: OpenCL's, Vulkan's, or CUDA's, whose driver is the tests' own. The target that a test asks for is not looked at:
// whatever holds for a kernel of a CPU holds for the device's.
#include "codegen/Producers.h"
#include "codegen/tile/TileProducer.h"
#include "runtime/machine/Device.h"
#include "tests/codegen/support/GraphMaker.h"
#include "tests/codegen/support/KernelRunner.h"
#include "tests/codegen/tile/RoundingOf.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <functional>
#include <stdexcept>

namespace quern::codegen {

namespace {
const bool ofDevices = GraphMaker::ofDevices = true;

runtime::Device &device() {
  static const bool once = [] {
    // What PoCL and lavapipe built of a kernel is kept here, not in the user's own cache.
    const std::string pocl = QUERN_BUILD_FOLDER "/e2e/pocl";
    std::filesystem::create_directories(pocl);
    setenv("POCL_CACHE_DIR", pocl.c_str(), 0);
    setenv("MESA_SHADER_CACHE_DIR", QUERN_BUILD_FOLDER "/e2e/mesa", 0);
    setenv("QUERN_CUDA_LIBRARY", QUERN_BUILD_FOLDER "/lib/libquern_fake_cuda.so", 0);
    return true;
  }();
  (void)once;
  return runtime::Device::named(QUERN_DEVICE_TARGET);
}

/// What a program's host code does: the kernel that is bound, with addresses of the device.
std::function<int32_t()> launch;
int32_t launchBound(const quern_call *) {
  return launch();
}
} // namespace

KernelRunner::KernelRunner(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules)
    : KernelRunner(graph, target, choosePlan(graph, {cpuTarget(QUERN_DEVICE_TARGET), schedules})) {}

KernelRunner::KernelRunner(const KernelGraph &graph, const CpuTarget &, const KernelPlan &plan)
    : graph(graph), plan(plan) {
  char name[] = "/tmp/quern_kernel_XXXXXX";
  folder = mkdtemp(name);
  PlanOptions options{cpuTarget(QUERN_DEVICE_TARGET), ScheduleTable::standard()};
  producerOf(plan, graph, options).make(graph, plan, options.target, "k", EmitForm::Object, folder + "/k.o");
  std::string command =
      "cc -shared -nostdlib -o " + folder + "/k.so " + folder + "/k.o"; // this program has what it calls
  if (std::system(command.c_str()))
    throw std::runtime_error("failed: " + command);
  library = dlopen((folder + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  function = library ? dlsym(library, "k") : nullptr;
  if (!function)
    throw std::runtime_error(dlerror());
}

KernelRunner::~KernelRunner() {
  for (auto &buffer : buffers)
    device().release(reinterpret_cast<void *>(buffer->halide.padding), buffer->bytes());
  if (library)
    dlclose(library);
  std::filesystem::remove_all(folder);
}

void KernelRunner::bind(const Lengths &now, const std::vector<DenseTensor> &arguments) {
  for (auto &buffer : buffers)
    device().release(reinterpret_cast<void *>(buffer->halide.padding), buffer->bytes());
  lengths = now;
  buffers = bindBuffers(graph, lengths, arguments);
  for (auto &buffer : buffers) {
    void *address = device().allocate(std::max<size_t>(1, buffer->bytes()));
    device().copy(address, buffer->base(), buffer->bytes());
    buffer->halide.device = reinterpret_cast<uint64_t>(address);
    buffer->halide.padding = address; // its own, wherever a result is stored later
  }
}

void KernelRunner::shareResult(int argument, int result) {
  buffers[graph.argumentCount() + result]->halide.device = buffers[argument]->halide.device;
}

int KernelRunner::run() {
  for (auto &buffer : buffers)
    buffer->halide.host = nullptr; // nothing may look there
  launch = [&] { return callKernel(function, graph, lengths, buffers); };
  static runtime::Scratch scratch;
  int status = device().run(scratch, launchBound, quern_call{});
  for (size_t i = graph.argumentCount(); i < buffers.size(); ++i) {
    KernelBuffer &result = *buffers[i];
    device().copy(result.base(), reinterpret_cast<void *>(result.halide.device), result.bytes());
    result.halide.host = result.base();
  }
  return status;
}

DenseTensor KernelRunner::result(size_t i) const {
  return tensorOf(*buffers[graph.argumentCount() + i]);
}

/// Of the variant that runs: the tests' device is a Hopper, and their buffers are aligned.
Rounding KernelRunner::rounding(const Lengths &now) const {
  if (plan.producer != tileProducer().name())
    return {};
  const tile::Program program = tile::programOf(graph, plan);
  auto first = std::find_if(program.variants.begin(), program.variants.end(),
                            [&](const tile::Variant &variant) { return tile::fits(variant, now); });
  return tile::roundingOf(*first);
}

void KernelRunner::useOneThread() {}
ScratchBytes KernelRunner::planned() const {
  return {};
}

} // namespace quern::codegen
