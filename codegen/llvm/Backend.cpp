// Takes: a module of LLVM IR. Gives: an object, assembly or text.
#include "codegen/llvm/Backend.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

#include <mutex>
#include <stdexcept>

namespace quern::codegen {

std::unique_ptr<llvm::TargetMachine> machineFor(const CpuTarget &cpu) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    throw std::runtime_error(error);
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, cpu.llvmCpu, "", llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt,
                                  llvm::CodeGenOptLevel::Aggressive));
}

void aimAt(llvm::Module &module, llvm::TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine, const std::string &what) {
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(module, &stream))
    throw std::runtime_error(what + ": its code is not well formed: " + broken);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

void write(llvm::Module &module, llvm::TargetMachine &machine, EmitForm form, const std::string &path,
           const std::string &what) {
  std::error_code code;
  llvm::raw_fd_ostream out(path, code, llvm::sys::fs::OF_None);
  if (code)
    throw std::runtime_error(what + ": cannot write " + path + ": " + code.message());
  if (form == EmitForm::Llvm) {
    module.print(out, nullptr);
  } else {
    llvm::legacy::PassManager passes;
    auto kind = form == EmitForm::Object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
    if (machine.addPassesToEmitFile(passes, out, nullptr, kind))
      throw std::runtime_error(what + ": this LLVM cannot write such a file");
    passes.run(module);
  }
  out.flush();
  if (out.has_error()) {
    out.clear_error();
    throw std::runtime_error(what + ": cannot write " + path);
  }
}

} // namespace quern::codegen
