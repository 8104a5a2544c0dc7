// Takes: a planned module, and more plans for its kernels. Gives: a program whose launches go through pointers, one for
// each kernel, that the runtime sets.
// Why in one program: both versions of a launch then find the caches, threads and lengths that the program has there.
#include "codegen/tuning/Versions.h"

#include "codegen/CompileKernels.h"
#include "codegen/LaunchCosts.h"
#include "codegen/PlanKernels.h"
#include "codegen/ReadKernel.h"
#include "codegen/host/Description.h"
#include "codegen/host/HostObject.h"
#include "codegen/link/Link.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/analysis/Options.h"
#include "support/OutputFile.h"
#include "support/TemporaryFolder.h"

#include "llvm/IR/IRBuilder.h"

#include <algorithm>

using namespace quern::codegen;
namespace ir = quern::ir;

namespace {
/// One kernel with all of its versions compiled.
struct Compiled {
  KernelGraph graph;
  std::vector<std::string> symbols;
};
} // namespace

static std::string versionName(const std::string &kernel, size_t number) {
  return kernel + "__" + std::to_string(number);
}

/// Adds a copy of the kernel with another plan. Nothing launches it.
static void addVersion(ir::KernelOp kernel, const std::string &name, const KernelPlan &plan) {
  mlir::OpBuilder b(kernel);
  b.setInsertionPointAfter(kernel);
  auto copy = mlir::cast<ir::KernelOp>(b.clone(*kernel));
  mlir::SymbolTable::setSymbolName(copy, name);
  setPlan(copy, plan);
}

/// A program that needs as much as the one of `all` that needs most.
static Scratch mostOf(const std::vector<Scratch> &all) {
  Scratch most;
  int64_t counters = 0;
  auto larger = [&](int &mine, int other, int shift) {
    if (other < 0)
      return;
    other += shift;
    if (mine >= 0) {
      most.steps.push_back({Scratch::Op::Max, 0, {}, mine, other});
      other = static_cast<int>(most.steps.size()) - 1;
    }
    mine = other;
  };
  for (const Scratch &one : all) {
    int shift = static_cast<int>(most.steps.size());
    int64_t own = 0;
    for (Scratch::Step step : one.steps) {
      for (int *operand : {&step.a, &step.b, &step.c})
        *operand += *operand < 0 ? 0 : shift;
      if (step.op == Scratch::Op::Counter) {
        own = std::max(own, step.number + 1);
        step.number += counters;
      }
      most.steps.push_back(step);
    }
    counters += own;
    larger(most.caller, one.caller, shift);
    larger(most.worker, one.worker, shift);
  }
  return most;
}

/// The functions that launches call, and quern_versions (runtime/abi/Versions.h).
static void addTable(llvm::Module &module, const std::vector<Compiled> &kernels) {
  llvm::LLVMContext &context = module.getContext();
  auto *pointer = llvm::PointerType::getUnqual(context);
  auto *i32 = llvm::Type::getInt32Ty(context);
  auto external = llvm::GlobalValue::ExternalLinkage;
  auto constant = [&](llvm::Constant *value) -> llvm::Constant * {
    return new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage,
                                    value, "quern_table");
  };
  auto list = [&](const std::vector<llvm::Constant *> &values) {
    return constant(llvm::ConstantArray::get(llvm::ArrayType::get(pointer, values.size()), values));
  };
  auto *compare = llvm::Function::Create(llvm::FunctionType::get(i32, {i32, pointer}, false), external,
                                         "quern_compare_versions", module);
  auto *rowType = llvm::StructType::get(context, {pointer, pointer, pointer, pointer, pointer, i32, i32, i32, i32});
  std::vector<llvm::Constant *> rows;
  for (const Compiled &kernel : kernels) {
    auto number = [&](size_t value) { return llvm::ConstantInt::get(i32, value); };
    size_t lengths = kernel.graph.symbols.size(), inputs = kernel.graph.argumentLayouts.size(),
           results = kernel.graph.results.size();
    std::vector<llvm::Type *> types(lengths, i32);
    types.insert(types.end(), inputs + results, pointer);
    auto *type = llvm::FunctionType::get(i32, types, false);
    auto *twin = llvm::FunctionType::get(i32, {pointer}, false);
    std::vector<llvm::Constant *> versions, calls;
    for (const std::string &symbol : kernel.symbols) {
      versions.push_back(llvm::cast<llvm::Constant>(module.getOrInsertFunction(symbol, type).getCallee()));
      calls.push_back(llvm::cast<llvm::Constant>(module.getOrInsertFunction(symbol + "_argv", twin).getCallee()));
    }
    auto *current = new llvm::GlobalVariable(module, pointer, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
                                             versions[0], "quern_current");
    llvm::IRBuilder<> b(context);
    auto *launched = llvm::Function::Create(type, external, "quern_versions_" + kernel.graph.name, module);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "", launched));
    std::vector<llvm::Value *> arguments;
    for (llvm::Argument &argument : launched->args())
      arguments.push_back(&argument);
    llvm::CallInst *call = b.CreateCall(type, b.CreateLoad(pointer, current, /*isVolatile=*/true), arguments);
    call->setTailCallKind(llvm::CallInst::TCK_MustTail);
    b.CreateRet(call);

    auto *checked =
        llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "quern_checked_" + kernel.graph.name, module);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "", checked));
    llvm::Value *table = b.CreateAlloca(pointer, b.getInt32(types.size()));
    for (llvm::Argument &argument : checked->args()) {
      llvm::Value *address = &argument;
      if (argument.getType() == i32) {
        address = b.CreateAlloca(i32);
        b.CreateStore(&argument, address);
      }
      b.CreateStore(address, b.CreateConstGEP1_32(pointer, table, argument.getArgNo()));
    }
    b.CreateRet(b.CreateCall(compare, {b.getInt32(rows.size()), table}));

    rows.push_back(llvm::ConstantStruct::get(
        rowType, {constant(llvm::ConstantDataArray::getString(context, kernel.graph.name)), current, list(versions),
                  list(calls), checked, number(versions.size()), number(lengths), number(inputs), number(results)}));
  }
  llvm::Constant *all = constant(llvm::ConstantArray::get(llvm::ArrayType::get(rowType, rows.size()), rows));
  auto *tableType = llvm::StructType::get(context, {i32, pointer});
  new llvm::GlobalVariable(module, tableType, /*isConstant=*/true, external,
                           llvm::ConstantStruct::get(tableType, {llvm::ConstantInt::get(i32, rows.size()), all}),
                           "quern_versions");
}

