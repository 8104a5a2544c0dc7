// Tile programs executed: by plain loops, and as PTX, launch by launch, in whatever order its threads may take.
#ifndef QUERN_TESTS_CODEGEN_TILE_TILERUN_H
#define QUERN_TESTS_CODEGEN_TILE_TILERUN_H

#include "codegen/tile/Divide.h"
#include "tests/codegen/tile/RoundingOf.h"
#include "tests/gpu/ptx/Ptx.h"

namespace quern::codegen::tile {

std::vector<DenseTensor> runLoops(const Program &program, const KernelGraph &graph, const Lengths &lengths,
                                  const std::vector<DenseTensor> &arguments, size_t variant);
/// `seed`: ptx::Launch's. Throws std::runtime_error for what no card would do, as reads of memory that is nobody's.
std::vector<DenseTensor> runPtx(const Program &program, const ptx::Module &module, const KernelGraph &graph,
                                const Lengths &lengths, const std::vector<DenseTensor> &arguments, size_t variant,
                                uint64_t seed);

} // namespace quern::codegen::tile
#endif
