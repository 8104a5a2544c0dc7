// Takes: a kernel's graph and its plan. Gives: a file with its machine code, assembly or LLVM IR.
// Why so few features: programs have Quern's runtime instead of Halide's; sizes were checked when the program was compiled,
// so kernels check nothing again.
#include "codegen/halide/EmitKernel.h"

#include "codegen/halide/HalideError.h"
#include "codegen/halide/KernelBuilder.h"
#include "codegen/halide/KernelScratch.h"
#include "codegen/llvm/Bitcode.h"

#include <cstdlib>
#include <filesystem>

using namespace Halide;

namespace quern::codegen {

/// What Halide passes to its LLVM when that compiles first, unless a person sets it. Families have chosen the vectors; the
/// vectoriser of straight-line code puts the addresses of a tile's rows into one, of which each step then takes them out again.
/// Set before any thread reads the environment.
[[maybe_unused]] static const int ofHalidesLlvm = ::setenv("HL_LLVM_ARGS", "-vectorize-slp=false", /*replace=*/0);

/// 64-bit offsets cost a little, so only where a tensor may pass 2^31 bytes.
static bool mayBeLarge(const KernelGraph &graph) {
  for (const Node &node : graph.nodes) {
    int64_t bits = support::formOf(node.storage).bits;
    bool runTime = false;
    for (const Dim &dim : node.dims) {
      runTime |= !dim.fixed();
      bits *= dim.fixed().value_or(1);
    }
    if (bits / 8 >= (int64_t(1) << (runTime ? 16 : 31)))
      return true;
  }
  return false;
}

Module lowerKernel(const KernelGraph &graph, const std::string &symbol, const KernelPlan &plan, const CpuTarget &cpu,
                   const KernelFamilies &families) {
  KernelBuilder builder(graph, plan, cpu, families);
  BuiltKernel built = builder.build();
  Target target(built.halide + "-no_runtime-no_asserts-no_bounds_query");
  if (mayBeLarge(graph))
    target.set_feature(Target::LargeBuffers);
  return built.pipeline.compile_to_module(built.arguments, symbol, target);
}

void writeKernel(const Module &kernel, EmitForm form, const std::string &path) {
  kernel.compile({{form == EmitForm::Object     ? OutputFileType::object
                   : form == EmitForm::Assembly ? OutputFileType::assembly
                                                : OutputFileType::llvm_assembly,
                   path}});
}

/// Halide writes what LLVM reads, and LLVM makes the rest of it.
static void finishFor(const CpuTarget &cpu, const Module &kernel, EmitForm form, const std::string &path) {
  const std::string bitcode = path + ".bc";
  kernel.compile({{OutputFileType::bitcode, bitcode}});
  compileBitcode(bitcode, cpu, form, path);
  std::filesystem::remove(bitcode);
}

Scratch emitKernel(const KernelGraph &graph, const std::string &symbol, const KernelPlan &plan, const CpuTarget &cpu,
                   const KernelFamilies &families, EmitForm form, const std::string &path) {
  return naming("kernel " + graph.name, [&] {
    Module module = lowerKernel(graph, symbol, plan, cpu, families);
    // What multiplies bytes may be made for a processor that has more than this one.
    if (module.target().has_feature(Target::AVX512_Zen4) && !Target(cpu.halide).has_feature(Target::AVX512_Zen4))
      finishFor(cpu, module, form, path);
    else
      writeKernel(module, form, path);
    return scratchOf(module.get_conceptual_stmt(), graph.symbols);
  });
}

std::string halideVersion() {
  return std::to_string(HALIDE_VERSION_MAJOR) + "." + std::to_string(HALIDE_VERSION_MINOR) + "." +
         std::to_string(HALIDE_VERSION_PATCH);
}

} // namespace quern::codegen
