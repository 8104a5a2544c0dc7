// Programs that are made to be measured.
#ifndef QUERN_TOOLS_TUNE_MEASURED_H
#define QUERN_TOOLS_TUNE_MEASURED_H

#include "codegen/tuning/Versions.h"
#include "runtime/tuning/MeasuredProgram.h"
#include "support/TemporaryFolder.h"

namespace quern::tools {

using runtime::VersionTrial, runtime::VersionUse;

/// A program of versions of kernels, in a folder that goes with the object.
class Measured {
public:
  /// `workload`: words for `measure`.
  Measured(mlir::ModuleOp planned, const codegen::CompileOptions &compile, const std::vector<std::string> &workload);

  /// Makes the program that the next questions are about. Throws std::runtime_error.
  void build(const std::vector<codegen::KernelVersions> &versions, const std::vector<VersionUse> &uses);
  runtime::MeasuredProgram &program() { return built; }
  /// The device on which the program of default plans computes here. Throws std::runtime_error where there is none.
  std::string device();

private:
  mlir::ModuleOp planned;
  codegen::CompileOptions options;
  support::TemporaryFolder work;
  runtime::MeasuredProgram built;
};

} // namespace quern::tools
#endif
