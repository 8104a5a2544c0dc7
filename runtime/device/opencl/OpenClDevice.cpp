// OpenCL as a device: one queue, coarse-grained shared virtual memory for all buffers, a kernel built when it is first
// launched. Why shared virtual memory: a kernel may begin anywhere in a block (a layer's rows of a cache), which a
// sub-buffer, whose origin must be aligned, cannot say.
#include "runtime/Error.h"
#include "runtime/device/HalideInterface.h"
#include "runtime/device/opencl/OpenCl.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

namespace quern::runtime {
namespace {

using namespace opencl;

void check(int32_t status, const char *doing) {
  if (status)
    throw MachineError(format("the OpenCL driver failed while %s (status %d)", doing, status));
}

/// A kernel's source, built, and its launches by name.
struct Built {
  Source source;
  std::map<std::string, Kernel, std::less<>> kernels;
};

class OpenClDevice : public GpuDevice {
public:
  OpenClDevice() : cl(openApi()) {
    chooseDevice();
    int32_t status = 0;
    context = cl.CreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    check(status, "opening the device");
    queue = cl.CreateCommandQueue(context, device, profiling, &status);
    check(status, "making its queue");
  }

  const char *name() const override { return title.c_str(); }

  void *build(const char *text, size_t bytes) override {
    int32_t status = 0;
    Source source = cl.CreateProgramWithSource(context, 1, &text, &bytes, &status);
    check(status, "reading a kernel");
    // Buffers that are only read stay in global memory: constant memory is small.
    status =
        cl.BuildProgram(source, 1, &device, "-D MAX_CONSTANT_BUFFER_SIZE=0 -D MAX_CONSTANT_ARGS=0", nullptr, nullptr);
    if (status)
      throw MachineError("the OpenCL driver cannot build a kernel: " + logOf(source));
    return new Built{source, {}};
  }

protected:
  void *takeMemory(size_t bytes) override { return cl.SVMAlloc(context, readWrite, bytes, 0); }
  void giveMemory(void *block) override { cl.SVMFree(context, block); }
  void send(const Place &to, const void *from, size_t bytes) override {
    check(cl.EnqueueSVMMemcpy(queue, 1, at(to), from, bytes, 0, nullptr, nullptr), "copying to the device");
  }
  void fetch(void *to, const Place &from, size_t bytes) override {
    check(cl.EnqueueSVMMemcpy(queue, 1, to, at(from), bytes, 0, nullptr, nullptr), "copying from the device");
  }
  void move(const Place &to, const Place &from, size_t bytes) override {
    check(cl.EnqueueSVMMemcpy(queue, 0, at(to), at(from), bytes, 0, nullptr, nullptr), "copying on the device");
  }
  void fillWith(const Place &to, int byte, size_t bytes) override {
    uint8_t pattern = uint8_t(byte);
    check(cl.EnqueueSVMMemFill(queue, at(to), &pattern, 1, bytes, 0, nullptr, nullptr), "filling memory");
  }
  void finish() override { check(cl.Finish(queue), "computing"); }
  void setMark(size_t number) override {
    Event &event = marks[number];
    if (event)
      cl.ReleaseEvent(event);
    check(cl.EnqueueMarkerWithWaitList(queue, 0, nullptr, &event), "measuring time");
  }
  double secondsBetween(size_t from, size_t to) override {
    uint64_t ends[2] = {};
    for (int i = 0; i < 2; ++i)
      check(cl.GetEventProfilingInfo(marks[i ? to : from], commandEnd, sizeof(uint64_t), &ends[i], nullptr),
            "measuring time");
    return double(ends[1] - ends[0]) * 1e-9;
  }

