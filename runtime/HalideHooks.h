// Halide's runtime functions, as emitted programs have them.
#ifndef QUERN_RUNTIME_HALIDEHOOKS_H
#define QUERN_RUNTIME_HALIDEHOOKS_H

#include <cstdint>

namespace quern::runtime {

/// Does nothing, but being called it makes the linker take HalideHooks.o from the archive. Without that, Halide's own
/// weak definitions would do, and its own threads would start.
void useHalideHooks();

/// The most bytes that kernels' scratch has taken from the system at one time, kept blocks included.
uint64_t scratchPeakBytes();

} // namespace quern::runtime
#endif
