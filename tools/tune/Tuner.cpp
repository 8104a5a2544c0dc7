// Takes: a program's module. Gives: plans of its kernels that were measured to be faster, and every comparison on the way.
//
// A round: the searches of the kernels that promise most name candidates; these are compiled and linked into one program,
// which compares each with its incumbent, launch by launch, and tells one result after the other.
#include "tools/tune/Tuner.h"

#include "codegen/Parallel.h"
#include "codegen/PlanKernels.h"
#include "codegen/ReadKernel.h"
#include "codegen/kernel/KernelCache.h"
#include "codegen/schedule/PlanSearch.h"
#include "ir/Dialect.h"
#include "tools/tune/Measured.h"

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

namespace {

struct Kernel {
  KernelGraph graph;
  std::string key;
  KernelPlan first;
  PlanSearch search;
  std::map<std::pair<std::string, std::string>, Trial> trials;
  TunedKernel report;
  bool used = false; ///< in the workload, and for long enough
};

/// A comparison to make: of the kernel's incumbent, or its default plan, with another one.
struct Comparing {
  Kernel *kernel;
  KernelPlan incumbent, candidate;
};

class Tuner {
public:
  Tuner(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options, TuningDatabase &database);
  TuneReport run();

private:
  mlir::ModuleOp planned;
  const TuneOptions &options;
  TuningDatabase &database;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::string programKey; ///< its kernels' keys as one
  Measured program;
  Measured::Clock::time_point begin = Measured::Clock::now();
  int64_t measured = 0;

  double spent() const { return std::chrono::duration<double>(Measured::Clock::now() - begin).count(); }
  bool isOver() const { return spent() >= options.budget; }

  std::optional<TrialResult> known(const Kernel &kernel, const KernelPlan &incumbent,
                                   const KernelPlan &candidate) const;
  std::vector<KernelPlan> candidatesOf(Kernel &kernel);
  bool findShares();
  void measureShares();
  std::vector<Comparing> nextRound();
  void measure(std::vector<Comparing> round, Measured::Clock::time_point deadline);
  std::vector<VersionTrial> build(const std::vector<Comparing> &round);
  void dropRefused(std::vector<Comparing> &round);
  void keep(Kernel &kernel, const KernelPlan &incumbent, const KernelPlan &candidate, const Trial &trial);
  Trial judge(const Json &result) const;
  void keepPlan(Kernel &kernel, double gain);
  void confirm();
  std::vector<TunedPart> compareWhole();
};

} // namespace

