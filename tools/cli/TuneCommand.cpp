// quern tune: measures other plans of a program's kernels, and keeps those that are faster for quern compile.
#include "runtime/machine/CpuFeatures.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/OutputFile.h"
#include "support/Processors.h"
#include "tools/cli/Commands.h"
#include "tools/cli/CompileFlags.h"
#include "tools/crash/CrashReport.h"
#include "tools/spec/SpecOptions.h"
#include "tools/spec/TargetFormats.h"
#include "tools/tune/TunePage.h"
#include "tools/tune/TunedPlans.h"
#include "tools/tune/Tuner.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <unistd.h>

namespace po = boost::program_options;
using namespace quern::tools;
using namespace quern::codegen;

namespace {
struct TuneFlags {
  SpecOptions spec;
  std::string weights, schedules, cache, database, effort = "quick", exported, imported, html, bundle,
                                                   target = "native";
  std::vector<std::string> without;
  double budget = 120, tolerance = 1e-4, seconds = 3;
  int64_t prefill = 0, decode = 0, batch = 4;
  int jobs = 0, threads = 0;
  bool list = false, quiet = false;
};
} // namespace

static std::string numberText(double number) {
  return quern::support::format("%.9g", number);
}

static TuneOptions tuneOptions(const TuneFlags &flags) {
  TuneOptions options;
  CompileOptions &compile = options.compile;
  compile.spec = flags.spec.spec;
  compile.target = cpuTarget(flags.target);
  compile.schedules = scheduleTable(flags.schedules);
  compile.cache = flags.cache;
  compile.jobs = flags.jobs > 0 ? flags.jobs : quern::support::availableThreads();
  options.budget = flags.budget;
  options.tolerance = flags.tolerance;
  options.draws = flags.effort == "full" ? 96 : 16;
  int threads = flags.threads > 0 ? flags.threads : quern::support::availableThreads();
  int64_t prefill = flags.prefill > 0  ? flags.prefill
                    : flags.spec.train ? 64
                                       : 512,
          decode = flags.decode > 0 ? flags.decode : 128;
  std::string lengths =
      flags.spec.train ? llvm::formatv("training on {0} x {1}, {2}", flags.batch, prefill, flags.spec.precision).str()
                       : llvm::formatv("prefill {0}, decode {1}", prefill, decode).str();
  options.lengths = lengths;
  options.where = {compile.target.resolved, quern::runtime::machineName(),
                   std::to_string(threads) + " threads, " + lengths};
  if (!compile.target.device.empty()) // `search` asks for its name
    options.where = {compile.target.resolved, "", lengths};
  auto add = [&](const char *name, const std::string &value) {
    options.workload.push_back(name);
    options.workload.push_back(value);
  };
  add("--threads", std::to_string(threads));
  if (flags.spec.train) {
    options.workload.push_back("--train");
    add("--batch", std::to_string(flags.batch));
    add("-p", std::to_string(prefill));
  } else {
    if (flags.prefill > 0)
      add("-p", std::to_string(prefill));
    if (flags.decode > 0)
      add("-n", std::to_string(decode));
  }
  if (!flags.weights.empty() && flags.bundle.empty()) // a bundle is run where they are not
    add("--weights", flags.weights);
  add("--tolerance", numberText(flags.tolerance));
  add("--seconds", numberText(flags.seconds));
  bool terminal = isatty(STDERR_FILENO) && !flags.quiet;
  options.progress = [terminal, quiet = flags.quiet](const std::string &line) {
    if (terminal)
      std::cerr << "\r\033[K" << line << std::flush;
    else if (!quiet)
      std::cerr << line << "\n";
  };
  return options;
}

/// As quern compile takes its MODEL.
static void takeModel(TuneFlags &flags) {
  CompileFlags compile;
  compile.spec = flags.spec;
  compile.weights = flags.weights;
  compile.quiet = flags.quiet;
  compile.takeCheckpoint();
  compile.takeStored();
  takeConfig(compile.spec, compile.weights);
  flags.spec = compile.spec;
  flags.weights = compile.weights;
}

