// Takes: a program's module. Gives: an executable with other plans of its kernels, which finds the fastest of them on a
// machine that has no compiler (runtime/tuning/Bundle.cpp).
#include "tools/tune/KernelTuner.h"

#include "codegen/Parallel.h"

#include <set>

using namespace quern::codegen;
using Json = nlohmann::json;

namespace quern::tools {

/// Measures what kernels take where the program runs; all are used where it does not.
void KernelTuner::findUsed() {
  for (auto &kernel : kernels)
    kernel->used = true;
  if (findShares())
    return;
  try {
    measureShares();
  } catch (const std::runtime_error &error) {
    options.progress(std::string("all kernels are tried, as it is not known here what each takes: ") + error.what());
  }
}

/// All that a search would name if nothing were faster than the default.
std::vector<KernelPlan> KernelTuner::allCandidates(TunableKernel &kernel) const {
  PlanSearch search = kernel.search;
  std::set<std::string> seen;
  std::vector<KernelPlan> all;
  auto slower = [&](const KernelPlan &, const KernelPlan &candidate) -> std::optional<TrialResult> {
    if (!seen.count(candidate.text()))
      return std::nullopt;
    return TrialResult{false, 1.1};
  };
  for (;;) {
    std::vector<KernelPlan> next = search.advance(slower);
    if (next.empty())
      return all;
    for (KernelPlan &plan : next)
      if (seen.insert(plan.text()).second)
        all.push_back(std::move(plan));
  }
}

int64_t KernelTuner::bundle() {
  findUsed();
  std::vector<KernelVersions> versions;
  Json described = Json::array();
  int64_t count = 0;
  for (auto &kernel : kernels) {
    if (!kernel->used)
      continue;
    options.progress("compiling other plans of " +
                     (kernel->report.title.empty() ? kernel->graph.name : kernel->report.title));
    std::vector<KernelPlan> candidates = allCandidates(*kernel);
    std::vector<char> good(candidates.size(), true);
    inParallel(candidates.size(), options.compile.jobs, [&](size_t i) {
      try {
        compileVersion(planned, kernel->graph.name, candidates[i], options.compile);
      } catch (const std::runtime_error &) {
        good[i] = false;
      }
    });
    versions.push_back({kernel->graph.name, {}});
    std::vector<std::string> plans = {kernel->report.before}, changes = {""};
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!good[i])
        continue;
      versions.back().others.push_back(candidates[i]);
      plans.push_back(candidates[i].text());
      changes.push_back(planChange(kernel->report.before, plans.back()));
    }
    count += int64_t(plans.size()) - 1;
    described.push_back({{"name", kernel->graph.name}, {"key", kernel->key}, {"plans", plans}, {"changes", changes}});
  }
  Json text = {{"target", options.where.target},
               {"lengths", options.lengths},
               {"workload", options.workload},
               {"kernels", described}};
  compileVersions(planned, versions, options.compile, text.dump());
  return count;
}

int64_t bundle(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options, TuningDatabase &database) {
  return KernelTuner(scheduled, planned, options, database).bundle();
}

} // namespace quern::tools
