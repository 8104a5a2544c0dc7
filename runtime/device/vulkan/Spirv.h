// Kernels as Halide hands them to a driver of Vulkan, made ready for buffers that begin anywhere.
#ifndef QUERN_RUNTIME_DEVICE_VULKAN_SPIRV_H
#define QUERN_RUNTIME_DEVICE_VULKAN_SPIRV_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quern::runtime::vulkan {

/// One launch's code. Its numbers come in one uniform buffer at binding 0, if it has any, each where `numbers` says; its
/// buffers are bound behind that, in order; a word of push constants for each of them says by how many of its elements the
/// buffer begins behind the binding.
struct KernelCode {
  std::string name;
  std::vector<uint32_t> words;
  struct Number {
    uint32_t at, bytes; ///< of a truth value 4
  };
  std::vector<Number> numbers;
  std::vector<uint32_t> elementBytes; ///< of each buffer
  bool watched = false; ///< two words are bound behind its buffers: the second becomes 1 where a loop was cut short
  uint32_t group[3] = {1, 1, 1}; ///< work-items of a group
  std::vector<uint32_t> needs;   ///< SPIR-V's numbers of the capabilities that it uses
};

/// The launches in what halide_vulkan_initialize_kernels is given. `keepsNaN`: the device can be asked to treat infinities
/// and NaN as values. `watches`: it may end loops too early. Throws MachineError where it is not what is expected.
std::vector<KernelCode> readKernels(const char *bytes, size_t size, bool keepsNaN, bool watches);

} // namespace quern::runtime::vulkan
#endif
