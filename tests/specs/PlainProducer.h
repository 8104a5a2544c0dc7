// A producer of kernels that exists only here: plain loops in C, compiled by the system's compiler. It shows that one is
// added by files alone.
#ifndef QUERN_TESTS_SPECS_PLAINPRODUCER_H
#define QUERN_TESTS_SPECS_PLAINPRODUCER_H

#include "codegen/kernel/KernelProducer.h"

namespace quern::test {

/// The producer named `plain`. It has no numbers, and makes kernels without bf16, experts' gradients and top-k.
const codegen::KernelProducer &plainProducer();

} // namespace quern::test
#endif
