// A kernel's graph evaluated by plain loops in double precision: what compiled kernels are compared with.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_REFERENCE_H
#define QUERN_TESTS_CODEGEN_SUPPORT_REFERENCE_H

#include "codegen/kernel/KernelGraph.h"
#include "tests/codegen/support/Rounding.h"

#include <map>

namespace quern::codegen {

using Lengths = std::map<std::string, int64_t>;

struct DenseTensor {
  std::vector<int64_t> shape;
  std::vector<double> data;    ///< row-major in the order of the node's dimensions
  std::vector<double> slack{}; ///< of each what roundings that f32 may decide either way can change; empty: nothing
};

/// All nodes' values, given those of the arguments.
std::vector<DenseTensor> evaluate(const KernelGraph &graph, const Lengths &lengths, std::vector<DenseTensor> arguments,
                                  const Rounding &rounding = {});
std::vector<int64_t> shapeOf(const Node &node, const Lengths &lengths);

} // namespace quern::codegen
#endif
