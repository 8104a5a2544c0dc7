// Takes: a tile program. Gives: PTX, by LLVM's NVPTX backend within this process: no toolkit is needed.
#include "codegen/tile/ptx/PtxModule.h"

#include "codegen/llvm/Backend.h"
#include "codegen/tile/ptx/KernelIr.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>
#include <set>
#include <stdexcept>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace quern::codegen::tile {

static std::unique_ptr<llvm::TargetMachine> machineOf(int capability) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    throw std::runtime_error("this LLVM makes no PTX: " + error);
  // PTX 7.0: the first with mma.sync of bf16 and cp.async, known to all drivers since CUDA 11; 8.0: with all of Hopper's,
  // known since CUDA 12.
  bool hopper = capability == 90;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, hopper ? "sm_90a" : "sm_" + std::to_string(capability), hopper ? "+ptx80" : "+ptx70",
      llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

std::vector<int> capabilitiesOf(const Program &program) {
  std::set<int, std::greater<>> all;
  for (const Variant &variant : program.variants)
    all.insert(variant.capability);
  return {all.begin(), all.end()};
}

std::string kernelName(const Program &, size_t variant, size_t stage) {
  return "tile_" + std::to_string(variant) + "_" + std::to_string(stage);
}

PtxModule ptxOf(const Program &program, int capability) {
  return ptxOf("kernel " + program.name, capability, [&](llvm::Module &module) {
    for (size_t v = 0; v < program.variants.size(); ++v)
      for (size_t i = 0; i < program.variants[v].stages.size() && program.variants[v].capability == capability; ++i) {
        const Stage &stage = program.variants[v].stages[i];
        constexpr decltype(&emitMap) byForm[] = {emitProduct, emitDots, emitMap, emitReduce, emitAsync, emitAttend};
        byForm[int(stage.form)](program, stage, kernelName(program, v, i), module);
      }
  });
}

PtxModule ptxOf(const std::string &what, int capability, const std::function<void(llvm::Module &)> &write) {
  llvm::LLVMContext context;
  llvm::Module module(what, context);
  std::unique_ptr<llvm::TargetMachine> machine = machineOf(capability);
  aimAt(module, *machine);
  write(module);
  PtxModule made;
  llvm::raw_string_ostream(made.llvm) << module;
  optimize(module, *machine, what);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    throw std::runtime_error("this LLVM cannot write PTX");
  passes.run(module);
  made.ptx = text.str();
  return made;
}

} // namespace quern::codegen::tile
