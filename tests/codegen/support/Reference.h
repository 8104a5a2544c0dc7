// A kernel's graph evaluated by plain loops in double precision: what compiled kernels are compared with.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_REFERENCE_H
#define QUERN_TESTS_CODEGEN_SUPPORT_REFERENCE_H

#include "codegen/kernel/KernelGraph.h"

#include <map>

namespace quern::codegen {

using Lengths = std::map<std::string, int64_t>;

struct DenseTensor {
  std::vector<int64_t> shape;
  std::vector<double> data; ///< row-major in the order of the node's dimensions
};

/// All nodes' values, given those of the arguments.
std::vector<DenseTensor> evaluate(const KernelGraph &graph, const Lengths &lengths, std::vector<DenseTensor> arguments);
std::vector<int64_t> shapeOf(const Node &node, const Lengths &lengths);

} // namespace quern::codegen
#endif
