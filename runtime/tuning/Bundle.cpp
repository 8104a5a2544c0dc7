// `tune`: what a program of `quern tune --bundle` does on a machine that has no compiler. Takes: versions of kernels that
// were compiled elsewhere. Gives: the fastest of each on this machine, as lines that `quern tune --import` reads there.
//
// A kernel after the other, those that take most first. Lines are written as soon as a version is better than all before.
#include "runtime/cli/Commands.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/tuning/MeasuredProgram.h"
#include "runtime/tuning/TuneTable.h"
#include "runtime/tuning/TunedPlan.h"
#include "support/Json.h"
#include "support/OutputFile.h"

#include <algorithm>
#include <cstdio>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;

const std::vector<Options::Known> known = {
    {"--output", "FILE", "the lines of the plans that won, for quern tune --import (PROGRAM.plans)"},
    {"--budget", "S", "seconds of searching (300)"},
    {"--weights", "PATH", "real weights instead of random ones"},
    {"--threads", "N", "threads (all that this process may use)"},
    {"--tolerance", "X", "a plan whose results differ by more, relative to the largest number, is wrong (1e-4)"},
    {"--seconds", "S", "for a comparison at most; most take less (3)"},
    {"--help", nullptr, "this"}};

/// How it goes on.
void say(const std::string &line) {
  std::fprintf(stderr, "%s\n", line.c_str());
}

/// Kernels that take less of the program stay as they are.
constexpr double leastShare = 0.005;

/// One kernel with its versions; the first is the default, which all others meet.
struct Bundled {
  size_t number; ///< in the program
  std::string name, key;
  std::vector<std::string> plans, changes;
  double nanoseconds = 0; ///< in one use of the program
  TuneRow row = {"", 0, 0, 0, 1, "the default"};
  size_t best = 0;
};

struct Tried {
  Bundled *kernel;
  size_t version;
};

class BundleSearch {
public:
  BundleSearch(const Command &command, const Options &options);
  void run();

private:
  using Clock = MeasuredProgram::Clock;
  Json bundle;
  std::string output, work, machine;
  Clock::time_point end;
  int threads;
  MeasuredProgram program;
  std::vector<Bundled> kernels;
  bool finished = false;

  double left() const { return std::chrono::duration<double>(end - Clock::now()).count(); }
  void findShares();
  /// Each version beside the default one. All of them in one process, which a program with large weights is slow to start.
  /// `report`: without a result where the program crashed.
  void compare(const std::vector<Tried> &tried, Clock::time_point deadline,
               const std::function<void(size_t, const Json *)> &report);
  void search();
  void confirm();
  void take(Bundled &kernel, size_t version, double ratio);
  void write() const;
};

std::vector<std::string> workloadOf(const Json &bundle, const Options &options, int threads) {
  std::vector<std::string> words = bundle.at("workload");
  words.insert(words.end(), {"--threads", std::to_string(threads)});
  for (const char *name : {"--weights", "--tolerance", "--seconds"})
    if (options.has(name))
      words.insert(words.end(), {name, options.text(name)});
  return words;
}

BundleSearch::BundleSearch(const Command &command, const Options &options)
    : bundle(support::parseJson(quern_bundle, "the bundle")),
      output(options.text("--output", command.executable + ".plans")), threads(ThreadPool::instance().threads()),
      program(command.executable, workloadOf(bundle, options, threads)) {
  work = bundle.at("lengths");
  machine = machineName();
  if (const Device &device = command.program.device(); device.isHost())
    work = std::to_string(threads) + " threads, " + work;
  else
    machine = device.name();
  for (const Json &one : bundle.at("kernels"))
    kernels.push_back({kernels.size(), one.at("name"), one.at("key"), one.at("plans"), one.at("changes")});
  // Options that `measure` would refuse are refused now.
  options.number("--tolerance", 0, 0, 1e9);
  options.number("--seconds", 0, 0, 3600);
  end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double>(options.number("--budget", 300, 0, 1e6)));
  write(); // a path that nothing can be written to is known before anything is measured
}

