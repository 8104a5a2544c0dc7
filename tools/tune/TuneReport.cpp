// Takes: what a search found. Gives: a table for people.
#include "tools/tune/Tuner.h"

#include "codegen/kernel/PlanText.h"

#include "llvm/Support/FormatVariadic.h"

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

std::string speedText(double ratio, double error, int64_t pairs) {
  return llvm::formatv("{0:f3} times as fast (+- {1:f3}, {2} pairs)", 1 / ratio, error / (ratio * ratio), pairs).str();
}

std::string planText(const TunedKernel &kernel) {
  if (!kernel.after.empty() && kernel.before != kernel.after)
    return planChange(kernel.before, kernel.after);
  return kernel.finished ? "the default" : "the default so far";
}

const char *endText(const TuneReport &report) {
  return report.finished ? "nothing is left to try" : "more is left to try: the same command goes on";
}

static std::string milliseconds(double nanoseconds) {
  return llvm::formatv("{0:f2} ms", nanoseconds / 1e6).str();
}

std::string tuneTable(const TuneReport &report) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::formatv("{0,-34} {1,7} {2,6} {3,6} {4,7}  {5}\n", "kernel", "% time", "tried", "wrong", "gain", "plan");
  for (const TunedKernel &kernel : report.kernels) {
    if (!kernel.trials && kernel.share < 0.005)
      continue;
    std::string title = kernel.title.empty() ? kernel.name : kernel.title;
    out << llvm::formatv("{0,-34} {1,7:f1} {2,6} {3,6} {4,7:f3}  {5}\n", llvm::StringRef(title).take_front(34),
                         100 * kernel.share, kernel.trials, kernel.wrong, kernel.gain, planText(kernel));
  }
  for (const TunedPart &part : report.parts)
    out << llvm::formatv("{0,-10} {1} before, {2} after: {3}\n", part.name, milliseconds(part.before),
                         milliseconds(part.after), speedText(part.ratio, part.error, part.pairs));
  out << llvm::formatv("{0} comparisons in {1:f0} s; {2}\n", report.measured, report.seconds, endText(report));
  return text;
}

} // namespace quern::tools
