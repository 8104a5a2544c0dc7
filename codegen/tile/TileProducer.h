// Kernels for NVIDIA GPUs with tensor cores: products of matrices and what is computed of their sums.
#ifndef QUERN_CODEGEN_TILE_TILEPRODUCER_H
#define QUERN_CODEGEN_TILE_TILEPRODUCER_H

#include "codegen/kernel/KernelProducer.h"
#include "codegen/tile/Program.h"

namespace quern::codegen {

const KernelProducer &tileProducer();

namespace tile {
/// The program that a plan of the producer's makes of a kernel. Throws std::runtime_error where there is none.
Program programOf(const KernelGraph &graph, const KernelPlan &plan);
} // namespace tile

} // namespace quern::codegen
#endif