/// Of a target with a device: which one this machine has. A bundle may be made where there is none.
static void findDevice(mlir::ModuleOp planned, const TuneFlags &flags, TuneOptions &options, TuningDatabase &database) {
  if (options.compile.target.device.empty())
    return;
  try {
    options.where.machine = deviceOf(planned, options);
    database.keepDevice(options.where);
  } catch (const std::runtime_error &) {
    if (flags.bundle.empty())
      throw;
  }
}

static int search(const TuneFlags &flags, TuningDatabase &database) {
  TuneOptions options = tuneOptions(flags);
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, flags.spec);
  if (!module)
    return 1;
  quern::passes::PassOptions passes = passOptions(flags.target, flags.schedules, flags.without);
  std::string from = startOf(flags.spec, "");
  if (orderOf(from) >= orderOf("scheduled"))
    throw std::runtime_error(flags.spec.spec +
                             " has plans already; a spec, or a dump from before 'scheduled', is needed");
  if (mlir::failed(quern::passes::runPhases(*module, passes, from, "scheduled")))
    return llvm::StringRef(flags.spec.spec).ends_with(".mlir") ? 1 : reportFailedPasses();
  mlir::OwningOpRef<mlir::ModuleOp> scheduled(mlir::cast<mlir::ModuleOp>((*module)->clone()));
  if (mlir::failed(quern::passes::runPhases(*module, passes, "scheduled", "")))
    return reportFault("failed");
  enterCodegen();
  findDevice(*module, flags, options, database);
  if (!flags.bundle.empty()) {
    options.compile.output = flags.bundle;
    int64_t plans = bundle(*scheduled, *module, options, database);
    if (isatty(STDERR_FILENO) && !flags.quiet)
      std::cerr << "\r\033[K";
    std::cout << flags.bundle << ": " << plans << " other plans. Run it as '" << flags.bundle
              << " tune' on the machine that they are for, and give the file that it writes to 'quern tune --import'\n";
    return 0;
  }
  TuneReport report = tune(*scheduled, *module, options, database);
  if (isatty(STDERR_FILENO) && !flags.quiet)
    std::cerr << "\r\033[K";
  std::cout << tuneTable(report);
  if (!flags.html.empty())
    quern::support::writeFile(flags.html, tunePage(report, flags.spec.spec, options.where));
  return 0;
}

static void list(TuningDatabase &database) {
  std::vector<TunedPlan> plans = database.plans();
  std::cout << database.path() << ": " << database.trialCount() << " comparisons, " << plans.size() << " plans\n";
  for (const TunedPlan &plan : plans)
    std::cout << llvm::formatv("{0}  {1,6:f3}  {2}{3}\n    {4}\n    {5}, {6}, {7}\n", plan.kernel, plan.gain,
                               plan.title, plan.imported ? " (imported)" : "", plan.plan, plan.machine, plan.target,
                               plan.work)
                     .str();
}

