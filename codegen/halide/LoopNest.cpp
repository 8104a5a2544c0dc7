// Takes: a kernel's graph and its plan. Gives: its loops as text, without compiling it.
// Why not Pipeline::print_loop_nest: that writes to stderr, and kernels are described in several threads. The function
// below is what it calls; libHalide exports it, Halide.h of 21 leaves it out.
#include "codegen/halide/LoopNest.h"

#include "codegen/halide/HalideError.h"
#include "codegen/halide/KernelBuilder.h"

namespace Halide::Internal {
std::string print_loop_nest(const std::vector<Function> &functions);
}

namespace quern::codegen {

std::string loopNest(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target,
                     const KernelFamilies &families) {
  return naming("kernel " + graph.name, [&] {
    KernelBuilder builder(graph, plan, target, families);
    BuiltKernel built = builder.build();
    std::vector<Halide::Internal::Function> functions;
    for (const Func &output : built.pipeline.outputs())
      functions.push_back(output.function());
    return Halide::Internal::print_loop_nest(functions);
  });
}

} // namespace quern::codegen
