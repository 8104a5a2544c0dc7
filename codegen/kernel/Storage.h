// How a kernel's values are stored.
#ifndef QUERN_CODEGEN_KERNEL_STORAGE_H
#define QUERN_CODEGEN_KERNEL_STORAGE_H

#include "codegen/kernel/KernelGraph.h"

#include <HalideRuntime.h>

namespace quern::codegen {

/// Of one element of a buffer: f32, int32, int8 for i8, uint16 for bf16 and f16, uint8 for bool and for codes, which are bytes
/// of groups, uint32 for words of super-blocks.
inline halide_type_t storedType(Storage storage) {
  if (storage == Storage::F32)
    return halide_type_t(halide_type_float, 32);
  auto bits = static_cast<uint8_t>(8 * support::bytesOf(storage));
  return halide_type_t(support::kindOf(storage) == support::Kind::Int ? halide_type_int : halide_type_uint, bits);
}

/// The same of a buffer with that layout, whose numbers may be several in a word.
inline halide_type_t storedType(Storage storage, const Layout &layout) {
  halide_type_t type = storedType(storage);
  return layout.beside == 1 ? type : halide_type_t(type.code, static_cast<uint8_t>(type.bits * layout.beside));
}

/// Extents of a packed weight's buffer, innermost first: a tile's rows, the depth (in words where these hold several numbers, of codes
/// in bytes or words), tiles, then what matrices are stacked along. Each stride is the product of the extents before. `shape`:
/// [stacked ..., rows, depth].
inline std::vector<int64_t> packedExtents(Storage storage, const Layout &layout, const std::vector<int64_t> &shape) {
  size_t rank = shape.size();
  int64_t depth = shape[rank - 1] / layout.beside, tile = layout.tile;
  if (bitsOfCode(storage))
    depth = support::bytesOf(storage, depth) / support::bytesOf(storage);
  std::vector<int64_t> extents = {tile, depth, (shape[rank - 2] + tile - 1) / tile};
  extents.insert(extents.end(), shape.rbegin() + 2, shape.rend());
  return extents;
}

} // namespace quern::codegen
#endif
