// A layer between programs and the system's Vulkan driver: QUERN_FAKE_VULKAN makes that device another one.
//   none      no device                        old      a device of Vulkan 1.1
//   full      no memory is left for weights    lost     it is lost at the third list of commands (lost:N: after N launches)
//   narrow    without double precision         few      it binds one buffer at once
//   small     tensors of 1 KiB can be bound    aligned  buffers begin at multiples of 256 bytes
#include "runtime/device/vulkan/Vulkan.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string_view>

using namespace quern::runtime::vulkan;

namespace {
using Function = void (*)();
using Lookup = Function (*)(Instance, const char *);

bool is(const char *kind) {
  const char *wanted = std::getenv("QUERN_FAKE_VULKAN");
  return wanted && !std::strcmp(wanted, kind);
}

Lookup real() {
  static const Lookup found = [] {
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? reinterpret_cast<Lookup>(dlsym(library, "vkGetInstanceProcAddr")) : nullptr;
  }();
  return found;
}
Instance made = nullptr;
template <typename Known> Known realOne(Known, const char *name) {
  return reinterpret_cast<Known>(real()(made, name));
}

int32_t enumerate(Instance instance, uint32_t *count, PhysicalDevice *devices) {
  if (is("none")) {
    *count = 0;
    return 0;
  }
  return realOne(&enumerate, "vkEnumeratePhysicalDevices")(instance, count, devices);
}
void properties(PhysicalDevice device, Properties *into) {
  realOne(&properties, "vkGetPhysicalDeviceProperties2")(device, into);
  if (is("old"))
    into->api = 1u << 22 | 1u << 12;
  if (is("few"))
    into->limits.stageStorages = 1;
  if (is("small"))
    into->limits.storageRange = 1024;
  if (is("aligned"))
    into->limits.storageAlignment = 256;
}
void features(PhysicalDevice device, Features *into) {
  realOne(&features, "vkGetPhysicalDeviceFeatures2")(device, into);
  if (is("narrow"))
    into->float64 = 0;
}
int32_t allocate(DeviceHandle device, const MemoryInfo *info, const Allocator *allocator, Memory *memory) {
  static int count = 0;
  if (is("full") && ++count > 3) // the first are what the host sends through
    return outOfDeviceMemory;
  return realOne(&allocate, "vkAllocateMemory")(device, info, allocator, memory);
}
uint64_t launches = 0;
void dispatch(Commands commands, uint32_t fromX, uint32_t fromY, uint32_t fromZ, uint32_t x, uint32_t y, uint32_t z) {
  ++launches;
  realOne(&dispatch, "vkCmdDispatchBase")(commands, fromX, fromY, fromZ, x, y, z);
}
int32_t submit(Queue queue, uint32_t count, const Submission *submission, Fence fence) {
  static int submitted = 0;
  static const uint64_t last = [] {
    const char *wanted = std::getenv("QUERN_FAKE_VULKAN");
    return wanted && !std::strncmp(wanted, "lost:", 5) ? std::strtoull(wanted + 5, nullptr, 10) : UINT64_MAX;
  }();
  if ((is("lost") && ++submitted > 2) || launches > last)
    return deviceLost;
  return realOne(&submit, "vkQueueSubmit")(queue, count, submission, fence);
}
} // namespace

extern "C" Function vkGetInstanceProcAddr(Instance instance, const char *name) {
  if (!real())
    return nullptr;
  made = instance;
  std::string_view wanted = name;
  if (wanted == "vkEnumeratePhysicalDevices")
    return reinterpret_cast<Function>(&enumerate);
  if (wanted == "vkGetPhysicalDeviceProperties2")
    return reinterpret_cast<Function>(&properties);
  if (wanted == "vkGetPhysicalDeviceFeatures2")
    return reinterpret_cast<Function>(&features);
  if (wanted == "vkAllocateMemory")
    return reinterpret_cast<Function>(&allocate);
  if (wanted == "vkCmdDispatchBase")
    return reinterpret_cast<Function>(&dispatch);
  if (wanted == "vkQueueSubmit")
    return reinterpret_cast<Function>(&submit);
  return real()(instance, name);
}