int quern::tools::tuneCommand(const Arguments &arguments) {
  TuneFlags flags;
  po::options_description options("options");
  options.add_options()("spec", po::value(&flags.spec.spec), "the model: SPEC.quern, or an .mlir file from quern dump")(
      "config", po::value(&flags.spec.config), "config.json of the model, the folder that holds it, or a GGUF file")(
      "set", po::value(&flags.spec.settings)->composing(),
      "NAME=VALUE: a config field, as the spec or the file names it")(
      "weights", po::value(&flags.weights), "the checkpoint, and its config; without it weights are random");
  addTrain(options, flags.spec);
  addWithout(options, flags.without);
  options.add_options()("budget", po::value(&flags.budget), "seconds of searching (120)")(
      "effort", po::value(&flags.effort), "quick or full: how many plans are drawn when no single step helps (quick)")(
      "prefill,p", po::value(&flags.prefill), "tokens of the prefill (512), with --train of a row (64)")(
      "decode,n", po::value(&flags.decode), "decode steps after it: how much they count (128)")(
      "batch", po::value(&flags.batch), "rows of a training step (4)")(
      "threads", po::value(&flags.threads), "threads of the program (default: all processors)")(
      "tolerance", po::value(&flags.tolerance),
      "a plan whose results differ by more, relative to the largest number, is wrong (1e-4)")(
      "seconds", po::value(&flags.seconds), "most seconds for one comparison (3)")(
      "schedules", po::value(&flags.schedules), "a file of schedules that override the built-in ones")(
      "cache-dir", po::value(&flags.cache),
      "folder of compiled kernels (default: $QUERN_CACHE, else the user's cache)")(
      "database", po::value(&flags.database), "file of what was measured (default: tuning.sqlite in that folder)")(
      "list", po::bool_switch(&flags.list),
      "print the plans that were found")("export", po::value(&flags.exported),
                                         "FILE: write them as a text, a line for each kernel (- for standard output)")(
      "import", po::value(&flags.imported), "FILE: take plans from such a text")(
      "bundle", po::value(&flags.bundle),
      "FILE: instead of searching, make a program with other plans of the kernels, which finds the best of them on a "
      "machine without a compiler")("target", po::value(&flags.target),
                                    "native, a level such as x86-64-v3, or opencl, cuda, vulkan: a device (native)")(
      "html", po::value(&flags.html), "FILE: an HTML report with every plan that was tried")(
      "jobs,j", po::value(&flags.jobs), "kernels compiled at the same time (default: all processors)")(
      "quiet,q", po::bool_switch(&flags.quiet), "no progress on stderr");
  po::variables_map values;
  if (!parseOptions(arguments,
                    "quern tune SPEC [--budget SECONDS] [options], or quern tune --list|--export|--import FILE",
                    options, values))
    return 0;
  if (flags.effort != "quick" && flags.effort != "full")
    throw std::runtime_error("--effort " + flags.effort + ": quick or full is needed");
  if (!(flags.budget >= 0) || !(flags.seconds > 0) || !(flags.tolerance >= 0))
    throw std::runtime_error("--budget, --seconds and --tolerance are numbers above 0");
  if (flags.prefill < 0 || flags.decode < 0 || flags.batch < 1 || flags.threads < 0)
    throw std::runtime_error("-p, -n, --batch and --threads are numbers above 0");
  bool alone = flags.list || !flags.exported.empty() || !flags.imported.empty();
  if (flags.spec.spec.empty() && !alone)
    throw std::runtime_error("SPEC is missing; or --list, --export FILE or --import FILE");
  if (flags.spec.spec.empty() && !(flags.html.empty() && flags.bundle.empty()))
    throw std::runtime_error("SPEC is missing: --html and --bundle are about a program");
  if (!flags.html.empty() && !flags.bundle.empty())
    throw std::runtime_error("--html is the report of a search; with --bundle the program that is made searches");
  if (!flags.spec.spec.empty()) {
    takeModel(flags);
    takeTargetsFormats(flags.spec, flags.target, flags.weights, values);
  }
  TuningDatabase database(flags.database.empty() ? defaultDatabase(flags.cache) : flags.database);
  if (!flags.imported.empty()) {
    std::vector<TunedPlan> plans = parsePlans(quern::support::readFile(flags.imported), flags.imported);
    for (const TunedPlan &plan : plans)
      database.keepPlan(plan);
    std::cout << plans.size() << " plans are in " << database.path() << "\n";
  }
  int status = flags.spec.spec.empty() ? 0 : search(flags, database);
  if (flags.list)
    list(database);
  if (std::string text = plansText(database.plans()); flags.exported == "-")
    std::cout << text;
  else if (!flags.exported.empty())
    quern::support::writeFile(flags.exported, text);
  return status;
}
