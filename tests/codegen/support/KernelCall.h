// A kernel's arguments and results as programs would lay them out, and the call of its C function.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_KERNELCALL_H
#define QUERN_TESTS_CODEGEN_SUPPORT_KERNELCALL_H

#include "codegen/KernelBuffer.h"
#include "tests/codegen/support/Reference.h"

#include <memory>
#include <vector>

namespace quern::codegen {

using KernelBuffers = std::vector<std::unique_ptr<KernelBuffer>>;

/// Arguments, filled, then results, which hold NaN.
KernelBuffers bindBuffers(const KernelGraph &graph, const Lengths &lengths, const std::vector<DenseTensor> &arguments);
DenseTensor tensorOf(const KernelBuffer &buffer);

/// Calls `function` with the lengths, then the buffers; returns its status.
int callKernel(void *function, const KernelGraph &graph, const Lengths &lengths, const KernelBuffers &buffers);

/// Deterministic values: reals in [-1, 1), ints in [0, 7), bools.
DenseTensor randomTensor(const Node &node, const Lengths &lengths, uint64_t seed);

} // namespace quern::codegen
#endif