  void begin(void *built, const char *name, const Grid &grid, const std::vector<Argument> &arguments,
             const std::vector<Place> &places) override {
    Kernel kernel = kernelOf(*static_cast<Built *>(built), name);
    uint32_t number = 0;
    for (; number < arguments.size(); ++number)
      check(arguments[number].isBuffer
                ? cl.SetKernelArgSVMPointer(kernel, number, at(places[number]))
                : cl.SetKernelArg(kernel, number, arguments[number].bytes, arguments[number].value),
            "passing an argument");
    check(cl.SetKernelArg(kernel, number, shared, nullptr), "passing an argument"); // a group's memory comes last
    size_t global[3];
    for (int d = 0; d < 3; ++d)
      global[d] = grid.groups[d] * grid.threads[d];
    check(cl.EnqueueNDRangeKernel(queue, kernel, 3, nullptr, global, grid.threads, 0, nullptr, nullptr),
          "launching a kernel");
  }

private:
  static constexpr size_t shared = 1; // bytes; schedules use none, and none would be refused

  const Api &cl;
  DeviceId device = nullptr;
  Context context = nullptr;
  Queue queue = nullptr;
  std::string title;
  Event marks[mostMarks] = {};

  static uint8_t *at(const Place &place) { return static_cast<uint8_t *>(place.block) + place.offset; }

  /// The first GPU; where there is none, the first device. QUERN_DEVICE: one whose name has that in it.
  void chooseDevice() {
    Platform platforms[16];
    uint32_t count = 0;
    int32_t status = cl.GetPlatformIDs(16, platforms, &count);
    if (status != noPlatform)
      check(status, "listing its platforms");
    const char *wanted = std::getenv("QUERN_DEVICE");
    std::string known;
    for (uint32_t p = 0; p < (status ? 0 : std::min(count, 16u)); ++p) {
      DeviceId devices[16];
      uint32_t many = 0;
      if (cl.GetDeviceIDs(platforms[p], deviceTypeAll, 16, devices, &many))
        continue;
      for (uint32_t d = 0; d < std::min(many, 16u); ++d) {
        char text[256] = "";
        uint64_t type = 0, memory = 0, doubles = 0;
        cl.GetDeviceInfo(devices[d], deviceName, sizeof(text) - 1, text, nullptr);
        cl.GetDeviceInfo(devices[d], deviceType, sizeof(type), &type, nullptr);
        cl.GetDeviceInfo(devices[d], deviceSvm, sizeof(memory), &memory, nullptr);
        cl.GetDeviceInfo(devices[d], deviceDoubles, sizeof(doubles), &doubles, nullptr);
        known += (known.empty() ? "" : ", ") + std::string(text) +
                 (!(memory & coarseSvm) ? " (has no shared virtual memory, which is needed)"
                  : !doubles            ? " (has no double precision, which is needed)"
                                        : "");
        bool fits = memory & coarseSvm && doubles && (!wanted || std::strstr(text, wanted));
        if (!fits || (device && !(type & deviceTypeGpu)) || title.starts_with("OpenCL GPU "))
          continue;
        device = devices[d];
        title = (type & deviceTypeGpu ? "OpenCL GPU " : "OpenCL device ") + std::string(text);
      }
    }
    if (device)
      return;
    if (known.empty())
      throw MachineError(
          "this program computes on an OpenCL device, but no driver offers one. Install the device's OpenCL "
          "driver (for a processor: pocl-opencl-icd), or compile the model with --target native");
    throw MachineError("no OpenCL device fits" + (wanted ? " QUERN_DEVICE=" + std::string(wanted) : "") +
                       "; there are: " + known);
  }

  std::string logOf(Source source) {
    size_t bytes = 0;
    cl.GetProgramBuildInfo(source, device, buildLog, 0, nullptr, &bytes);
    std::string log(bytes, '\0');
    cl.GetProgramBuildInfo(source, device, buildLog, bytes, log.data(), nullptr);
    return log.substr(0, std::min<size_t>(log.find('\0'), 1000));
  }

  Kernel kernelOf(Built &built, const char *name) {
    auto known = built.kernels.find(name);
    if (known != built.kernels.end())
      return known->second;
    int32_t status = 0;
    Kernel kernel = cl.CreateKernel(built.source, name, &status);
    check(status, "making a kernel");
    built.kernels[name] = kernel;
    return kernel;
  }
};

} // namespace
} // namespace quern::runtime

QUERN_HALIDE_INTERFACE(opencl, quern::runtime::OpenClDevice)
