// Takes: what a search found. Gives: a table for people.
#include "tools/tune/Tuner.h"

#include "codegen/kernel/PlanText.h"
#include "support/Error.h"

using quern::codegen::KernelPlan;
using quern::codegen::parsePlan;

namespace quern::tools {

std::string planChange(const std::string &before, const std::string &after) {
  KernelPlan one = parsePlan(before), other = parsePlan(after);
  if (one.producer != other.producer || one.parts.size() != other.parts.size())
    return after;
  std::string text;
  for (size_t i = 0; i < one.parts.size(); ++i)
    for (const auto &[name, value] : other.parts[i].numbers) {
      auto was = one.parts[i].numbers.find(name);
      if (was != one.parts[i].numbers.end() && was->second == value)
        continue;
      // Names repeat only where a kernel has parts of several families.
      std::string full = (one.parts.size() > 1 ? other.parts[i].family + " " : "") + name;
      text += (text.empty() ? "" : ", ") + full + " " +
              (was == one.parts[i].numbers.end() ? "none" : std::to_string(was->second)) + " -> " +
              std::to_string(value);
    }
  return text;
}

std::string planText(const TunedKernel &kernel) {
  if (!kernel.after.empty() && kernel.before != kernel.after)
    return planChange(kernel.before, kernel.after);
  return kernel.finished ? "the default" : "the default so far";
}

const char *endText(const TuneReport &report) {
  return report.finished ? "nothing is left to try" : "more is left to try: the same command goes on";
}

std::string tuneTable(const TuneReport &report) {
  std::vector<runtime::TuneRow> rows;
  for (const TunedKernel &kernel : report.kernels)
    rows.push_back({kernel.title.empty() ? kernel.name : kernel.title, kernel.share, kernel.trials, kernel.wrong,
                    kernel.gain, planText(kernel)});
  return runtime::tuneTable(rows, report.parts) + support::format("%lld comparisons in %.0f s; %s\n",
                                                                  static_cast<long long>(report.measured),
                                                                  report.seconds, endText(report));
}

} // namespace quern::tools
