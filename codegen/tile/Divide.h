// From a kernel's graph to its tile program.
#ifndef QUERN_CODEGEN_TILE_DIVIDE_H
#define QUERN_CODEGEN_TILE_DIVIDE_H

#include "codegen/tile/attend/DivideAttention.h"
#include "codegen/tile/products/DivideProducts.h"

namespace quern::codegen::tile {

/// The numbers of a plan.
struct Numbers : ProductNumbers {
  AttendNumbers attend{};
};

/// Why no tile program computes the kernel; nothing: `program` does.
std::optional<std::string> divide(const KernelGraph &graph, const Numbers &numbers, Program &program);

} // namespace quern::codegen::tile
#endif
