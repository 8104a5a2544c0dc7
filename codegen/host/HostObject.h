// From the host program to LLVM IR, assembly and an object file.
#ifndef QUERN_CODEGEN_HOST_HOSTOBJECT_H
#define QUERN_CODEGEN_HOST_HOSTOBJECT_H

#include "codegen/host/HostProgram.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace quern::codegen {

/// Lowers the host module (in place) to LLVM IR, adds the program table `quern_program` with `description`, optimises.
/// Null with `error` set if a lowering fails.
std::unique_ptr<llvm::Module> translateHost(HostProgram &program, const std::string &description,
                                            llvm::LLVMContext &context, std::string &error);

enum class HostFile { Object, Assembly };
/// Writes baseline x86-64 machine code: only kernels use newer instructions, and the runtime checks for those first.
bool writeHost(llvm::Module &module, HostFile kind, const std::string &path, std::string &error);

} // namespace quern::codegen
#endif
