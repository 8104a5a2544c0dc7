// The part of Vulkan that programs use, declared here and opened at run time, so that no header or library of it is needed
// to compile or start one. Names and numbers: the Khronos Vulkan 1.2 specification. Structures begin with their number and
// what they are chained to; their members keep Vulkan's order.
#ifndef QUERN_RUNTIME_DEVICE_VULKAN_VULKAN_H
#define QUERN_RUNTIME_DEVICE_VULKAN_VULKAN_H

#include <cstddef>
#include <cstdint>

namespace quern::runtime::vulkan {

using Instance = struct InstanceOf *;
using PhysicalDevice = struct PhysicalDeviceOf *;
using DeviceHandle = struct DeviceOf *;
using Queue = struct QueueOf *;
using Commands = struct CommandBufferOf *;
using Buffer = struct BufferOf *;
using Memory = struct DeviceMemoryOf *;
using Fence = struct FenceOf *;
using Shader = struct ShaderModuleOf *;
using SetLayout = struct DescriptorSetLayoutOf *;
using PipelineLayout = struct PipelineLayoutOf *;
using Pipeline = struct PipelineOf *;
using SetPool = struct DescriptorPoolOf *;
using Set = struct DescriptorSetOf *;
using CommandPool = struct CommandPoolOf *;
using QueryPool = struct QueryPoolOf *;

inline constexpr int32_t outOfHostMemory = -1, outOfDeviceMemory = -2, deviceLost = -4, incompatibleDriver = -9,
                         tooManyObjects = -10;
inline constexpr uint32_t version12 = 1u << 22 | 2u << 12;

inline constexpr uint32_t uniformBuffer = 6, storageBuffer = 7; // types of descriptors
inline constexpr uint32_t transferSource = 1, transferTarget = 2, asUniform = 0x10,
                          asStorage = 0x20;                                                   // uses of a buffer
inline constexpr uint32_t deviceLocal = 1, hostVisible = 2, hostCoherent = 4, hostCached = 8; // memory
inline constexpr uint32_t computeQueue = 2, computeStage = 0x20, anyBase = 0x10 /* of a pipeline: vkCmdDispatchBase */;
inline constexpr uint32_t atCompute = 0x800, atTransfer = 0x1000, atEnd = 0x2000,
                          atHost = 0x4000; // stages of a barrier
inline constexpr uint32_t uniformRead = 8, shaderRead = 0x20, shaderWrite = 0x40, transferRead = 0x800,
                          transferWrite = 0x1000, hostRead = 0x2000; // accesses of a barrier

/// What a structure is, first word of most.
enum class Is : uint32_t {
  Application = 0,
  InstanceInfo = 1,
  QueueInfo = 2,
  DeviceInfo = 3,
  Submission = 4,
  MemoryInfo = 5,
  FenceInfo = 8,
  QueryPoolInfo = 11,
  BufferInfo = 12,
  ShaderInfo = 16,
  StageInfo = 18,
  PipelineInfo = 29,
  PipelineLayoutInfo = 30,
  SetLayoutInfo = 32,
  SetPoolInfo = 33,
  SetInfo = 34,
  SetWrite = 35,
  CommandPoolInfo = 39,
  CommandsInfo = 40,
  CommandsBegin = 42,
  MemoryBarrier = 46,
  Features11 = 49,
  Features12 = 51,
  Features = 1000059000,
  Properties = 1000059001,
  AllocationProperties = 1000168000,
  FloatProperties = 1000197000,
};

struct Application {
  Is is = Is::Application;
  const void *next = nullptr;
  const char *name = nullptr;
  uint32_t version = 0;
  const char *engine = nullptr;
  uint32_t engineVersion = 0, api = version12;
};
struct InstanceInfo {
  Is is = Is::InstanceInfo;
  const void *next = nullptr;
  uint32_t flags = 0;
  const Application *application = nullptr;
  uint32_t layerCount = 0;
  const char *const *layers = nullptr;
  uint32_t extensionCount = 0;
  const char *const *extensions = nullptr;
};

struct Limits { // fields that are not asked for are arrays of the right length
  uint32_t images[6], uniformRange, storageRange, pushBytes, allocations, samplers;
  uint64_t granularity, sparse;
  uint32_t boundSets, stageSamplers, stageUniforms, stageStorages, more[34];
  uint32_t sharedBytes, groups[3], groupThreads, groupSize[3];
  uint32_t raster[10];
  float viewport[2];
  uint32_t viewportBits;
  size_t mapAlignment;
  uint64_t texelAlignment, uniformAlignment, storageAlignment;
  uint32_t others[22];
  float tick; ///< nanoseconds of a timestamp's unit
  uint32_t rest[19];
};
struct Properties {
  Is is = Is::Properties;
  void *next = nullptr;
  uint32_t api, driver, vendor, device, type; ///< type: 1 integrated, 2 discrete, 3 virtual, 4 a processor
  char name[256];
  uint8_t cache[16];
  Limits limits;
  uint32_t sparse[5];
};
struct AllocationProperties {
  Is is = Is::AllocationProperties;
  void *next = nullptr;
  uint32_t setDescriptors;
  uint64_t allocationBytes;
};
struct FloatProperties {
  Is is = Is::FloatProperties;
  void *next = nullptr;
  uint32_t independence[2], keepsNaN16, keepsNaN32, keepsNaN64, modes[12];
};
struct Features {
  Is is = Is::Features;
  void *next = nullptr;
  uint32_t before[39], float64, int64, int16, after[13]; ///< each 0 or 1
};
struct Features11 {
  Is is = Is::Features11;
  void *next = nullptr;
  uint32_t storage16, uniform16, after[10];
};
struct Features12 {
  Is is = Is::Features12;
  void *next = nullptr;
  uint32_t before[2], storage8, uniform8, between[3], float16, int8, after[38];
};
struct QueueFamily {
  uint32_t flags, count, timestampBits, granularity[3];
};
struct MemoryProperties {
  uint32_t typeCount;
  struct {
    uint32_t flags, heap;
  } types[32];
  uint32_t heapCount;
  struct {
    uint64_t bytes;
    uint32_t flags;
  } heaps[16];
};

struct QueueInfo {
  Is is = Is::QueueInfo;
  const void *next = nullptr;
  uint32_t flags = 0, family = 0, count = 1;
  const float *priorities = nullptr;
};
struct DeviceInfo {
  Is is = Is::DeviceInfo;
  const void *next = nullptr;
  uint32_t flags = 0, queueCount = 1;
  const QueueInfo *queues = nullptr;
  uint32_t layerCount = 0;
  const char *const *layers = nullptr;
  uint32_t extensionCount = 0;
  const char *const *extensions = nullptr;
  const void *features = nullptr;
};
struct BufferInfo {
  Is is = Is::BufferInfo;
  const void *next = nullptr;
  uint32_t flags = 0;
  uint64_t bytes = 0;
  uint32_t uses = 0, sharing = 0, familyCount = 0;
  const uint32_t *families = nullptr;
};
struct Requirements {
  uint64_t bytes, alignment;
  uint32_t types; ///< a bit for each type of memory
};
struct MemoryInfo {
  Is is = Is::MemoryInfo;
  const void *next = nullptr;
  uint64_t bytes = 0;
  uint32_t type = 0;
};
struct FenceInfo {
  Is is = Is::FenceInfo;
  const void *next = nullptr;
  uint32_t flags = 0;
};
struct QueryPoolInfo {
  Is is = Is::QueryPoolInfo;
  const void *next = nullptr;
  uint32_t flags = 0, type = 2 /* timestamps */, count = 0, statistics = 0;
};
struct ShaderInfo {
  Is is = Is::ShaderInfo;
  const void *next = nullptr;
  uint32_t flags = 0;
  size_t bytes = 0;
  const uint32_t *code = nullptr;
};
struct SetBinding {
  uint32_t binding, type, count, stages;
  const void *samplers;
};
struct SetLayoutInfo {
  Is is = Is::SetLayoutInfo;
  const void *next = nullptr;
  uint32_t flags = 0, count = 0;
  const SetBinding *bindings = nullptr;
};
struct PushRange {
  uint32_t stages, offset, bytes;
};
struct PipelineLayoutInfo {
  Is is = Is::PipelineLayoutInfo;
  const void *next = nullptr;
  uint32_t flags = 0, setCount = 1;
  const SetLayout *sets = nullptr;
  uint32_t pushCount = 0;
  const PushRange *push = nullptr;
};
struct StageInfo {
  Is is = Is::StageInfo;
  const void *next = nullptr;
  uint32_t flags = 0, stage = computeStage;
  Shader shader = nullptr;
  const char *entry = nullptr;
  const void *specialisation = nullptr;
};
struct PipelineInfo {
  Is is = Is::PipelineInfo;
  const void *next = nullptr;
  uint32_t flags = anyBase;
  StageInfo stage;
  PipelineLayout layout = nullptr;
  Pipeline base = nullptr;
  int32_t baseIndex = -1;
};
struct PoolSize {
  uint32_t type, count;
};
struct SetPoolInfo {
  Is is = Is::SetPoolInfo;
  const void *next = nullptr;
  uint32_t flags = 0, sets = 0, sizeCount = 0;
  const PoolSize *sizes = nullptr;
};
struct SetInfo {
  Is is = Is::SetInfo;
  const void *next = nullptr;
  SetPool pool = nullptr;
  uint32_t count = 1;
  const SetLayout *layouts = nullptr;
};
struct BufferRange {
  Buffer buffer;
  uint64_t offset, bytes;
};
struct SetWrite {
  Is is = Is::SetWrite;
  const void *next = nullptr;
  Set set = nullptr;
  uint32_t binding = 0, element = 0, count = 1, type = storageBuffer;
  const void *images = nullptr;
  const BufferRange *buffers = nullptr;
  const void *views = nullptr;
};
struct CommandPoolInfo {
  Is is = Is::CommandPoolInfo;
  const void *next = nullptr;
  uint32_t flags = 2 /* command buffers are begun again */, family = 0;
};
struct CommandsInfo {
  Is is = Is::CommandsInfo;
  const void *next = nullptr;
  CommandPool pool = nullptr;
  uint32_t level = 0, count = 1;
};
struct CommandsBegin {
  Is is = Is::CommandsBegin;
  const void *next = nullptr;
  uint32_t flags = 1 /* submitted once */;
  const void *inheritance = nullptr;
};
struct MemoryBarrier {
  Is is = Is::MemoryBarrier;
  const void *next = nullptr;
  uint32_t from = 0, to = 0;
};
struct CopyRange {
  uint64_t from, to, bytes;
};
struct Submission {
  Is is = Is::Submission;
  const void *next = nullptr;
  uint32_t waitCount = 0;
  const void *waits = nullptr;
  const uint32_t *waitStages = nullptr;
  uint32_t count = 1;
  const Commands *commands = nullptr;
  uint32_t signalCount = 0;
  const void *signals = nullptr;
};

using Allocator = void; ///< always null: the driver's own

/// The functions of a driver. Each has its C name without the prefix; results are 0, positive (done, with a remark) or a
/// negative code.
struct Api {
  int32_t (*CreateInstance)(const InstanceInfo *, const Allocator *, Instance *);
  void (*DestroyInstance)(Instance, const Allocator *);
  int32_t (*EnumeratePhysicalDevices)(Instance, uint32_t *count, PhysicalDevice *);
  void (*GetPhysicalDeviceProperties2)(PhysicalDevice, Properties *);
  void (*GetPhysicalDeviceFeatures2)(PhysicalDevice, Features *);
  void (*GetPhysicalDeviceMemoryProperties)(PhysicalDevice, MemoryProperties *);
  void (*GetPhysicalDeviceQueueFamilyProperties)(PhysicalDevice, uint32_t *count, QueueFamily *);
  int32_t (*CreateDevice)(PhysicalDevice, const DeviceInfo *, const Allocator *, DeviceHandle *);
  void (*GetDeviceQueue)(DeviceHandle, uint32_t family, uint32_t number, Queue *);
  int32_t (*CreateBuffer)(DeviceHandle, const BufferInfo *, const Allocator *, Buffer *);
  void (*DestroyBuffer)(DeviceHandle, Buffer, const Allocator *);
  void (*GetBufferMemoryRequirements)(DeviceHandle, Buffer, Requirements *);
  int32_t (*AllocateMemory)(DeviceHandle, const MemoryInfo *, const Allocator *, Memory *);
  void (*FreeMemory)(DeviceHandle, Memory, const Allocator *);
  int32_t (*BindBufferMemory)(DeviceHandle, Buffer, Memory, uint64_t offset);
  int32_t (*MapMemory)(DeviceHandle, Memory, uint64_t offset, uint64_t bytes, uint32_t flags, void **address);
  int32_t (*CreateFence)(DeviceHandle, const FenceInfo *, const Allocator *, Fence *);
  int32_t (*ResetFences)(DeviceHandle, uint32_t count, const Fence *);
  int32_t (*WaitForFences)(DeviceHandle, uint32_t count, const Fence *, uint32_t all, uint64_t nanoseconds);
  int32_t (*CreateShaderModule)(DeviceHandle, const ShaderInfo *, const Allocator *, Shader *);
  void (*DestroyShaderModule)(DeviceHandle, Shader, const Allocator *);
  int32_t (*CreateDescriptorSetLayout)(DeviceHandle, const SetLayoutInfo *, const Allocator *, SetLayout *);
  int32_t (*CreatePipelineLayout)(DeviceHandle, const PipelineLayoutInfo *, const Allocator *, PipelineLayout *);
  int32_t (*CreateComputePipelines)(DeviceHandle, void *cache, uint32_t count, const PipelineInfo *, const Allocator *,
                                    Pipeline *);
  int32_t (*CreateDescriptorPool)(DeviceHandle, const SetPoolInfo *, const Allocator *, SetPool *);
  int32_t (*ResetDescriptorPool)(DeviceHandle, SetPool, uint32_t flags);
  int32_t (*AllocateDescriptorSets)(DeviceHandle, const SetInfo *, Set *);
  void (*UpdateDescriptorSets)(DeviceHandle, uint32_t count, const SetWrite *, uint32_t copies, const void *);
  int32_t (*CreateCommandPool)(DeviceHandle, const CommandPoolInfo *, const Allocator *, CommandPool *);
  int32_t (*AllocateCommandBuffers)(DeviceHandle, const CommandsInfo *, Commands *);
  int32_t (*BeginCommandBuffer)(Commands, const CommandsBegin *);
  int32_t (*EndCommandBuffer)(Commands);
  void (*CmdBindPipeline)(Commands, uint32_t point, Pipeline);
  void (*CmdBindDescriptorSets)(Commands, uint32_t point, PipelineLayout, uint32_t first, uint32_t count, const Set *,
                                uint32_t, const uint32_t *);
  void (*CmdPushConstants)(Commands, PipelineLayout, uint32_t stages, uint32_t offset, uint32_t bytes, const void *);
  int32_t (*CreateQueryPool)(DeviceHandle, const QueryPoolInfo *, const Allocator *, QueryPool *);
  int32_t (*GetQueryPoolResults)(DeviceHandle, QueryPool, uint32_t first, uint32_t count, size_t room, void *results,
                                 uint64_t stride, uint32_t flags);
  void (*CmdResetQueryPool)(Commands, QueryPool, uint32_t first, uint32_t count);
  void (*CmdWriteTimestamp)(Commands, uint32_t stage, QueryPool, uint32_t number);
  void (*CmdDispatchBase)(Commands, uint32_t fromX, uint32_t fromY, uint32_t fromZ, uint32_t x, uint32_t y, uint32_t z);
  void (*CmdCopyBuffer)(Commands, Buffer from, Buffer to, uint32_t count, const CopyRange *);
  void (*CmdFillBuffer)(Commands, Buffer, uint64_t offset, uint64_t bytes, uint32_t word);
  void (*CmdPipelineBarrier)(Commands, uint32_t from, uint32_t to, uint32_t flags, uint32_t count,
                             const MemoryBarrier *, uint32_t, const void *, uint32_t, const void *);
  int32_t (*QueueSubmit)(Queue, uint32_t count, const Submission *, Fence);
};
inline constexpr uint32_t computePoint = 1; // of CmdBindPipeline, CmdBindDescriptorSets

struct Driver {
  Api api;
  Instance instance; ///< null: no driver has a device
};
/// Opens libvulkan.so.1 (or the library that QUERN_VULKAN_LIBRARY names). Throws MachineError that says what to install.
const Driver &openDriver();

} // namespace quern::runtime::vulkan
#endif
