// Running compiled functions: their scratch, their parallel loops, and what happens where one of them fails.
#ifndef QUERN_RUNTIME_MACHINE_KERNELCALL_H
#define QUERN_RUNTIME_MACHINE_KERNELCALL_H

#include "runtime/abi/Abi.h"
#include "runtime/machine/Scratch.h"

namespace quern::runtime {

/// One call of a compiled function in this thread; its kernels take scratch from `scratch` and loop on the process's
/// pool. Gives the function's status. Throws MachineError where a kernel failed: for want of memory, or by a broken
/// invariant of its own. Results are then undefined; the session can go on with other calls.
/// Whoever calls this also links HalideHooks.o. Without it Halide's own weak definitions would do, and its own threads
/// would start.
int32_t runKernels(Scratch &scratch, quern_function function, const quern_call &call);

} // namespace quern::runtime
#endif
