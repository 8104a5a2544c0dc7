// A layer between programs and the system's OpenCL driver: QUERN_FAKE_OPENCL makes that device another one. What is not here
// is found in the driver, which this library is linked to.
//   none   no device                              old    a device without shared virtual memory, as before OpenCL 2.0
//   full   no memory is left for weights          lost   it is lost after ten launches (lost:N: after N)
//   narrow without double precision
#include "runtime/device/opencl/OpenCl.h"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace quern::runtime::opencl;

namespace {
constexpr int32_t outOfResources = -5, noDevices = -1;

bool is(const char *kind) {
  const char *wanted = std::getenv("QUERN_FAKE_OPENCL");
  return wanted && !std::strcmp(wanted, kind);
}
template <typename Known> Known realOne(Known, const char *name) {
  return reinterpret_cast<Known>(dlsym(RTLD_NEXT, name));
}
int launches = 0;
bool lost() {
  static const int last = [] {
    const char *wanted = std::getenv("QUERN_FAKE_OPENCL");
    if (wanted && !std::strncmp(wanted, "lost:", 5))
      return std::atoi(wanted + 5);
    return is("lost") ? 10 : INT_MAX;
  }();
  return launches > last;
}
} // namespace

extern "C" {
int32_t clGetDeviceIDs(Platform platform, uint64_t type, uint32_t most, DeviceId *devices, uint32_t *count) {
  return is("none") ? noDevices : realOne(&clGetDeviceIDs, "clGetDeviceIDs")(platform, type, most, devices, count);
}
int32_t clGetDeviceInfo(DeviceId device, uint32_t what, size_t room, void *value, size_t *bytes) {
  int32_t status = realOne(&clGetDeviceInfo, "clGetDeviceInfo")(device, what, room, value, bytes);
  if (value && ((what == deviceSvm && is("old")) || (what == deviceDoubles && is("narrow"))))
    std::memset(value, 0, room);
  return status;
}
void *clSVMAlloc(Context context, uint64_t flags, size_t bytes, uint32_t alignment) {
  static size_t taken = 0;
  taken += bytes;
  if (is("full") && taken > size_t(128) << 10)
    return nullptr;
  return realOne(&clSVMAlloc, "clSVMAlloc")(context, flags, bytes, alignment);
}
int32_t clEnqueueNDRangeKernel(Queue queue, Kernel kernel, uint32_t dimensions, const size_t *from,
                               const size_t *global, const size_t *local, uint32_t count, const Event *after,
                               Event *event) {
  ++launches;
  return lost() ? outOfResources
                : realOne(&clEnqueueNDRangeKernel, "clEnqueueNDRangeKernel")(queue, kernel, dimensions, from, global,
                                                                             local, count, after, event);
}
int32_t clEnqueueSVMMemcpy(Queue queue, uint32_t waits, void *to, const void *from, size_t bytes, uint32_t count,
                           const Event *after, Event *event) {
  return lost()
             ? outOfResources
             : realOne(&clEnqueueSVMMemcpy, "clEnqueueSVMMemcpy")(queue, waits, to, from, bytes, count, after, event);
}
int32_t clFinish(Queue queue) {
  return lost() ? outOfResources : realOne(&clFinish, "clFinish")(queue);
}
}
