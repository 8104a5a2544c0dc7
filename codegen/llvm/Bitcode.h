// Machine code of what another LLVM has optimised, for a processor that it has no name for.
#ifndef QUERN_CODEGEN_LLVM_BITCODE_H
#define QUERN_CODEGEN_LLVM_BITCODE_H

#include "codegen/kernel/KernelProducer.h"

#include <string>

namespace quern::codegen {

/// Reads the file `bitcode` and writes it to `path` as the form says, with the instructions of target.llvmCpu, whatever its functions
/// were made for. Throws std::runtime_error that names the file.
void compileBitcode(const std::string &bitcode, const CpuTarget &target, EmitForm form, const std::string &path);

} // namespace quern::codegen
#endif
