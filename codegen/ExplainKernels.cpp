// Takes: a module with kernels. Gives: remarks on what the families (attention ...) make of them, at the operations' places.
// Why here: families look at the plain graph, which knows no places; node and operation stand in the same order.
#include "codegen/ExplainKernels.h"

#include "codegen/AttentionPattern.h"
#include "codegen/ReadKernel.h"
#include "ir/Dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"

using mlir::remark::RemarkOpts;

static std::string textOf(const quern::codegen::Position &position) {
  std::string text = position.size.str();
  return position.terms.empty() ? text : text == "0" ? "a position from data" : text + " + a position from data";
}

void quern::codegen::explainKernels(mlir::ModuleOp module) {
  for (ir::KernelOp kernel : module.getOps<ir::KernelOp>()) {
    KernelGraph graph = readKernel(kernel);
    std::vector<mlir::Location> places;
    for (mlir::BlockArgument argument : kernel.getBlock().getArguments())
      places.push_back(argument.getLoc());
    for (mlir::Operation &op : kernel.getBlock().without_terminator())
      places.insert(places.end(), op.getNumResults(), op.getLoc());
    RemarkOpts about = RemarkOpts::name("attention").category("codegen").function(kernel.getSymName());
    std::vector<AttentionMiss> misses;
    for (const AttentionPattern &p : findAttention(graph, &misses)) {
      std::string text = "one kernel, " + graph.name + ", without the matrix of scores";
      if (p.upper)
        text += "; keys after query + " + textOf(*p.upper) + " are skipped";
      if (p.lower)
        text += "; keys before query + " + textOf(*p.lower) + " are skipped";
      mlir::remark::passed(places[p.softmax], about) << text;
    }
    for (const AttentionMiss &miss : misses)
      mlir::remark::missed(places[miss.node], about) << miss.reason;
  }
}
