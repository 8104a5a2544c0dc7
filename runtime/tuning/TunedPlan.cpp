// Takes: plans. Gives: their text.
#include "runtime/tuning/TunedPlan.h"

#include "support/Error.h"

namespace quern::runtime {

static constexpr char header[] =
    "# Plans of kernels that quern tune found. quern compile --plans FILE uses them, quern tune --import FILE keeps "
    "them.\n"
    "# kernel | target | machine | measured with | gain over the default | plan | what it is\n";

std::string plansText(const std::vector<TunedPlan> &plans) {
  std::string text = header;
  for (const TunedPlan &plan : plans)
    text += plan.kernel + " | " + plan.target + " | " + plan.machine + " | " + plan.work + " | " +
            support::format("%.4f", plan.gain) + " | " + plan.plan + " | " + plan.title + "\n";
  return text;
}

} // namespace quern::runtime
