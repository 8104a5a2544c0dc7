// One kernel through Halide: to an object, or to text for a reader.
#ifndef QUERN_CODEGEN_HALIDE_EMITKERNEL_H
#define QUERN_CODEGEN_HALIDE_EMITKERNEL_H

#include "codegen/halide/Family.h"
#include "codegen/kernel/KernelProducer.h"

namespace Halide {
class Module;
}

namespace quern::codegen {

/// Writes the kernel's function `symbol` to `path`; returns its scratch. `plan`: checked. Throws std::runtime_error with
/// Halide's words where it fails.
Scratch emitKernel(const KernelGraph &graph, const std::string &symbol, const KernelPlan &plan, const CpuTarget &target,
                   const KernelFamilies &families, EmitForm form, const std::string &path);
/// The same in two steps: Halide's module, and the file that it becomes.
Halide::Module lowerKernel(const KernelGraph &graph, const std::string &symbol, const KernelPlan &plan,
                           const CpuTarget &target, const KernelFamilies &families);
void writeKernel(const Halide::Module &kernel, EmitForm form, const std::string &path);
std::string halideVersion();

} // namespace quern::codegen
#endif
