// Takes: nothing. Gives: the driver's functions. All but one are asked for through that one, as Vulkan wants it: so a layer
// in between sees every call.
#include "runtime/device/vulkan/Vulkan.h"

#include "runtime/Error.h"
#include "runtime/device/DriverLibrary.h"

namespace quern::runtime::vulkan {

namespace {
using Function = void (*)();
using Lookup = Function (*)(Instance, const char *name);

class Finder {
public:
  Finder(Lookup lookup, Instance instance) : lookup(lookup), instance(instance) {}
  template <typename Known> void operator()(const char *name, Known &into) const {
    into = reinterpret_cast<Known>(lookup(instance, name));
    if (!into)
      throw MachineError(std::string("the driver of a Vulkan device is too old: it has no ") + name +
                         "; Vulkan 1.2 or later is needed");
  }

private:
  Lookup lookup;
  Instance instance;
};
} // namespace

const Driver &openDriver() {
  static const Driver driver = [] {
    DriverLibrary library(
        "a Vulkan device", "libvulkan.so.1", "QUERN_VULKAN_LIBRARY",
        "Install libvulkan1 and the device's Vulkan driver (for a processor: mesa-vulkan-drivers), or "
        "compile the model with --target native");
    Lookup lookup = nullptr;
    library.find("vkGetInstanceProcAddr", lookup, "Vulkan 1.2");
    Driver found{};
    Api &api = found.api;
    Finder(lookup, nullptr)("vkCreateInstance", api.CreateInstance);
    Application application;
    application.name = "quern";
    InstanceInfo info;
    info.application = &application;
    int32_t status = api.CreateInstance(&info, nullptr, &found.instance);
    if (status == incompatibleDriver) {
      found.instance = nullptr;
      return found;
    }
    if (status)
      throw MachineError(format("the Vulkan driver failed while starting (status %d)", status));
    Finder find(lookup, found.instance);
    find("vkEnumeratePhysicalDevices", api.EnumeratePhysicalDevices);
    find("vkGetPhysicalDeviceProperties2", api.GetPhysicalDeviceProperties2);
    find("vkGetPhysicalDeviceFeatures2", api.GetPhysicalDeviceFeatures2);
    find("vkGetPhysicalDeviceMemoryProperties", api.GetPhysicalDeviceMemoryProperties);
    find("vkGetPhysicalDeviceQueueFamilyProperties", api.GetPhysicalDeviceQueueFamilyProperties);
    find("vkCreateDevice", api.CreateDevice);
    find("vkGetDeviceQueue", api.GetDeviceQueue);
    find("vkCreateBuffer", api.CreateBuffer);
    find("vkDestroyBuffer", api.DestroyBuffer);
    find("vkGetBufferMemoryRequirements", api.GetBufferMemoryRequirements);
    find("vkAllocateMemory", api.AllocateMemory);
    find("vkFreeMemory", api.FreeMemory);
    find("vkBindBufferMemory", api.BindBufferMemory);
    find("vkMapMemory", api.MapMemory);
    find("vkCreateFence", api.CreateFence);
    find("vkResetFences", api.ResetFences);
    find("vkWaitForFences", api.WaitForFences);
    find("vkCreateShaderModule", api.CreateShaderModule);
    find("vkDestroyShaderModule", api.DestroyShaderModule);
    find("vkCreateDescriptorSetLayout", api.CreateDescriptorSetLayout);
    find("vkCreatePipelineLayout", api.CreatePipelineLayout);
    find("vkCreateComputePipelines", api.CreateComputePipelines);
    find("vkCreateDescriptorPool", api.CreateDescriptorPool);
    find("vkResetDescriptorPool", api.ResetDescriptorPool);
    find("vkAllocateDescriptorSets", api.AllocateDescriptorSets);
    find("vkUpdateDescriptorSets", api.UpdateDescriptorSets);
    find("vkCreateCommandPool", api.CreateCommandPool);
    find("vkAllocateCommandBuffers", api.AllocateCommandBuffers);
    find("vkBeginCommandBuffer", api.BeginCommandBuffer);
    find("vkEndCommandBuffer", api.EndCommandBuffer);
    find("vkCmdBindPipeline", api.CmdBindPipeline);
    find("vkCmdBindDescriptorSets", api.CmdBindDescriptorSets);
    find("vkCmdPushConstants", api.CmdPushConstants);
    find("vkCreateQueryPool", api.CreateQueryPool);
    find("vkGetQueryPoolResults", api.GetQueryPoolResults);
    find("vkCmdResetQueryPool", api.CmdResetQueryPool);
    find("vkCmdWriteTimestamp", api.CmdWriteTimestamp);
    find("vkCmdDispatchBase", api.CmdDispatchBase);
    find("vkCmdCopyBuffer", api.CmdCopyBuffer);
    find("vkCmdFillBuffer", api.CmdFillBuffer);
    find("vkCmdPipelineBarrier", api.CmdPipelineBarrier);
    find("vkQueueSubmit", api.QueueSubmit);
    return found;
  }();
  return driver;
}

} // namespace quern::runtime::vulkan
