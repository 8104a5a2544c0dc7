// Takes: a planned function, and what each kernel asks for. Gives: what its launches ask for.
#include "codegen/host/LaunchScratch.h"

#include "ir/Dialect.h"

using namespace mlir;
using namespace quern::codegen;
using namespace quern::ir;

std::vector<LaunchScratch> quern::codegen::scratchOfLaunches(func::FuncOp function, const KernelScratch &kernels) {
  auto module = function->getParentOfType<ModuleOp>();
  std::vector<LaunchScratch> launches;
  DenseSet<std::pair<Attribute, Attribute>> done;
  function.walk([&](LaunchOp launch) {
    auto known = kernels.find(launch.getKernel().str());
    if (known == kernels.end() || !done.insert({launch.getKernelAttr(), launch.getSymbolsAttr()}).second)
      return;
    std::map<std::string, Size> lengths = lengthsOf(module.lookupSymbol<KernelOp>(launch.getKernel()), launch);
    LaunchScratch one{known->first, known->second};
    for (std::vector<Scratch::Case> *cases : {&one.scratch.caller, &one.scratch.worker})
      for (Scratch::Case &choice : *cases)
        for (std::vector<Size> *sizes : {&choice.ones, &choice.least})
          for (Size &size : *sizes)
            size = size.substitute(lengths);
    launches.push_back(std::move(one));
  });
  return launches;
}
