// Takes: what the driver offers. Gives: one device, opened with all that it has of what kernels may need.
#include "runtime/device/vulkan/Card.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace quern::runtime::vulkan {

void check(int32_t status, const char *doing) {
  if (status >= 0)
    return;
  const char *why = status == outOfHostMemory || status == outOfDeviceMemory ? "no memory is left"
                    : status == deviceLost                                   ? "the device was lost"
                                                                             : nullptr;
  throw MachineError(why ? format("the Vulkan driver failed while %s: %s (status %d)", doing, why, status)
                         : format("the Vulkan driver failed while %s (status %d)", doing, status));
}

namespace {
/// What a SPIR-V module may need of a device, and whether it has that.
struct Capability {
  uint32_t number;
  const char *name;
  uint32_t Features::*feature;
  uint32_t Features11::*feature11;
  uint32_t Features12::*feature12;
};
const Capability capabilities[] = {
    {9, "16-bit floats", nullptr, nullptr, &Features12::float16},
    {10, "double precision", &Features::float64, nullptr, nullptr},
    {11, "64-bit integers", &Features::int64, nullptr, nullptr},
    {22, "16-bit integers", &Features::int16, nullptr, nullptr},
    {39, "8-bit integers", nullptr, nullptr, &Features12::int8},
    {4433, "16-bit numbers in buffers", nullptr, &Features11::storage16, nullptr},
    {4434, "16-bit numbers in buffers", nullptr, &Features11::uniform16, nullptr},
    {4448, "8-bit numbers in buffers", nullptr, nullptr, &Features12::storage8},
    {4449, "8-bit numbers in buffers", nullptr, nullptr, &Features12::uniform8},
};
constexpr uint32_t shaderCapability = 1; // of every device
} // namespace

Card::Card() : api(openDriver().api) {
  choose();
  open();
}

/// A chain of structures is asked at once.
void Card::ask(PhysicalDevice candidate) {
  properties = {}, features = {}, allocations = {}, floats = {}, features11 = {}, features12 = {};
  properties.next = &allocations, allocations.next = &floats;
  features.next = &features11, features11.next = &features12;
  api.GetPhysicalDeviceProperties2(candidate, &properties);
  if (properties.api >= version12)
    api.GetPhysicalDeviceFeatures2(candidate, &features);
}

/// Which family of queues computes; nothing: none does.
int Card::familyOf(PhysicalDevice candidate) const {
  uint32_t count = 0;
  api.GetPhysicalDeviceQueueFamilyProperties(candidate, &count, nullptr);
  std::vector<QueueFamily> families(count);
  api.GetPhysicalDeviceQueueFamilyProperties(candidate, &count, families.data());
  for (uint32_t number = 0; number < count; ++number)
    if (families[number].flags & computeQueue)
      return int(number);
  return -1;
}

void Card::choose() {
  uint32_t count = 0;
  std::vector<PhysicalDevice> candidates;
  if (Instance instance = openDriver().instance) {
    check(api.EnumeratePhysicalDevices(instance, &count, nullptr), "listing its devices");
    candidates.resize(count);
    check(api.EnumeratePhysicalDevices(instance, &count, candidates.data()), "listing its devices");
  }
  const char *wanted = std::getenv("QUERN_DEVICE");
  std::string known;
  int best = -1;
  for (PhysicalDevice candidate : candidates) {
    ask(candidate);
    const char *lacks = properties.api < version12 ? " (has no Vulkan 1.2, which is needed)"
                        : familyOf(candidate) < 0  ? " (has no queue that computes, which is needed)"
                                                   : "";
    known += (known.empty() ? "" : ", ") + std::string(properties.name) + lacks;
    // In the order of preference: others, processors, virtual, integrated, discrete.
    static const int ranks[] = {0, 3, 4, 2, 1};
    int rank = properties.type < 5 ? ranks[properties.type] : 0;
    if (*lacks || rank <= best || (wanted && !std::strstr(properties.name, wanted)))
      continue;
    best = rank, physical = candidate;
  }
  if (physical) {
    ask(physical);
    family = uint32_t(familyOf(physical));
    title = (best > 1 ? "Vulkan GPU " : "Vulkan device ") + std::string(properties.name);
    return;
  }
  if (known.empty())
    throw MachineError(
        "this program computes on a Vulkan device, but no driver offers one. Install the device's Vulkan "
        "driver (for a processor: mesa-vulkan-drivers), or compile the model with --target native");
  throw MachineError("no Vulkan device fits" + (wanted ? " QUERN_DEVICE=" + std::string(wanted) : "") +
                     "; there are: " + known);
}

