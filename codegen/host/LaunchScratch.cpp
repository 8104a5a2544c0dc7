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
    launches.push_back(
        {known->first, known->second, lengthsOf(module.lookupSymbol<KernelOp>(launch.getKernel()), launch)});
  });
  return launches;
}
