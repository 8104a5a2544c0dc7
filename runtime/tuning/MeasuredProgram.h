// A program that has the command `measure`, and what it answers.
#ifndef QUERN_RUNTIME_TUNING_MEASUREDPROGRAM_H
#define QUERN_RUNTIME_TUNING_MEASUREDPROGRAM_H

#include "runtime/tuning/Child.h"
#include "support/TemporaryFolder.h"

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace quern::runtime {

/// Which version of a kernel, by their numbers in a program.
struct VersionUse {
  size_t kernel, version;
};
struct VersionTrial {
  size_t kernel, incumbent, candidate;
};

/// Runs the command `measure` (Measure.cpp) in processes of their own: one that crashes or hangs is a result.
class MeasuredProgram {
public:
  using Clock = std::chrono::steady_clock;
  /// `workload`: words for `measure`.
  MeasuredProgram(std::string executable, std::vector<std::string> workload);

  /// What launches call that no trial is about.
  void use(const std::vector<VersionUse> &versions);
  /// Answer to --shares, to --whole. Throws std::runtime_error where the program does not answer.
  nlohmann::json ask(const std::string &question);
  /// Compares, and calls `report` with each trial's number and its result, or how the program ended in it. Until `deadline`.
  void compare(const std::vector<VersionTrial> &trials, Clock::time_point deadline,
               const std::function<void(size_t trial, const nlohmann::json *result, const std::string &end)> &report);

private:
  std::string executable;
  std::vector<std::string> workload, uses;
  support::TemporaryFolder work;

  std::vector<std::string> command() const;
  std::string errors() const { return work.path() + "/errors"; }
  [[noreturn]] void fail(const Ending &end) const;
};

} // namespace quern::runtime
#endif
