// `tune`: what a program of `quern tune --bundle` does on a machine that has no compiler. Takes: versions of kernels that
// were compiled elsewhere. Gives: the fastest of each on this machine, as lines that `quern tune --import` reads there.
//
// A kernel after the other, those that take most first: each version meets the best one so far, and the winner meets the
// default one at the end, as in a search with a compiler (tools/tune). Lines are written as soon as a kernel is done.
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

/// One kernel with its versions; the first is the default.
struct Bundled {
  size_t number; ///< in the program
  std::string name, key;
  std::vector<std::string> plans, changes;
  double nanoseconds = 0; ///< in one use of the program
  TuneRow row = {"", 0, 0, 0, 1, "the default"};
  size_t best = 0;
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
  std::vector<TunedPlan> won;

  double left() const { return std::chrono::duration<double>(end - Clock::now()).count(); }
  void findShares();
  bool search(Bundled &kernel);
  bool isFaster(Bundled &kernel, size_t incumbent, size_t candidate, Clock::time_point deadline, double *ratio);
  void write() const { support::writeFile(output, plansText(won)); }
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

bool BundleSearch::isFaster(Bundled &kernel, size_t incumbent, size_t candidate, Clock::time_point deadline,
                            double *ratio) {
  bool faster = false;
  program.compare({{kernel.number, incumbent, candidate}}, deadline,
                  [&](size_t, const Json *result, const std::string &) {
                    ++kernel.row.trials;
                    std::string outcome = result ? result->at("outcome").get<std::string>() : "crashed";
                    kernel.row.wrong += outcome == "wrong" || outcome == "crashed";
                    faster = outcome == "faster";
                    if (faster && ratio)
                      *ratio = result->at("ratio");
                  });
  return faster;
}

/// False: there was no time for some versions.
bool BundleSearch::search(Bundled &kernel) {
  size_t version = 1;
  for (; version < kernel.plans.size() && left() > 0; ++version)
    if (isFaster(kernel, kernel.best, version, end, nullptr))
      kernel.best = version;
  double ratio = 1;
  if (kernel.best && !isFaster(kernel, 0, kernel.best, Clock::time_point::max(), &ratio))
    kernel.best = 0;
  bool all = version >= kernel.plans.size();
  if (!kernel.best)
    return all;
  kernel.row.gain = 1 / ratio;
  kernel.row.plan = kernel.changes[kernel.best];
  won.push_back(
      {kernel.key, bundle.at("target"), machine, work, kernel.plans[kernel.best], kernel.row.gain, kernel.row.title});
  write();
  return all;
}

void BundleSearch::run() {
  findShares();
  std::vector<VersionUse> uses;
  std::vector<TuneRow> rows;
  bool finished = true;
  for (Bundled &kernel : kernels) {
    if (kernel.row.share >= leastShare) {
      finished = search(kernel) && finished;
      say(format("%-34.34s %4d tried  %5.3f times as fast  %4.0f s left", kernel.row.title.c_str(), kernel.row.trials,
                 kernel.row.gain, std::max(0.0, left())));
    }
    if (kernel.best)
      uses.push_back({kernel.number, kernel.best});
    rows.push_back(kernel.row);
  }
  std::vector<TunedPart> parts;
  if (!uses.empty()) {
    program.use(uses);
    parts = tunedParts(program.ask("whole"));
  }
  writeOutput(tuneTable(rows, parts) + format("%zu plans are in ", won.size()) + output +
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
