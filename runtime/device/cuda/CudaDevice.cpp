// CUDA as a device: one stream, memory of the card, a kernel's PTX compiled by the driver when it is first launched. The
// device's own context (the "primary" one) is used, as whoever else computes in this process does.
#include "runtime/Error.h"
#include "runtime/device/HalideInterface.h"
#include "runtime/device/cuda/EarlyLaunch.h"
#include "runtime/device/cuda/LaunchList.h"
#include "runtime/device/cuda/TensorProbe.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>

namespace quern::runtime {
namespace {

using namespace cuda;

/// Kernels are PTX for this capability or later: Volta and all that followed (codegen/Targets.cpp).
constexpr int oldestMajor = 7, oldestMinor = 0;

/// A kernel's PTX, compiled, and its launches by name.
struct Built {
  Module module;
  struct Kernel {
    Function function = nullptr;
    bool eager = false;
  };
  std::map<std::string, Kernel, std::less<>> kernels; ///< those that were launched
  bool waits = false;                                 ///< its kernels wait for those before them by themselves
  std::set<std::string, std::less<>> eager;           ///< and these say where
};

class CudaDevice : public GpuDevice {
public:
  CudaDevice() : api(openApi()), list(api) {
    chooseDevice();
    check(api.DevicePrimaryCtxRetain(&context, device), "opening the device");
    check(api.CtxSetCurrent(context), "opening the device");
    check(api.StreamCreate(&stream, nonBlocking), "making its stream");
  }

  const char *name() const override { return title.c_str(); }

  bool takes(const char *text, size_t bytes) const override {
    Wanted wanted = wantedBy(std::string(text, strnlen(text, bytes)));
    int version = 0;
    // What is for one kind of card copies by tensor maps, which drivers make since CUDA 12.
    bool isNewDriver = api.TensorMapEncodeTiled && !api.DriverGetVersion(&version) && version >= 12000;
    return fits(wanted) && (!wanted.alone || isNewDriver);
  }

  void *build(const char *text, size_t bytes) override {
    std::string ptx(text, strnlen(text, bytes)); // the driver wants a zero behind it
    needsCapability(ptx);
    auto built = std::make_unique<Built>();
    if (early) {
      WaitingPtx waiting = withWaits(std::move(ptx));
      ptx = std::move(waiting.ptx), built->eager = std::move(waiting.eager), built->waits = true;
    }
    char log[2000] = "";
    int names[] = {errorLog, errorLogBytes};
    void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
    if (int status = api.ModuleLoadDataEx(&built->module, ptx.c_str(), 2, names, values))
      throw MachineError(*log ? "the CUDA driver cannot compile a kernel: " + std::string(log)
                              : "the CUDA driver failed while loading a kernel: " + said(status));
    return built.release(); // stays as long as the program
  }

  DeviceLimits measureLimits() override {
    DeviceLimits limits = GpuDevice::measureLimits();
    limits.products = measureTensorCores(*this);
    return limits;
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
    flush();
    // Of pageable memory: it returns when the bytes have been read.
    check(api.MemcpyHtoDAsync(at(to), from, bytes, stream), "copying to the device");
  }
  void fetch(void *to, const Place &from, size_t bytes) override {
    flush();
    check(api.MemcpyDtoHAsync(to, at(from), bytes, stream), "copying from the device");
    finish();
  }
  void move(const Place &to, const Place &from, size_t bytes) override { list.copy(at(to), at(from), bytes); }
  void fillWith(const Place &to, int byte, size_t bytes) override {
    flush();
    check(api.MemsetD8Async(at(to), static_cast<unsigned char>(byte), bytes, stream), "filling memory");
  }
  void finish() override {
    flush();
    recordMark();
    check(api.StreamSynchronize(stream), "computing");
  }
  /// Where nothing waits to be begun, it is set right before what is: what the host does meanwhile is not the device's time.
  void setMark(size_t number) override {
    bool idle = list.empty();
    flush();
    recordMark();
    Event &event = marks[number];
    if (!event)
      check(api.EventCreate(&event, 0), "measuring time");
    pending = event;
    if (!idle)
      recordMark();
  }
  bool fetchBehind(const Place &from, size_t bytes) override {
    if (bytes > fetchRoom)
      return false;
    if (!fetched) {
      check(api.MemAllocHost(&fetched, fetchRoom), "taking memory for copies");
      check(api.EventCreate(&hasFetched, 0), "making an event");
    }
    flush();
    check(api.MemcpyDtoHAsync(fetched, at(from), bytes, stream), "copying from the device");
    check(api.EventRecord(hasFetched, stream), "copying from the device");
    return true;
  }
  void endFetch(void *to, size_t bytes) override {
    flush(); // what came meanwhile is begun before anybody waits
    check(api.EventSynchronize(hasFetched), "computing");
    std::memcpy(to, fetched, bytes);
  }
  double secondsBetween(size_t from, size_t to) override {
    float milliseconds = 0;
    check(api.EventElapsedTime(&milliseconds, marks[from], marks[to]), "measuring time");
    return double(milliseconds) * 1e-3;
  }

