// Copies that go on while their thread does.
#ifndef QUERN_TESTS_GPU_PTX_WARPS_H
#define QUERN_TESTS_GPU_PTX_WARPS_H

#include "tests/gpu/ptx/Steps.h"

namespace quern::ptx {

void beginCopy(Thread &, const Instruction &);
void commitCopies(Thread &, const Instruction &);
void awaitCopies(Thread &, const Instruction &);

} // namespace quern::ptx
#endif
