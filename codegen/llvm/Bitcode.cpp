// Takes: a file of LLVM's bitcode. Gives: an object, assembly or text for one processor.
#include "codegen/llvm/Bitcode.h"

#include "codegen/llvm/Backend.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"

#include <stdexcept>

namespace quern::codegen {

void compileBitcode(const std::string &bitcode, const CpuTarget &target, EmitForm form, const std::string &path) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseIRFile(bitcode, diagnostic, context);
  if (!module)
    throw std::runtime_error(bitcode + ": " + diagnostic.getMessage().str());
  std::unique_ptr<llvm::TargetMachine> machine = machineFor(target);
  aimAt(*module, *machine);
  for (llvm::Function &function : *module) {
    for (const char *ofAnother : {"target-cpu", "tune-cpu", "target-features"})
      function.removeFnAttr(ofAnother);
    // LLVM holds wide vectors of some processors back, which run slower where those are few.
    function.addFnAttr("prefer-vector-width", std::to_string(target.vector * 32));
  }
  write(*module, *machine, form, path, bitcode);
}

} // namespace quern::codegen
