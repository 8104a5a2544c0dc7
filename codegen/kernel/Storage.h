// How a kernel's values lie in memory.
#ifndef QUERN_CODEGEN_KERNEL_STORAGE_H
#define QUERN_CODEGEN_KERNEL_STORAGE_H

#include "codegen/kernel/KernelGraph.h"
#include "support/CodedGroups.h"

#include <HalideRuntime.h>

namespace quern::codegen {

/// Of one element: f32, int32, uint16 for bf16, uint8 for bool and for codes, which are bytes of groups.
inline halide_type_t storedType(Kind kind) {
  switch (kind) {
  case Kind::Real:
    return halide_type_t(halide_type_float, 32);
  case Kind::Int:
    return halide_type_t(halide_type_int, 32);
  case Kind::BF16:
    return halide_type_t(halide_type_uint, 16);
  default:
    return halide_type_t(halide_type_uint, 8);
  }
}

/// Extents of a packed weight's buffer, innermost first: a tile's rows, the depth (of codes in bytes), tiles, then what
/// matrices are stacked along. Each stride is the product of the extents before. `shape`: [stacked ..., rows, depth].
inline std::vector<int64_t> packedExtents(Kind kind, int64_t tile, const std::vector<int64_t> &shape) {
  size_t rank = shape.size();
  int64_t depth = shape[rank - 1];
  if (int bits = bitsOfCode(kind))
    depth = support::codedBytes(bits, depth);
  std::vector<int64_t> extents = {tile, depth, (shape[rank - 2] + tile - 1) / tile};
  extents.insert(extents.end(), shape.rbegin() + 2, shape.rend());
  return extents;
}

} // namespace quern::codegen
#endif
