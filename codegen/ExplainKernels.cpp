// Takes: a module with kernels. Gives: remarks on what the families (attention ...) make of them, at the operations'
// places. Why here: families look at the plain graph, which knows no places.
#include "codegen/ExplainKernels.h"

#include "codegen/ReadKernel.h"
#include "codegen/kernel/AttentionPattern.h"
#include "ir/Dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/StringMap.h"

using mlir::remark::RemarkOpts;

/// `caller`: what the kernel's lengths are where it is launched.
static std::string textOf(const quern::codegen::Position &position,
                          const std::map<std::string, quern::ir::Size> &caller) {
  std::string text = position.size.substitute(caller).str();
  text = text == "0" ? "query" : text[0] == '-' ? "query - " + text.substr(1) : "query + " + text;
  return position.terms.empty() ? text : text + " + a position from data";
}

void quern::codegen::explainKernels(mlir::ModuleOp module) {
  llvm::StringMap<ir::LaunchOp> launches; // the first of each: functions derived from one another say the same
  module.walk([&](ir::LaunchOp launch) { launches.try_emplace(launch.getKernel(), launch); });
  for (ir::KernelOp kernel : module.getOps<ir::KernelOp>()) {
    std::vector<mlir::Location> places;
    KernelGraph graph = readKernel(kernel, &places);
    RemarkOpts about = RemarkOpts::name("attention").category("codegen").function(kernel.getSymName());
    std::map<std::string, ir::Size> caller;
    if (ir::LaunchOp launch = launches.lookup(kernel.getSymName()))
      for (auto [symbol, size] :
           llvm::zip(kernel.getSymbols(), launch.getSymbols().getAsValueRange<mlir::StringAttr>()))
        if (std::optional<ir::Size> known = ir::Size::parse(std::string_view(size)))
          caller.emplace(symbol, *known);
    for (const AttentionPattern &p : readAttentions(graph)) {
      std::string text = "one kernel, " + graph.name + ", without the matrix of scores";
      if (p.upper)
        text += "; keys after " + textOf(*p.upper, caller) + " are skipped";
      if (p.lower)
        text += "; keys before " + textOf(*p.lower, caller) + " are skipped";
      mlir::remark::passed(places[p.result], about) << text;
      if (p.unbounded)
        mlir::remark::missed(places[p.result], about) << *p.unbounded;
    }
  }
}
