// How the runtime reports that something is wrong: support's exceptions, which carry the exit status and are caught once,
// in `runProgram`. The names of support/ are the runtime's own.
#ifndef QUERN_RUNTIME_ERROR_H
#define QUERN_RUNTIME_ERROR_H

#include "support/Error.h"

namespace quern::runtime {
using namespace support;
} // namespace quern::runtime
#endif
