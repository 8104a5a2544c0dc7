// A device of Vulkan: which one, what it can do, its memory.
#ifndef QUERN_RUNTIME_DEVICE_VULKAN_CARD_H
#define QUERN_RUNTIME_DEVICE_VULKAN_CARD_H

#include "runtime/device/vulkan/Spirv.h"
#include "runtime/device/vulkan/Vulkan.h"

namespace quern::runtime::vulkan {

/// Throws MachineError for an error's code.
void check(int32_t status, const char *doing);

/// A buffer and the memory behind it.
struct Held {
  Buffer buffer = nullptr;
  Memory memory = nullptr;
};

class Card {
public:
  /// Opens the first discrete GPU; where there is none, an integrated one, a virtual one, any. QUERN_DEVICE: one whose name
  /// has that in it. Throws MachineError that says which there are and what they lack.
  Card();

  const Api &api;
  DeviceHandle device = nullptr;
  Queue queue = nullptr;
  uint32_t family = 0; ///< of the queue
  std::string title;

  const Limits &limits() const { return properties.limits; }
  /// Whether kernels can ask that infinities and NaN are treated as values.
  bool keepsNaN() const { return floats.keepsNaN32; }
  /// Whether it may end loops too early: Mesa's llvmpipe does after 65,535 steps of all loops of a work-item, and says nothing.
  bool cutsLoops() const;
  /// What a kernel needs that it has not; empty: it has all.
  std::string lacks(const KernelCode &code) const;
  /// Memory that has all of `flags`, or at least what the host needs of them; no buffer: none is left.
  Held take(uint64_t bytes, uint32_t flags) const;
  void give(const Held &held) const;

private:
  PhysicalDevice physical = nullptr;
  Properties properties;
  AllocationProperties allocations;
  FloatProperties floats;
  Features features;
  Features11 features11;
  Features12 features12;
  MemoryProperties memories;

  void ask(PhysicalDevice candidate);
  int familyOf(PhysicalDevice candidate) const;
  void choose();
  void open();
};

} // namespace quern::runtime::vulkan
#endif
