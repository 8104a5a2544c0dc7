// Takes: kernels, a target, schedules. Gives: the plan of each, as an attribute that dumps show and that is read again.
// Why here: a plan is chosen from a kernel's plain graph and from what its producer declares, which passes know nothing of;
// the phase table (passes/Phases.cpp) calls this by a hook in its options.
#include "codegen/PlanKernels.h"

#include "codegen/ReadKernel.h"
#include "codegen/kernel/PlanText.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"

#include <stdexcept>

using namespace quern::codegen;
namespace ir = quern::ir;

void quern::codegen::setPlan(ir::KernelOp kernel, const KernelPlan &plan) {
  kernel->setAttr(ir::planAttr, mlir::StringAttr::get(kernel.getContext(), plan.text()));
}

KernelPlan quern::codegen::planOf(ir::KernelOp kernel, const KernelGraph &graph, const PlanOptions &options) {
  auto text = kernel->getAttrOfType<mlir::StringAttr>(ir::planAttr);
  if (!text)
    return choosePlan(graph, options);
  KernelPlan plan;
  try {
    plan = parsePlan(std::string_view(text.getValue()));
  } catch (const std::runtime_error &error) {
    throw std::runtime_error("kernel " + graph.name + ": " + error.what());
  }
  producerOf(plan, graph, options); // throws for what is none
  return plan;
}

mlir::LogicalResult quern::codegen::planKernels(mlir::ModuleOp module, const PlanOptions &options) {
  mlir::LogicalResult result = mlir::success();
  for (ir::KernelOp kernel : module.getOps<ir::KernelOp>()) {
    try {
      setPlan(kernel, planOf(kernel, readKernel(kernel), options));
    } catch (const std::runtime_error &error) {
      kernel.emitError() << error.what();
      result = mlir::failure();
    }
  }
  return result;
}
