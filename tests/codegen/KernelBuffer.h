// Memory in a kernel's layout, with Halide's description of it.
#ifndef QUERN_TESTS_CODEGEN_KERNELBUFFER_H
#define QUERN_TESTS_CODEGEN_KERNELBUFFER_H

#include "codegen/kernel/KernelGraph.h"
#include "tests/codegen/Reference.h"

#include <HalideRuntime.h>

#include <memory>
#include <vector>

namespace quern::codegen {

struct KernelBuffer {
  std::vector<char> memory;
  std::vector<halide_dimension_t> dims;
  halide_buffer_t halide{};            ///< `host`: where it begins in memory
  std::vector<int64_t> shape, strides; ///< logical, outermost first
  Layout layout;
  Kind kind;

  char *base() { return reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64); }
  /// From `base` on.
  size_t bytes() const { return memory.size() - 64; }
  /// Of an element, in elements.
  int64_t offset(const std::vector<int64_t> &at) const;
  /// What lies where `halide.host` says.
  DenseTensor tensor() const;
};

/// Arguments, filled, then results, which hold NaN.
std::vector<std::unique_ptr<KernelBuffer>> bindBuffers(const KernelGraph &graph, const Lengths &lengths,
                                                       const std::vector<DenseTensor> &arguments);

/// Deterministic values: reals in [-1, 1), ints in [0, 7), bools.
DenseTensor randomTensor(const Node &node, const Lengths &lengths, uint64_t seed);

} // namespace quern::codegen
#endif