void BundleSearch::findShares() {
  say("measuring what each kernel takes");
  Json answer = program.ask("shares");
  double all = 0;
  for (const auto &[name, part] : answer.items())
    for (const auto &[kernel, own] : part.at("kernels").items()) {
      double nanoseconds = own.at("ns").get<double>() * part.at("calls").get<double>();
      all += nanoseconds;
      for (Bundled &one : kernels)
        if (one.name == kernel) {
          one.nanoseconds += nanoseconds;
          one.row.title = own.at("title");
        }
    }
  for (Bundled &one : kernels)
    one.row.share = one.nanoseconds / std::max(all, 1.0);
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Bundled &a, const Bundled &b) { return a.nanoseconds > b.nanoseconds; });
}

void BundleSearch::compare(const std::vector<Tried> &tried, Clock::time_point deadline,
                           const std::function<void(size_t, const Json *)> &report) {
  std::vector<VersionTrial> trials;
  for (const auto &[kernel, version] : tried)
    trials.push_back({kernel->number, 0, version});
  program.compare(trials, deadline,
                  [&](size_t trial, const Json *result, const std::string &) { report(trial, result); });
}

void BundleSearch::search() {
  std::vector<Tried> tried;
  for (Bundled &kernel : kernels)
    for (size_t version = 1; kernel.row.share >= leastShare && version < kernel.plans.size(); ++version)
      tried.push_back({&kernel, version});
  compare(tried, end, [&](size_t trial, const Json *result) {
    auto [kernel, version] = tried[trial];
    std::string outcome = result ? result->at("outcome").get<std::string>() : "crashed";
    ++kernel->row.trials;
    kernel->row.wrong += outcome == "wrong" || outcome == "crashed";
    if (outcome == "faster" && 1 / result->at("ratio").get<double>() > kernel->row.gain)
      take(*kernel, version, result->at("ratio"));
    if (trial + 1 == tried.size() || tried[trial + 1].kernel != kernel)
      say(format("%-34.34s %4d tried  %5.3f times as fast  %4.0f s left", kernel->row.title.c_str(), kernel->row.trials,
                 kernel->row.gain, std::max(0.0, left())));
  });
  finished = left() > 0;
}

/// Of many versions that are as fast as each other one looks fastest, so those that won meet the default ones once more.
void BundleSearch::confirm() {
  std::vector<Tried> winners;
  for (Bundled &kernel : kernels)
    if (kernel.best)
      winners.push_back({&kernel, kernel.best});
  compare(winners, Clock::time_point::max(), [&](size_t trial, const Json *result) {
    auto [kernel, version] = winners[trial];
    bool faster = result && result->at("outcome") == "faster";
    take(*kernel, faster ? version : 0, faster ? result->at("ratio").get<double>() : 1);
  });
}

void BundleSearch::take(Bundled &kernel, size_t version, double ratio) {
  kernel.best = version;
  kernel.row.gain = 1 / ratio;
  kernel.row.plan = version ? kernel.changes[version] : "the default";
  write();
}

/// What is known so far, at any moment.
void BundleSearch::write() const {
  std::vector<TunedPlan> won;
  for (const Bundled &kernel : kernels)
    if (kernel.best)
      won.push_back({kernel.key, bundle.at("target"), machine, work, kernel.plans[kernel.best], kernel.row.gain,
                     kernel.row.title});
  support::writeFile(output, plansText(won));
}

void BundleSearch::run() {
  findShares();
  search();
  confirm();
  std::vector<VersionUse> uses;
  std::vector<TuneRow> rows;
  for (const Bundled &kernel : kernels) {
    if (kernel.best)
      uses.push_back({kernel.number, kernel.best});
    rows.push_back(kernel.row);
  }
  std::vector<TunedPart> parts;
  if (!uses.empty()) {
    program.use(uses);
    parts = tunedParts(program.ask("whole"));
  }
  writeOutput(tuneTable(rows, parts) + format("%zu plans are in ", uses.size()) + output +
              (finished ? "" : "; time was short for some kernels (--budget)") +
              "\nwhere the compiler is: quern tune --import " + output + "\n");
}

} // namespace

int tuneCommand(const Command &command) {
  Options options("tune", known);
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  configureThreads(options);
  BundleSearch(command, options).run();
  return 0;
}

} // namespace quern::runtime
