// What every producer that writes LLVM IR does with a finished module.
#ifndef QUERN_CODEGEN_LLVM_BACKEND_H
#define QUERN_CODEGEN_LLVM_BACKEND_H

#include "codegen/kernel/KernelProducer.h"

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>

namespace quern::codegen {

/// For code that the processor runs.
std::unique_ptr<llvm::TargetMachine> machineFor(const CpuTarget &cpu);
/// Sets the module's triple and layout.
void aimAt(llvm::Module &module, llvm::TargetMachine &machine);
/// Checks and optimises it. Throws std::runtime_error with `what` for one that is not well formed.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, const std::string &what);
/// Writes it as the form says. Throws std::runtime_error with `what`.
void write(llvm::Module &module, llvm::TargetMachine &machine, EmitForm form, const std::string &path,
           const std::string &what);

} // namespace quern::codegen
#endif
