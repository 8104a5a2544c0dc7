// CUDA as a device: one stream, memory of the card, a kernel's PTX compiled by the driver when it is first launched. The
// device's own context (the "primary" one) is used, as whoever else computes in this process does.
#include "runtime/Error.h"
#include "runtime/device/HalideInterface.h"
#include "runtime/device/cuda/Cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

namespace quern::runtime {
namespace {

using namespace cuda;

/// Kernels are PTX for this capability or later: Volta and all that followed (codegen/Targets.cpp).
constexpr int oldestMajor = 7, oldestMinor = 0;

/// A kernel's PTX, compiled, and its launches by name.
struct Built {
  Module module;
  std::map<std::string, Function, std::less<>> kernels;
};

class CudaDevice : public GpuDevice {
public:
  CudaDevice() : api(openApi()) {
    choose();
    check(api.DevicePrimaryCtxRetain(&context, device), "opening the device");
    check(api.CtxSetCurrent(context), "opening the device");
    check(api.StreamCreate(&stream, nonBlocking), "making its stream");
  }

  const char *name() const override { return title.c_str(); }

  void *build(const char *text, size_t bytes) override {
    std::string ptx(text, strnlen(text, bytes)); // the driver wants a zero behind it
    char log[2000] = "";
    int names[] = {errorLog, errorLogBytes};
    void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
    auto built = std::make_unique<Built>();
    if (int status = api.ModuleLoadDataEx(&built->module, ptx.c_str(), 2, names, values))
      throw MachineError("the CUDA driver cannot compile a kernel: " + (*log ? std::string(log) : said(status)));
    return built.release(); // stays as long as the program
  }

protected:
  void *takeMemory(size_t bytes) override {
    Address address = 0;
    int status = api.MemAlloc(&address, std::max<size_t>(1, bytes));
    if (status == outOfMemory)
      return nullptr;
    check(status, "taking memory");
    return reinterpret_cast<void *>(address);
  }
  void giveMemory(void *block) override { check(api.MemFree(reinterpret_cast<Address>(block)), "giving memory back"); }
  void send(const Place &to, const void *from, size_t bytes) override {
    // Of pageable memory: it returns when the bytes have been read.
    check(api.MemcpyHtoDAsync(at(to), from, bytes, stream), "copying to the device");
  }
  void fetch(void *to, const Place &from, size_t bytes) override {
    check(api.MemcpyDtoHAsync(to, at(from), bytes, stream), "copying from the device");
    finish();
  }
  void move(const Place &to, const Place &from, size_t bytes) override {
    check(api.MemcpyDtoDAsync(at(to), at(from), bytes, stream), "copying on the device");
  }
  void fillWith(const Place &to, int byte, size_t bytes) override {
    check(api.MemsetD8Async(at(to), static_cast<unsigned char>(byte), bytes, stream), "filling memory");
  }
  void finish() override { check(api.StreamSynchronize(stream), "computing"); }

  void begin(void *built, const char *name, const Grid &grid, const std::vector<Argument> &arguments,
             const std::vector<Place> &places) override {
    Function kernel = kernelOf(*static_cast<Built *>(built), name, grid.shared);
    addresses.resize(arguments.size());
    values.resize(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].isBuffer)
        addresses[i] = at(places[i]);
      values[i] = arguments[i].isBuffer ? &addresses[i] : const_cast<void *>(arguments[i].value);
    }
    auto &[groups, threads, shared] = grid;
    check(api.LaunchKernel(kernel, unsigned(groups[0]), unsigned(groups[1]), unsigned(groups[2]), unsigned(threads[0]),
                           unsigned(threads[1]), unsigned(threads[2]), unsigned(shared), stream, values.data(),
                           nullptr),
          "launching a kernel");
  }

private:
  const Api &api;
  cuda::Device device = 0;
  Context context = nullptr;
  Stream stream = nullptr;
  std::string title;
  std::vector<Address> addresses; // of the launch that is being begun
  std::vector<void *> values;

  static Address at(const Place &place) { return reinterpret_cast<Address>(place.block) + place.offset; }

  std::string said(int status) const {
    const char *text = nullptr;
    api.GetErrorString(status, &text);
    return std::string(text ? text : "unknown error") + " (status " + std::to_string(status) + ")";
  }
  void check(int status, const char *doing) const {
    if (status)
      throw MachineError(std::string("the CUDA driver failed while ") + doing + ": " + said(status));
  }

  /// The first device that is new enough. QUERN_DEVICE: one whose name has that in it.
  void choose() {
    int count = 0, status = api.Init(0);
    if (status != noDevice) {
      check(status, "starting");
      check(api.DeviceGetCount(&count), "listing its devices");
    }
    const char *wanted = std::getenv("QUERN_DEVICE");
    std::string known;
    for (int number = 0; number < count; ++number) {
      cuda::Device candidate = 0;
      char text[256] = "";
      int major = 0, minor = 0;
      check(api.DeviceGet(&candidate, number), "listing its devices");
      check(api.DeviceGetName(text, sizeof(text) - 1, candidate), "naming a device");
      check(api.DeviceGetAttribute(&major, capabilityMajor, candidate), "asking a device");
      check(api.DeviceGetAttribute(&minor, capabilityMinor, candidate), "asking a device");
      bool newEnough = std::pair(major, minor) >= std::pair(oldestMajor, oldestMinor);
      known += (known.empty() ? "" : ", ") + std::string(text);
      if (!newEnough)
        known +=
            format(" (of compute capability %d.%d; %d.%d or later is needed)", major, minor, oldestMajor, oldestMinor);
      if (!newEnough || (wanted && !std::strstr(text, wanted)))
        continue;
      device = candidate;
      title = "CUDA GPU " + std::string(text);
      return;
    }
    if (known.empty())
      throw MachineError("this program computes on a CUDA device, but the driver offers none. Check that nvidia-smi "
                         "lists the card and that CUDA_VISIBLE_DEVICES does not hide it, or compile the model with "
                         "--target native");
    throw MachineError("no CUDA device fits" + (wanted ? " QUERN_DEVICE=" + std::string(wanted) : "") +
                       "; there are: " + known);
  }

  Function kernelOf(Built &built, const char *name, size_t shared) {
    auto known = built.kernels.find(name);
    if (known != built.kernels.end())
      return known->second;
    Function kernel = nullptr;
    check(api.ModuleGetFunction(&kernel, built.module, name), "finding a kernel");
    if (shared > (size_t(48) << 10)) // what any kernel may have
      check(api.FuncSetAttribute(kernel, dynamicShared, int(shared)), "giving a kernel's groups their memory");
    return built.kernels[name] = kernel;
  }
};

} // namespace
} // namespace quern::runtime

QUERN_HALIDE_INTERFACE(cuda, quern::runtime::CudaDevice)
