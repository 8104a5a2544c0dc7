// Programs that are made to be measured, and what they tell.
#ifndef QUERN_TOOLS_TUNE_MEASURED_H
#define QUERN_TOOLS_TUNE_MEASURED_H

#include "codegen/tuning/Versions.h"
#include "support/TemporaryFolder.h"

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

namespace quern::tools {

/// Which version of a kernel, by their numbers in a program.
struct VersionUse {
  size_t kernel, version;
};
struct VersionTrial {
  size_t kernel, incumbent, candidate;
};

/// Runs the command `measure` (runtime/tuning/Measure.cpp) in processes of their own.
class Measured {
public:
  using Clock = std::chrono::steady_clock;
  /// `workload`: words for `measure`.
  Measured(mlir::ModuleOp planned, const codegen::CompileOptions &compile, std::vector<std::string> workload);

  /// Makes the program that the next questions are about. Throws std::runtime_error.
  void build(const std::vector<codegen::KernelVersions> &versions, const std::vector<VersionUse> &uses);
  /// Answer to --shares, to --whole. Throws std::runtime_error where the program does not answer.
  nlohmann::json ask(const std::string &question);
  /// Compares, and calls `told` with each trial's number and its result, or how the program ended in it. Until `deadline`.
  void compare(const std::vector<VersionTrial> &trials, Clock::time_point deadline,
               const std::function<void(size_t trial, const nlohmann::json *result, const std::string &end)> &told);

private:
  mlir::ModuleOp planned;
  codegen::CompileOptions options;
  std::vector<std::string> workload;
  support::TemporaryFolder work;
  std::vector<std::string> uses;

  std::vector<std::string> command() const;
  std::string errors() const { return work.path() + "/errors"; }
  [[noreturn]] void fail(const std::string &end) const;
};

} // namespace quern::tools
#endif
