// Halide's runtime functions, as emitted programs have them.
#ifndef QUERN_RUNTIME_MACHINE_HALIDEHOOKS_H
#define QUERN_RUNTIME_MACHINE_HALIDEHOOKS_H

#include <cstdint>

namespace quern::runtime {

/// Does nothing, but being called it makes the linker take HalideHooks.o from the archive. Without that, Halide's own
/// weak definitions would do, and its own threads would start.
void useHalideHooks();

/// Before kernels are called by this thread: bytes of scratch that they will ask for at one time at most, in this
/// thread and in each that helps it. The memory is taken at the first need.
void planScratch(uint64_t caller, uint64_t worker);

/// The most bytes of scratch that kernels have had: of each thread as much as it ever had at one time.
uint64_t scratchPeakBytes();

} // namespace quern::runtime
#endif
