// Kernels with a recurrence, made by LLVM.
#ifndef QUERN_CODEGEN_SCAN_SCANPRODUCER_H
#define QUERN_CODEGEN_SCAN_SCANPRODUCER_H

#include "codegen/kernel/KernelProducer.h"

namespace quern::codegen {

/// The producer named `scan`. It makes kernels whose results are those of one scan.
const KernelProducer &scanProducer();

} // namespace quern::codegen
#endif
