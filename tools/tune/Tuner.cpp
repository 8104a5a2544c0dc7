// Takes: a program's module. Gives: plans of its kernels that were measured to be faster, and every comparison on the way.
//
// A round: the searches of the kernels that promise most name candidates; these are compiled and linked into one program,
// which compares each with its incumbent, launch by launch, and reports one result after the other.
#include "tools/tune/KernelTuner.h"

#include "codegen/Parallel.h"
#include "codegen/PlanKernels.h"
#include "codegen/ReadKernel.h"
#include "codegen/kernel/KernelCache.h"
#include "codegen/kernel/PlanText.h"
#include "codegen/schedule/Estimate.h"
#include "ir/Dialect.h"
#include "tools/tune/PlanSeeds.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>

using namespace quern::codegen;
using Json = nlohmann::json;

namespace quern::tools {

/// Comparisons of one program: enough that compiling and loading do not count, few enough that a search learns.
static constexpr size_t trialsOfRound = 8;
/// Who was at it so often and never came to an end crashes the compiler.
static constexpr int64_t mostAttempts = 3;

KernelTuner::KernelTuner(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options,
                         TuningDatabase &database)
    : planned(planned), options(options), database(database), program(planned, options.compile, options.workload) {
  std::set<std::string> keys;
  PlanSeeds seeded(database, options.where);
  for (ir::KernelOp op : scheduled.getOps<ir::KernelOp>()) {
    KernelGraph graph = readKernel(op);
    std::string key = KernelCache::keyOf(graph.text);
    if (!keys.insert(key).second || !planned.lookupSymbol<ir::KernelOp>(graph.name))
      continue;
    KernelPlan first = planOf(op, graph, options.compile);
    auto valid = [&options, graph](const KernelPlan &plan) {
      try {
        producerOf(plan, graph, options.compile);
        return true;
      } catch (const std::runtime_error &) {
        return false;
      }
    };
    uint64_t seed = std::stoull(key.substr(0, 16), nullptr, 16);
    // Of each producer that can make it; their own plans are tried first.
    std::map<std::string, std::vector<Anchor>> anchors;
    std::vector<KernelPlan> seeds;
    for (const KernelProducer *producer : options.compile.producers) {
      if (producer->refuses(graph, options.compile.target))
        continue;
      anchors[producer->name()] = producer->anchors(graph, options.compile.target);
      if (producer->name() != first.producer)
        seeds.push_back(producer->choose(graph, options.compile.target, options.compile.schedules));
    }
    auto cost = [anchors](const KernelPlan &plan) { return estimate(plan.parts, anchors.at(plan.producer)); };
    if (std::string like = seeded.seedOf(key, first.producer, anchors.at(first.producer)); !like.empty())
      seeds.push_back(parsePlan(like));
    auto kernel = std::make_unique<TunableKernel>(
        TunableKernel{graph, key, first, PlanSearch(first, valid, seed, options.draws, cost, seeds), {}, {}, false});
    kernel->trials = database.trials(key, options.where);
    kernel->report.name = graph.name;
    kernel->report.key = key;
    kernel->report.before = first.text();
    kernels.push_back(std::move(kernel));
  }
  std::string all;
  for (const std::string &key : keys)
    all += key;
  programKey = KernelCache::keyOf(all);
}

std::optional<TrialResult> KernelTuner::known(const TunableKernel &kernel, const KernelPlan &incumbent,
                                              const KernelPlan &candidate) const {
  auto found = kernel.trials.find({incumbent.text(), candidate.text()});
  if (found == kernel.trials.end())
    return std::nullopt;
  const Trial &trial = found->second;
  if (trial.outcome == "unfinished" && trial.attempts < mostAttempts)
    return std::nullopt;
  bool timed = trial.outcome == "faster" || trial.outcome == "slower";
  return TrialResult{trial.outcome == "faster", timed ? trial.ratio : std::numeric_limits<double>::infinity()};
}

std::vector<KernelPlan> KernelTuner::candidatesOf(TunableKernel &kernel) {
  if (!kernel.used)
    return {};
  return kernel.search.advance(
      [&](const KernelPlan &incumbent, const KernelPlan &candidate) { return known(kernel, incumbent, candidate); });
}

// ---- what each kernel takes

/// From the database; false: something is not there.
bool KernelTuner::findShares() {
  double all = 0;
  for (auto &kernel : kernels) {
    std::optional<KernelShare> share = database.share(programKey, kernel->key, options.where);
    if (!share)
      return false;
    kernel->report.share = share->nanoseconds;
    kernel->report.title = share->title;
    kernel->report.at = share->at;
    all += share->nanoseconds;
  }
  for (auto &kernel : kernels) {
    kernel->report.share /= std::max(all, 1.0);
    kernel->used = kernel->report.share >= options.least;
  }
  return true;
}

void KernelTuner::measureShares() {
  options.progress("measuring what each kernel takes");
  program.build({}, {});
  Json answer = program.program().ask("shares");
  std::map<std::string, KernelShare> shares;
  for (auto &kernel : kernels) {
    KernelShare &share = shares[kernel->key];
    for (const auto &[name, part] : answer.items())
      if (const Json &all = part.at("kernels"); all.contains(kernel->graph.name)) {
        const Json &own = all.at(kernel->graph.name);
        share.nanoseconds += own.at("ns").get<double>() * part.at("calls").get<double>();
        share.title = own.at("title");
        share.at = own.at("at");
      }
  }
  database.keepShares(programKey, shares, options.where);
  if (!findShares())
    throw std::runtime_error(database.path() + ": what was kept is not there");
}

// ---- a round

std::vector<Comparing> KernelTuner::nextRound() {
  std::vector<std::pair<double, TunableKernel *>> order;
  for (auto &kernel : kernels)
    if (kernel->used)
      order.push_back({kernel->report.share / (1 + kernel->search.fruitless()), kernel.get()});
  std::stable_sort(order.begin(), order.end(), [](auto &a, auto &b) { return a.first > b.first; });
  std::vector<Comparing> round;
  for (auto &[promise, kernel] : order) {
    if (round.size() >= trialsOfRound)
      break;
    std::vector<KernelPlan> candidates = candidatesOf(*kernel);
    for (const KernelPlan &candidate : candidates)
      round.push_back({kernel, kernel->search.incumbent(), candidate});
  }
  return round;
}

/// Makes the program of all incumbents and what a round compares with them.
std::vector<VersionTrial> KernelTuner::build(const std::vector<Comparing> &round) {
  std::vector<KernelVersions> versions;
  std::vector<VersionUse> uses;
  std::vector<VersionTrial> trials;
  std::map<const TunableKernel *, size_t> numbers;
  auto versionOf = [&](const TunableKernel &kernel, const KernelPlan &plan) -> size_t {
    if (plan == kernel.first)
      return 0;
    std::vector<KernelPlan> &others = versions[numbers.at(&kernel)].others;
    auto found = std::find(others.begin(), others.end(), plan);
    if (found == others.end())
      found = others.insert(others.end(), plan);
    return size_t(found - others.begin()) + 1;
  };
  for (auto &kernel : kernels) {
    size_t number = numbers[kernel.get()] = versions.size();
    versions.push_back({kernel->graph.name, {}});
    if (size_t version = versionOf(*kernel, kernel->search.incumbent()))
      uses.push_back({number, version});
  }
  for (const Comparing &one : round)
    trials.push_back(
        {numbers.at(one.kernel), versionOf(*one.kernel, one.incumbent), versionOf(*one.kernel, one.candidate)});
  program.build(versions, uses);
  return trials;
}

/// Compiles candidates; those that cannot be made leave the round with a result. They are noted before: one that ends this
/// process is known after some attempts, for which those that were in the same round are compiled alone.
void KernelTuner::dropRefused(std::vector<Comparing> &round) {
  auto plansOf = [](const Comparing &one) { return std::pair{one.incumbent.text(), one.candidate.text()}; };
  std::vector<Comparing> good;
  auto build = [&](std::vector<Comparing> some) {
    for (const Comparing &one : some) {
      Trial &trial = one.kernel->trials[plansOf(one)];
      trial.outcome = "unfinished";
      ++trial.attempts;
      database.keepTrial(one.kernel->key, options.where, one.incumbent.text(), one.candidate.text(), trial);
    }
    std::vector<std::string> failures(some.size());
    inParallel(some.size(), options.compile.jobs, [&](size_t i) {
      try {
        compileVersion(planned, some[i].kernel->graph.name, some[i].candidate, options.compile);
      } catch (const std::runtime_error &error) {
        failures[i] = error.what();
      }
    });
    for (size_t i = 0; i < some.size(); ++i) {
      const Comparing &one = some[i];
      Trial trial = one.kernel->trials[plansOf(one)];
      one.kernel->trials.erase(plansOf(one));
      if (failures[i].empty()) {
        database.dropTrial(one.kernel->key, options.where, one.incumbent.text(), one.candidate.text());
        good.push_back(one);
        continue;
      }
      trial.outcome = "refused";
      trial.note = failures[i];
      keep(*one.kernel, one.incumbent, one.candidate, trial);
    }
  };
  std::vector<Comparing> fresh;
  for (const Comparing &one : round) {
    if (one.kernel->trials.count(plansOf(one)))
      build({one});
    else
      fresh.push_back(one);
  }
  build(fresh);
  round = good;
}

/// What the program said about a trial.
static Trial trialOf(const Json &result) {
  Trial trial;
  const Json &difference = result.at("difference");
  trial.difference = difference.is_number() ? difference.get<double>() : std::numeric_limits<double>::infinity();
  trial.outcome = result.at("outcome");
  if (trial.outcome == "wrong")
    return trial;
  trial.ratio = result.at("ratio").get<double>();
  trial.error = result.at("error").get<double>();
  trial.pairs = result.at("pairs").get<int64_t>();
  return trial;
}

void KernelTuner::keep(TunableKernel &kernel, const KernelPlan &incumbent, const KernelPlan &candidate,
                       const Trial &trial) {
  kernel.trials[{incumbent.text(), candidate.text()}] = trial;
  database.keepTrial(kernel.key, options.where, incumbent.text(), candidate.text(), trial);
  ++measured;
}

void KernelTuner::measure(std::vector<Comparing> round, Clock::time_point deadline) {
  dropRefused(round);
  if (round.empty())
    return;
  std::vector<VersionTrial> trials = build(round);
  program.program().compare(trials, deadline, [&](size_t number, const Json *result, const std::string &end) {
    Trial trial;
    trial.outcome = "crashed";
    trial.note = end;
    if (result)
      trial = trialOf(*result);
    keep(*round[number].kernel, round[number].incumbent, round[number].candidate, trial);
  });
}

// ---- what came of it

void KernelTuner::keepPlan(TunableKernel &kernel, double gain) {
  database.keepPlan({kernel.key, options.where.target, options.where.machine, options.where.work,
                     kernel.search.incumbent().text(), gain, kernel.report.title, false});
}

/// A gain is a product of many measurements, of which the lucky ones were taken: winners meet the default plan itself.
void KernelTuner::confirm() {
  std::vector<Comparing> round;
  for (auto &kernel : kernels)
    if (const KernelPlan &best = kernel->search.incumbent();
        best != kernel->first && !known(*kernel, kernel->first, best))
      round.push_back({kernel.get(), kernel->first, best});
  if (!round.empty()) {
    options.progress("comparing the best plans with the default ones");
    measure(round, Clock::time_point::max());
  }
  for (auto &kernel : kernels) {
    const KernelPlan &best = kernel->search.incumbent();
    kernel->report.after = kernel->first.text();
    std::optional<TrialResult> result = known(*kernel, kernel->first, best);
    if (best == kernel->first || !result || !result->faster) {
      if (best != kernel->first)
        database.dropPlan(kernel->key, options.where);
      continue;
    }
    kernel->report.after = best.text();
    kernel->report.gain = 1 / result->ratio;
    keepPlan(*kernel, kernel->report.gain);
  }
}

std::vector<TunedPart> KernelTuner::compareWhole() {
  std::vector<KernelVersions> versions;
  std::vector<VersionUse> uses;
  for (auto &kernel : kernels) {
    versions.push_back({kernel->graph.name, {}});
    if (kernel->report.after == kernel->report.before)
      continue;
    versions.back().others.push_back(kernel->search.incumbent());
    uses.push_back({versions.size() - 1, 1});
  }
  if (uses.empty() || !measured)
    return {};
  options.progress("comparing the program before and after");
  program.build(versions, uses);
  return runtime::tunedParts(program.program().ask("whole"));
}

TuneReport KernelTuner::run() {
  for (auto &kernel : kernels)
    kernel->used = true;
  bool open = std::any_of(kernels.begin(), kernels.end(), [&](auto &kernel) { return !candidatesOf(*kernel).empty(); });
  if (!findShares() && open && !isOver())
    measureShares();
  for (;;) {
    std::vector<Comparing> round = nextRound();
    if (round.empty() || isOver())
      break;
    std::set<TunableKernel *> changed;
    std::map<TunableKernel *, std::string> before;
    for (const Comparing &one : round)
      before[one.kernel] = one.incumbent.text();
    measure(round, begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.budget)));
    for (auto &[kernel, plan] : before) {
      candidatesOf(*kernel); // takes the results
      const std::string &title = kernel->report.title.empty() ? kernel->graph.name : kernel->report.title;
      if (kernel->search.incumbent().text() != plan)
        keepPlan(*kernel, kernel->search.gain());
      char line[200];
      std::snprintf(line, sizeof line, "%-36.36s %4d tried  %5.3f times as fast  %4.0f s left", title.c_str(),
                    kernel->search.trials(), kernel->search.gain(), std::max(0.0, options.budget - spent()));
      options.progress(line);
    }
  }
  TuneReport report;
  if (options.budget > 0) {
    confirm();
    report.parts = compareWhole();
  }
  report.measured = measured;
  report.finished = true;
  std::stable_sort(kernels.begin(), kernels.end(), [](auto &a, auto &b) { return a->report.share > b->report.share; });
  for (auto &kernel : kernels) {
    kernel->report.finished = candidatesOf(*kernel).empty();
    report.finished = report.finished && kernel->report.finished;
    for (const auto &[plans, trial] : kernel->trials) {
      if (trial.outcome == "unfinished")
        continue;
      ++kernel->report.trials;
      kernel->report.tried.push_back({plans.first, plans.second, trial});
      kernel->report.wrong += trial.outcome == "wrong" || trial.outcome == "crashed";
    }
    report.kernels.push_back(kernel->report);
  }
  report.seconds = spent();
  return report;
}

std::string deviceOf(mlir::ModuleOp planned, const TuneOptions &options) {
  return Measured(planned, options.compile, options.workload).device();
}

TuneReport tune(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options,
                TuningDatabase &database) {
  return KernelTuner(scheduled, planned, options, database).run();
}

} // namespace quern::tools
