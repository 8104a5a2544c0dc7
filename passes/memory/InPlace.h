// Whether a kernel's result may be written over one of its arguments.
#ifndef QUERN_PASSES_MEMORY_INPLACE_H
#define QUERN_PASSES_MEMORY_INPLACE_H

#include "ir/Dialect.h"

namespace quern::passes {

/// True where each element of the kernel's only result is made from the element of `argument` at the same place and
/// from no other of it (the residual that is added to a projection), and where both are laid out alike. Kernels read
/// all that an element needs before they store it, and store each element once (codegen/README.md), so the result may
/// then be where the argument is.
bool mayShareMemory(ir::KernelOp kernel, unsigned argument);

/// True where the kernel's result `result` is a value that a scan carries and `argument` what it begins with, laid out
/// alike and read for nothing else: the next state may then be written over the last one. A scan's kernels read the
/// elements of a state that a task carries before they write them.
bool mayReplaceState(ir::KernelOp kernel, unsigned argument, unsigned result);

} // namespace quern::passes
#endif
