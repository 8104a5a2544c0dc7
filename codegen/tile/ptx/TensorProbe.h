// What tensor cores can do at most, as a launch that a program measures its device with.
#ifndef QUERN_CODEGEN_TILE_PTX_TENSORPROBE_H
#define QUERN_CODEGEN_TILE_PTX_TENSORPROBE_H

#include "codegen/tile/ptx/PtxModule.h"

namespace quern::codegen::tile {

/// The launch `tensor_probe(ends, iterations)`, blocks of 256 threads: each warp multiplies bf16 by bf16 in eight chains that
/// wait for themselves alone; `ends` gets the sums of each thread. runtime/device/cuda/TensorProbe.cpp launches it.
PtxModule tensorProbe();

} // namespace quern::codegen::tile
#endif
