// Takes: versions of kernels. Gives: a program of them.
#include "tools/tune/Measured.h"

using namespace quern::codegen;

namespace quern::tools {

Measured::Measured(mlir::ModuleOp planned, const CompileOptions &compile, const std::vector<std::string> &workload)
    : planned(planned), options(compile), built(work.path() + "/program", workload) {
  options.output = work.path() + "/program";
}

void Measured::build(const std::vector<KernelVersions> &versions, const std::vector<VersionUse> &uses) {
  compileVersions(planned, versions, options);
  built.use(uses);
}

std::string Measured::device() {
  build({}, {});
  return built.ask("device").get<std::string>();
}

} // namespace quern::tools