Tuner::Tuner(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options, TuningDatabase &database)
    : planned(planned), options(options), database(database), program(planned, options.compile, options.workload) {
  std::set<std::string> keys;
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
    auto kernel = std::make_unique<Kernel>(
        Kernel{graph, key, first, PlanSearch(first, valid, seed, options.draws), {}, {}, false});
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

std::optional<TrialResult> Tuner::known(const Kernel &kernel, const KernelPlan &incumbent,
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

std::vector<KernelPlan> Tuner::candidatesOf(Kernel &kernel) {
  if (!kernel.used)
    return {};
  return kernel.search.advance(
      [&](const KernelPlan &incumbent, const KernelPlan &candidate) { return known(kernel, incumbent, candidate); });
}

// ---- what each kernel takes

/// From the database; false: something is not there.
bool Tuner::findShares() {
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

void Tuner::measureShares() {
  options.progress("measuring what each kernel takes");
  program.build({}, {});
  Json answer = program.ask("shares");
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

std::vector<Comparing> Tuner::nextRound() {
  std::vector<std::pair<double, Kernel *>> order;
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
std::vector<VersionTrial> Tuner::build(const std::vector<Comparing> &round) {
  std::vector<KernelVersions> versions;
  std::vector<VersionUse> uses;
  std::vector<VersionTrial> trials;
  std::map<const Kernel *, size_t> numbers;
  auto versionOf = [&](const Kernel &kernel, const KernelPlan &plan) -> size_t {
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
void Tuner::dropRefused(std::vector<Comparing> &round) {
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

Trial Tuner::judge(const Json &result) const {
  auto number = [](const Json &value) {
    return value.is_number() ? value.get<double>() : std::numeric_limits<double>::infinity();
  };
  Trial trial;
  trial.difference = number(result.at("difference"));
  if (!(trial.difference <= options.tolerance) || !result.contains("ratio")) {
    trial.outcome = "wrong";
    return trial;
  }
  trial.ratio = result.at("ratio").get<double>();
  trial.error = result.at("error").get<double>();
  trial.pairs = result.at("pairs").get<int64_t>();
  // Faster beyond doubt, and nowhere slower.
  bool faster = trial.pairs > 0 && trial.ratio < 0.99 && trial.ratio + 2 * trial.error < 1;
  for (const Json &part : result.at("parts"))
    faster = faster && part.at("ratio").get<double>() - 2 * part.at("error").get<double>() < 1.02;
  trial.outcome = faster ? "faster" : "slower";
  return trial;
}

void Tuner::keep(Kernel &kernel, const KernelPlan &incumbent, const KernelPlan &candidate, const Trial &trial) {
  kernel.trials[{incumbent.text(), candidate.text()}] = trial;
  database.keepTrial(kernel.key, options.where, incumbent.text(), candidate.text(), trial);
  ++measured;
}

void Tuner::measure(std::vector<Comparing> round, Measured::Clock::time_point deadline) {
  dropRefused(round);
  if (round.empty())
    return;
  std::vector<VersionTrial> trials = build(round);
  program.compare(trials, deadline, [&](size_t number, const Json *result, const std::string &end) {
    Trial trial;
    trial.outcome = "crashed";
    trial.note = end;
    if (result)
      trial = judge(*result);
    keep(*round[number].kernel, round[number].incumbent, round[number].candidate, trial);
  });
}

// ---- what came of it

void Tuner::keepPlan(Kernel &kernel, double gain) {
  database.keepPlan({kernel.key, options.where.target, options.where.machine, options.where.work,
                     kernel.search.incumbent().text(), gain, kernel.report.title, false});
}

/// A gain is a product of many measurements, of which the lucky ones were taken: winners meet the default plan itself.
void Tuner::confirm() {
  std::vector<Comparing> round;
  for (auto &kernel : kernels)
    if (const KernelPlan &best = kernel->search.incumbent();
        best != kernel->first && !known(*kernel, kernel->first, best))
      round.push_back({kernel.get(), kernel->first, best});
  if (!round.empty()) {
    options.progress("comparing the best plans with the default ones");
    measure(round, Measured::Clock::time_point::max());
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

std::vector<TunedPart> Tuner::compareWhole() {
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
  std::vector<TunedPart> parts;
  for (const Json &part : program.ask("whole"))
    parts.push_back(
        {part.at("name"), part.at("before"), part.at("after"), part.at("ratio"), part.at("error"), part.at("pairs")});
  return parts;
}

TuneReport Tuner::run() {
  for (auto &kernel : kernels)
    kernel->used = true;
  bool open = std::any_of(kernels.begin(), kernels.end(), [&](auto &kernel) { return !candidatesOf(*kernel).empty(); });
  if (!findShares() && open && !isOver())
    measureShares();
  for (;;) {
    std::vector<Comparing> round = nextRound();
    if (round.empty() || isOver())
      break;
    std::set<Kernel *> changed;
    std::map<Kernel *, std::string> before;
    for (const Comparing &one : round)
      before[one.kernel] = one.incumbent.text();
    measure(round, begin + std::chrono::duration_cast<Measured::Clock::duration>(
                               std::chrono::duration<double>(options.budget)));
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

TuneReport tune(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options,
                TuningDatabase &database) {
  return Tuner(scheduled, planned, options, database).run();
}

} // namespace quern::tools
