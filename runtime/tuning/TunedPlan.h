// Plans that won, as lines of a text.
#ifndef QUERN_RUNTIME_TUNING_TUNEDPLAN_H
#define QUERN_RUNTIME_TUNING_TUNEDPLAN_H

#include <string>
#include <vector>

namespace quern::runtime {

/// The plan of a kernel that won.
struct TunedPlan {
  std::string kernel; ///< the compiler's key of its text
  std::string target, machine, work, plan;
  double gain = 1;   ///< the default plan's time by this one's
  std::string title; ///< the weights that it multiplies by, in the model where it was found
  bool imported = false;
};

/// A line for each, as quern tune --import reads them.
std::string plansText(const std::vector<TunedPlan> &plans);

} // namespace quern::runtime
#endif