void quern::codegen::compileVersion(mlir::ModuleOp planned, const std::string &kernel, const KernelPlan &plan,
                                    const CompileOptions &options) {
  support::TemporaryFolder work;
  CompileOptions own = options;
  own.emit = Emit::Executable;
  own.progress = nullptr;
  compileKernel(planned, kernel, plan, own, work.path());
}

void quern::codegen::compileVersions(mlir::ModuleOp planned, const std::vector<KernelVersions> &versions,
                                     const CompileOptions &options, const std::string &bundle) {
  mlir::OwningOpRef<mlir::ModuleOp> module(mlir::cast<mlir::ModuleOp>(planned->clone()));
  std::vector<std::string> names;
  for (const KernelVersions &one : versions) {
    names.push_back(one.kernel);
    for (size_t i = 0; i < one.others.size(); ++i)
      addVersion(kernelNamed(*module, one.kernel), versionName(one.kernel, i + 1), one.others[i]);
  }
  for (ir::KernelOp kernel : planned.getOps<ir::KernelOp>())
    if (std::string name = kernel.getSymName().str(); std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);

  support::TemporaryFolder work;
  CompileOptions own = options;
  own.emit = Emit::Executable;
  own.progress = nullptr;
  KernelFiles files = compileKernels(*module, own, work.path());
  std::vector<Compiled> kernels;
  KernelScratch scratch;
  KernelSymbols launched;
  for (size_t k = 0; k < names.size(); ++k) {
    Compiled one{readKernel(kernelNamed(*module, names[k])), {files.symbols.at(names[k])}};
    std::vector<Scratch> all = {files.scratch.at(names[k])};
    for (size_t i = 0; k < versions.size() && i < versions[k].others.size(); ++i) {
      one.symbols.push_back(files.symbols.at(versionName(names[k], i + 1)));
      all.push_back(files.scratch.at(versionName(names[k], i + 1)));
    }
    scratch[names[k]] = mostOf(all);
    launched[names[k]] = "quern_versions_" + names[k];
    kernels.push_back(std::move(one));
  }

  HostProgram program = buildHostProgram(planned, scratch, launched, !options.target.device.empty());
  std::string description = describe(planned, program, launchCosts(program), options.target, options.spec), error;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> host = translateHost(program, description, context, error);
  if (!host)
    throw std::runtime_error(error);
  // A module of its own: what it defines is declared in the host's, whose kernels may have any signature.
  llvm::Module table("quern_versions", context);
  table.setTargetTriple(host->getTargetTriple());
  table.setDataLayout(host->getDataLayout());
  addTable(table, kernels);
  if (!bundle.empty()) {
    llvm::Constant *text = llvm::ConstantDataArray::getString(context, bundle);
    new llvm::GlobalVariable(table, text->getType(), /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage, text,
                             "quern_bundle");
  }
  std::string hostFile = work.path() + "/host.o", tableFile = work.path() + "/versions.o",
              linked = work.path() + "/linked";
  if (!writeHost(*host, HostFile::Object, hostFile, error) || !writeHost(table, HostFile::Object, tableFile, error))
    throw std::runtime_error(error);
  std::vector<std::string> objects = {hostFile, tableFile};
  objects.insert(objects.end(), files.paths.begin(), files.paths.end());
  LinkedParts parts{{"tuning"}, options.target.device};
  if (ir::optionsOf(planned).train)
    parts.libraries.push_back("training");
  if (!linkProgram(objects, linked, parts, error))
    throw std::runtime_error(error);
  support::OutputFile out(options.output, /*executable=*/true);
  out.copy(linked);
  out.commit();
}