void Card::open() {
  // Of what it has, what kernels may need.
  Features with{};
  Features11 with11{};
  Features12 with12{};
  with.next = &with11, with11.next = &with12;
  for (const Capability &each : capabilities) {
    if (each.feature)
      with.*each.feature = features.*each.feature;
    if (each.feature11)
      with11.*each.feature11 = features11.*each.feature11;
    if (each.feature12)
      with12.*each.feature12 = features12.*each.feature12;
  }
  float priority = 1;
  QueueInfo queues;
  queues.family = family, queues.priorities = &priority;
  DeviceInfo info;
  info.next = &with, info.queues = &queues;
  check(api.CreateDevice(physical, &info, nullptr, &device), "opening the device");
  api.GetDeviceQueue(device, family, 0, &queue);
  api.GetPhysicalDeviceMemoryProperties(physical, &memories);
}

bool Card::cutsLoops() const {
  return std::strstr(properties.name, "llvmpipe");
}

std::string Card::lacks(const KernelCode &code) const {
  for (uint32_t need : code.needs) {
    if (need == shaderCapability)
      continue;
    auto known = std::find_if(std::begin(capabilities), std::end(capabilities),
                              [&](const Capability &each) { return each.number == need; });
    if (known == std::end(capabilities))
      return format("SPIR-V's capability %u", need);
    if (!(known->feature     ? features.*known->feature
          : known->feature11 ? features11.*known->feature11
                             : features12.*known->feature12))
      return known->name;
  }
  const uint32_t *group = code.group, *size = limits().groupSize;
  if (uint64_t(group[0]) * group[1] * group[2] > limits().groupThreads || group[0] > size[0] || group[1] > size[1] ||
      group[2] > size[2])
    return format("groups of %u x %u x %u work-items", group[0], group[1], group[2]);
  size_t count = code.elementBytes.size() + code.watched;
  uint32_t most = std::min({limits().stageStorages, limits().pushBytes / 4});
  if (count > most)
    return format("%zu buffers at once (it binds %u)", count, most);
  return {};
}

Held Card::take(uint64_t bytes, uint32_t flags) const {
  Held held;
  BufferInfo info;
  info.bytes = (std::max<uint64_t>(bytes, 4) + 3) / 4 * 4; // whole words can be filled
  info.uses = transferSource | transferTarget | asUniform | asStorage;
  if (info.bytes > allocations.allocationBytes || api.CreateBuffer(device, &info, nullptr, &held.buffer))
    return {};
  Requirements asked;
  api.GetBufferMemoryRequirements(device, held.buffer, &asked);
  int type = -1;
  for (uint32_t wanted : {flags, flags & (hostVisible | hostCoherent)})
    for (uint32_t t = 0; type < 0 && t < memories.typeCount; ++t)
      if (asked.types >> t & 1 && (memories.types[t].flags & wanted) == wanted)
        type = int(t);
  MemoryInfo memory;
  memory.bytes = asked.bytes, memory.type = uint32_t(type);
  int32_t status = type < 0 ? outOfDeviceMemory : api.AllocateMemory(device, &memory, nullptr, &held.memory);
  if (!status)
    status = api.BindBufferMemory(device, held.buffer, held.memory, 0);
  if (!status)
    return held;
  give(held);
  if (status != outOfHostMemory && status != outOfDeviceMemory && status != tooManyObjects)
    check(status, "taking memory");
  return {};
}

void Card::give(const Held &held) const {
  api.DestroyBuffer(device, held.buffer, nullptr);
  api.FreeMemory(device, held.memory, nullptr); // null is allowed
}

} // namespace quern::runtime::vulkan