  void begin(void *built, const char *name, const Grid &grid, const std::vector<Argument> &arguments,
             const std::vector<Place> &places) override {
    Built &known = *static_cast<Built *>(built);
    addresses.resize(arguments.size());
    values.resize(arguments.size());
    bytes.resize(arguments.size());
    maps.clear();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].isBuffer)
        addresses[i] = at(places[i]);
      values[i] = arguments[i].isBuffer ? &addresses[i] : arguments[i].value;
      bytes[i] = arguments[i].isBuffer ? sizeof(Address) : arguments[i].bytes;
      if (arguments[i].tensor) {
        values[i] = encoded(*arguments[i].tensor, addresses[i], maps.emplace_back());
        bytes[i] = sizeof(TensorMap);
      }
    }
    const Built::Kernel &kernel = kernelOf(known, name, grid.shared);
    list.launch(kernel.function, grid, values, bytes, {known.waits, kernel.eager});
  }

private:
  /// `.target sm_90a` is for capability 9.0 alone, sm_80 for 8.0 and all that follow.
  struct Wanted {
    int capability = 0;
    bool alone = false;
  };
  static Wanted wantedBy(const std::string &ptx) {
    const char *known = ".target sm_";
    size_t at = ptx.find(known);
    if (at == std::string::npos)
      return {};
    char *end = nullptr;
    int capability = int(std::strtol(ptx.c_str() + at + std::strlen(known), &end, 10));
    return {capability, *end == 'a'};
  }
  bool fits(const Wanted &wanted) const {
    return wanted.alone ? capability == wanted.capability : capability >= wanted.capability;
  }
  /// Throws MachineError where the kernels are for other cards.
  void needsCapability(const std::string &ptx) const {
    Wanted wanted = wantedBy(ptx);
    if (fits(wanted))
      return;
    throw MachineError(format("a kernel of this program is for CUDA devices of compute capability %d.%d%s, and %s has "
                              "%d.%d; use %s card, or compile the model with --target opencl, vulkan or native",
                              wanted.capability / 10, wanted.capability % 10, wanted.alone ? " alone" : " or later",
                              name(), capability / 10, capability % 10, wanted.alone ? "such a" : "a newer"));
  }
  const TensorMap *encoded(const Tensor &tensor, Address address, TensorMap &map) const {
    constexpr size_t most = Tensor::mostDims;
    uint64_t extents[most], strides[most];
    uint32_t box[most], steps[most];
    for (size_t d = 0; d < size_t(tensor.rank); ++d) {
      extents[d] = uint64_t(tensor.extents[d]), box[d] = uint32_t(tensor.box[d]), steps[d] = 1;
      if (d)
        strides[d - 1] = uint64_t(tensor.strides[d]);
    }
    int swizzle = tensor.lineBytes == 128 ? 3 : tensor.lineBytes == 64 ? 2 : 1;
    check(api.TensorMapEncodeTiled(&map, tensorBF16, uint32_t(tensor.rank), address, extents, strides, box, steps, 0,
                                   swizzle, promoteWholeLines, 0),
          "describing a tensor");
    return &map;
  }

  const Api &api;
  cuda::Device device = 0;
  Context context = nullptr;
  Stream stream = nullptr;
  std::string title;
  Event marks[mostMarks] = {};
  Event pending = nullptr; // a mark that is set with the next launch
  static constexpr size_t fetchRoom = 64;
  void *fetched = nullptr; // where a copy goes behind the host's back, and whether it is there
  Event hasFetched = nullptr;
  LaunchList list;
  int capability = 0;             // 90 for 9.0
  bool early = false;             // kernels are launched before those before them have ended
  std::vector<Address> addresses; // of the launch that is being begun
  std::vector<const void *> values;
  std::vector<size_t> bytes;
  std::deque<TensorMap> maps; // which stay where they are while more are made

  void recordMark() {
    if (Event event = std::exchange(pending, nullptr))
      check(api.EventRecord(event, stream), "measuring time");
  }
  void flush() {
    if (list.empty())
      return;
    recordMark();
    check(list.begin(stream, context, counted.graphs), "launching kernels");
  }

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
  void chooseDevice() {
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
      const char *asked = std::getenv("QUERN_CUDA_DEPENDENT"); // 0: to compare
      capability = 10 * major + minor;
      if (const char *most = std::getenv("QUERN_CUDA_CAPABILITY")) // to measure kernels for older cards on this one
        capability = std::min(capability, std::atoi(most));
      early = !(asked && *asked == '0') && capability >= 90 && api.GraphAddDependencies;
      return;
    }
    if (known.empty())
      throw MachineError("this program computes on a CUDA device, but the driver offers none. Check that nvidia-smi "
                         "lists the card and that CUDA_VISIBLE_DEVICES does not hide it, or compile the model with "
                         "--target native");
    throw MachineError("no CUDA device fits" + (wanted ? " QUERN_DEVICE=" + std::string(wanted) : "") +
                       "; there are: " + known);
  }

  const Built::Kernel &kernelOf(Built &built, const char *name, size_t shared) {
    auto known = built.kernels.find(name);
    if (known != built.kernels.end())
      return known->second;
    Built::Kernel kernel{nullptr, built.eager.count(name) > 0};
    check(api.ModuleGetFunction(&kernel.function, built.module, name), "finding a kernel");
    if (shared > (size_t(48) << 10)) // what any kernel may have
      check(api.FuncSetAttribute(kernel.function, dynamicShared, int(shared)), "giving a kernel's groups their memory");
    return built.kernels[name] = kernel;
  }
};

} // namespace
} // namespace quern::runtime

QUERN_HALIDE_INTERFACE(cuda, quern::runtime::CudaDevice)
