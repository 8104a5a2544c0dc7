// --profile and --trace: what a command's launches took.
#ifndef QUERN_RUNTIME_CLI_PROFILEREPORT_H
#define QUERN_RUNTIME_CLI_PROFILEREPORT_H

#include "runtime/cli/Options.h"
#include "runtime/machine/Profile.h"

#include <memory>
#include <string>

namespace quern::runtime {

/// A command's options with these two before the last (--help).
std::vector<Options::Known> withProfileOptions(std::vector<Options::Known> known);

/// Records while it lives, if the options ask for it. Made when the threads have been started.
class ProfileReport {
public:
  ProfileReport(const Options &options, const Description &description);
  /// What the machine allows, measured in the same run: operations and bytes a second.
  void setLimits(double flops, double bandwidth) { limits = {flops, bandwidth}; }
  /// Writes the files, and a table to standard error. Throws UserError where they cannot be written. Gives `status`.
  int finish(int status = 0);

private:
  const Description &description;
  std::string profilePath, tracePath;
  std::unique_ptr<Profile> profile;
  std::pair<double, double> limits; // 0: not measured
};

/// The profile as JSON; docs/profile.md has its fields. `limits`: operations and bytes a second that the machine allows,
/// where they were measured.
std::string profileJson(const Profile &profile, const Description &description,
                        std::pair<double, double> limits = {0, 0});
/// As Chrome's trace events (the Trace Event Format), which Perfetto opens: a track for each thread, with functions, iterations
/// of loops and kernels in each other, and counters of memory.
std::string traceJson(const Profile &profile, const Description &description);
/// A table of the kernels that took most.
std::string profileTable(const Profile &profile, const Description &description);

} // namespace quern::runtime
#endif
