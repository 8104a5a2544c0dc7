// Takes: plans from a database or a file. Gives: a module whose kernels have them, where they are in the space of today.
#include "tools/tune/TunedPlans.h"

#include "codegen/PlanKernels.h"
#include "codegen/ReadKernel.h"
#include "codegen/kernel/KernelCache.h"
#include "codegen/kernel/PlanText.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cmath>

using namespace quern::codegen;
using llvm::StringRef;

namespace quern::tools {

std::vector<TunedPlan> parsePlans(const std::string &text, const std::string &name) {
  std::vector<TunedPlan> plans;
  llvm::SmallVector<StringRef> lines, fields;
  StringRef(text).split(lines, '\n');
  for (size_t number = 0; number < lines.size(); ++number) {
    StringRef line = lines[number].trim();
    if (line.empty() || line.starts_with("#"))
      continue;
    auto fail = [&](const std::string &what) {
      throw std::runtime_error(name + ":" + std::to_string(number + 1) + ": " + what);
    };
    fields.clear();
    line.split(fields, '|');
    if (fields.size() != 7)
      fail("KERNEL | TARGET | MACHINE | WORK | GAIN | PLAN | TITLE is needed, not " + std::to_string(fields.size()) +
           " fields");
    auto field = [&](int i) { return fields[i].trim().str(); };
    TunedPlan plan{field(0), field(1), field(2), field(3), field(5), 1, field(6), true};
    if (plan.kernel.size() != 32 || !llvm::all_of(plan.kernel, [](char c) { return llvm::isHexDigit(c); }))
      fail("'" + plan.kernel + "' is no kernel's key of 32 hexadecimal digits");
    double gain = 0;
    std::string digits = field(4);
    auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), gain);
    if (code != std::errc() || end != digits.data() + digits.size() || !(gain > 0) || !std::isfinite(gain))
      fail("the gain '" + digits + "' is no number above 0");
    plan.gain = gain;
    try {
      plan.plan = parsePlan(plan.plan).text();
    } catch (const std::runtime_error &error) {
      fail(error.what());
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

AppliedPlans applyPlans(mlir::ModuleOp module, const std::vector<TunedPlan> &plans, const PlanOptions &options) {
  AppliedPlans result;
  std::map<std::string, const TunedPlan *> byKernel;
  for (const TunedPlan &plan : plans)
    if (plan.target == options.target.resolved)
      byKernel[plan.kernel] = &plan;
  for (ir::KernelOp kernel : module.getOps<ir::KernelOp>()) {
    ++result.kernels;
    if (byKernel.empty() || kernel->hasAttr(ir::planAttr))
      continue;
    KernelGraph graph = readKernel(kernel);
    auto found = byKernel.find(KernelCache::keyOf(graph.text));
    if (found == byKernel.end())
      continue;
    try {
      KernelPlan plan = parsePlan(found->second->plan);
      producerOf(plan, graph, options);
      setPlan(kernel, plan);
      ++result.applied;
    } catch (const std::runtime_error &error) {
      result.refused.push_back(error.what());
    }
  }
  return result;
}

} // namespace quern::tools
