// Takes: the host program in the LLVM dialect and the description. Gives: an object that exports `quern_program`.
#include "codegen/host/HostObject.h"

#include "runtime/abi/Abi.h"
#include "support/OutputFile.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace quern::codegen;

/// runtime/abi/Abi.h: quern_entry and quern_program_table as constants.
static void addTable(llvm::Module &module, const HostProgram &program, const std::string &description) {
  llvm::LLVMContext &context = module.getContext();
  auto *pointer = llvm::PointerType::getUnqual(context);
  auto *i32 = llvm::Type::getInt32Ty(context);
  auto *i64 = llvm::Type::getInt64Ty(context);
  auto *entryType = llvm::StructType::get(context, {pointer, pointer, pointer, pointer, pointer, pointer});
  auto function = [&](const std::string &name) -> llvm::Constant * {
    if (name.empty())
      return llvm::ConstantPointerNull::get(pointer);
    return module.getFunction(name);
  };
  std::vector<llvm::Constant *> entries;
  for (const HostEntry &entry : program.entries)
    entries.push_back(llvm::ConstantStruct::get(
        entryType, {function(entry.run), function(entry.arenaBytes), function(entry.keptBytes), function(entry.epoch),
                    function(entry.callerScratch), function(entry.workerScratch)}));
  auto *arrayType = llvm::ArrayType::get(entryType, entries.size());
  auto constant = [&](llvm::Constant *value, const char *name) {
    return new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage,
                                    value, name);
  };
  llvm::Constant *list = constant(llvm::ConstantArray::get(arrayType, entries), "quern_entries");
  llvm::Constant *text =
      constant(llvm::ConstantDataArray::getString(context, description, /*AddNull=*/false), "quern_description");
  auto *tableType = llvm::StructType::get(context, {i32, i32, pointer, i64, pointer});
  llvm::Constant *table = llvm::ConstantStruct::get(tableType, {llvm::ConstantInt::get(i32, QUERN_ABI_VERSION),
                                                                llvm::ConstantInt::get(i32, entries.size()), text,
                                                                llvm::ConstantInt::get(i64, description.size()), list});
  new llvm::GlobalVariable(module, tableType, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage, table,
                           "quern_program");
}

static std::unique_ptr<llvm::TargetMachine> targetMachine(std::string &error) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, "x86-64", "", llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Less));
}

std::unique_ptr<llvm::Module> quern::codegen::translateHost(HostProgram &program, const std::string &description,
                                                            llvm::LLVMContext &context, std::string &error) {
  mlir::MLIRContext *mlirContext = program.module->getContext();
  mlir::DialectRegistry registry;
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  mlirContext->appendDialectRegistry(registry);
  mlirContext->loadDialect<mlir::cf::ControlFlowDialect>();
  mlir::PassManager passes(mlirContext);
  passes.enableVerifier(false); // once is enough: the translation verifies
  passes.addPass(mlir::createSCFToControlFlowPass());
  passes.addPass(mlir::createConvertControlFlowToLLVMPass());
  passes.addPass(mlir::createArithToLLVMConversionPass());
  passes.addPass(mlir::createReconcileUnrealizedCastsPass());
  if (mlir::failed(passes.run(*program.module))) {
    error = "the host program could not be lowered to the LLVM dialect";
    return nullptr;
  }
  std::unique_ptr<llvm::Module> module = mlir::translateModuleToLLVMIR(*program.module, context, "quern");
  if (!module) {
    error = "the host program could not be translated to LLVM IR";
    return nullptr;
  }
  addTable(*module, program, description);
  std::unique_ptr<llvm::TargetMachine> machine = targetMachine(error);
  if (!machine)
    return nullptr;
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout());
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  // Pointer arithmetic folds; nothing here is hot.
  llvm::ModulePassManager simplify;
  if (llvm::Error failure =
          builder.parsePassPipeline(simplify, "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg)")) {
    error = llvm::toString(std::move(failure));
    return nullptr;
  }
  simplify.run(*module, modules);
  return module;
}

bool quern::codegen::writeHost(llvm::Module &module, HostFile kind, const std::string &path, std::string &error) {
  std::unique_ptr<llvm::TargetMachine> machine = targetMachine(error);
  if (!machine)
    return false;
  llvm::SmallString<0> image;
  llvm::raw_svector_ostream out(image);
  llvm::legacy::PassManager passes;
  auto file = kind == HostFile::Object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
  if (machine->addPassesToEmitFile(passes, out, nullptr, file)) {
    error = "this LLVM cannot write such a file";
    return false;
  }
  passes.run(module);
  support::writeFile(path, llvm::StringRef(image));
  return true;
}
