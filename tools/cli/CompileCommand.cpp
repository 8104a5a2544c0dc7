// quern compile: from a spec, or a published checkpoint, to an executable.
#include "codegen/Compiler.h"
#include "codegen/ExplainKernels.h"
#include "runtime/machine/CpuFeatures.h"
#include "support/Files.h"
#include "support/OutputFile.h"
#include "support/Processors.h"
#include "tools/cli/Commands.h"
#include "tools/cli/CompileFlags.h"
#include "tools/crash/CrashReport.h"
#include "tools/spec/ModelPath.h"
#include "tools/spec/QuantizeText.h"
#include "tools/spec/Remarks.h"
#include "tools/spec/StoredFormats.h"
#include "tools/spec/TargetFormats.h"
#include "tools/tune/TunedPlans.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <unistd.h>

namespace po = boost::program_options;
namespace fs = std::filesystem;
using namespace quern::tools;
using namespace quern::codegen;

void CompileFlags::add(po::options_description &options) {
  addSpecOptions(options, spec);
  addTrain(options, spec);
  addWithout(options, without);
  options.add_options()("output,o", po::value(&output),
                        "the executable (default: the spec's name); a folder for obj, llvm, asm")(
      "emit", po::value(&emit), "exe, lib (an archive, and quern.h beside it), obj, llvm, asm or mlir (default: exe)")(
      "weights", po::value(&weights),
      "the checkpoint; its config.json, or what a GGUF file says, is used unless --config is given")(
      "symbols", po::bool_switch(&symbols),
      "the executable keeps the names of its functions, so that perf and debuggers distinguish kernels")(
      "embed-weights", po::bool_switch(&embed),
      "append --weights (packed for the kernels, unless --train) and the tokenizer to the executable")(
      "target", po::value(&target),
      "native, an architecture level such as x86-64-v3, or opencl, cuda, vulkan: a device of that interface")(
      "schedules", po::value(&schedules), "a file of schedules that override the built-in ones")(
      "plans", po::value(&plans), "a file of plans (quern tune --export) instead of those that tuning found here")(
      "no-tuned", po::bool_switch(&untuned), "use the default plans, whatever tuning found")(
      "database", po::value(&database), "the database of quern tune (default: tuning.sqlite in the cache)")(
      "cache-dir", po::value(&cache), "folder of compiled kernels (default: $QUERN_CACHE, else the user's cache)")(
      "compile-from", po::value(&from), "PHASE that an .mlir file is in (a dump names it itself); or the FILE")(
      "compile-to", po::value(&to), "PHASE: stop there and write the module (as --emit mlir does at the end)")(
      "locations", po::bool_switch(&locations), "with --compile-to: locations in the spec, too")(
      "jobs,j", po::value(&jobs), "kernels compiled at the same time (default: all processors)")(
      "memory", po::value(&memory.memory),
      "with --train, SIZE such as 4G: memory for a gradient; the less, the more is recomputed")(
      "batch", po::value(&memory.rows), "rows that --memory is for (1)")("length", po::value(&memory.length),
                                                                         "tokens of a row that --memory is for")(
      "remarks", po::bool_switch(&remarks),
      "print on stderr which optimisations were done or missed, with the spec's lines")(
      "quiet,q", po::bool_switch(&quiet), "print nothing on success");
}

const quern::frontend::Architecture *CompileFlags::takeCheckpoint() {
  if (!from.empty() || llvm::StringRef(spec.spec).ends_with(".mlir"))
    return nullptr;
  std::string name = spec.spec;
  ModelPath model = findModel(name);
  if (model.kind == ModelPath::Kind::Spec)
    return nullptr;
  Checkpoint checkpoint = readCheckpoint(model, name);
  spec.spec = checkpoint.architecture->spec + ".quern";
  spec.builtin = checkpoint.architecture->text;
  if (spec.config.empty())
    spec.config = checkpoint.folder;
  if (weights.empty())
    weights = checkpoint.folder;
  adapter = checkpoint.adapter;
  spec.settings.insert(spec.settings.begin(), checkpoint.settings.begin(), checkpoint.settings.end()); // later ones win
  if (!quiet)
    std::cerr << name << ": " << checkpoint.type << ", " << checkpoint.architecture->kind << ", " << spec.spec << "\n";
  return checkpoint.architecture;
}

void CompileFlags::takeStored() {
  if (spec.precision != "stored")
    return;
  if (spec.train || !spec.quantize.empty())
    throw std::runtime_error("--precision stored is for programs that are not trained, without --quantize: leave " +
                             std::string(spec.train ? "--train" : "--quantize") + " or --precision stored out");
  if (weights.empty())
    throw std::runtime_error("--precision stored keeps weights as a checkpoint has them; --weights names it");
  spec.precision = "f32";
  spec.quantize = quantizeOfCheckpoint(weights);
  if (!spec.quantize.empty()) // which also says what rows become
    return;
  const std::map<std::string, std::string> types = storedTypes(weights);
  spec.quantize = formatsOf(types);
  if (std::set<std::string> widened = widenedTypes(types); !widened.empty() && !quiet)
    std::cerr << "of " << weights << " what is stored in " << llvm::join(widened, ", ")
              << " becomes f32; --quantize int8 takes about a quarter of its memory\n";
}

std::vector<TunedPlan> quern::tools::tunedPlans(const CompileFlags &flags) {
  if (!flags.plans.empty())
    return parsePlans(quern::support::readFile(flags.plans), flags.plans);
  std::string path = flags.database.empty() ? defaultDatabase(flags.cache) : flags.database;
  if (flags.untuned || (flags.database.empty() && !fs::exists(path)))
    return {};
  try {
    TuningDatabase database(path);
    CpuTarget target = cpuTarget(flags.target);
    std::vector<TunedPlan> plans = database.plans(target.resolved);
    const char *wanted = std::getenv("QUERN_DEVICE"); // as programs choose theirs
    std::string machine = target.device.empty() ? quern::runtime::machineName()
                                                : database.lastDevice(target.resolved, wanted ? wanted : "");
    std::erase_if(plans, [&](const TunedPlan &plan) { return plan.machine != machine && !plan.imported; });
    std::stable_partition(plans.begin(), plans.end(), [&](const TunedPlan &plan) { return plan.machine != machine; });
    return plans;
  } catch (const std::runtime_error &error) {
    std::cerr << "quern compile: what tuning found is not used: " << error.what() << " (or use --no-tuned)\n";
    return {};
  }
}

int quern::tools::compile(CompileFlags &flags) {
  CompileOptions options;
  options.spec = flags.spec.spec;
  options.output = flags.output;
  options.target = cpuTarget(flags.target);
  options.schedules = scheduleTable(flags.schedules);
  options.cache = flags.cache;
  options.jobs = flags.jobs > 0 ? flags.jobs : quern::support::availableThreads();
  static const std::map<std::string, Emit> forms = {{"exe", Emit::Executable},
                                                    {"lib", Emit::Library},
                                                    {"obj", Emit::Object},
                                                    {"llvm", Emit::Llvm},
                                                    {"asm", Emit::Assembly}};
  if (!flags.to.empty()) {
    checkGoal("resolved", flags.to);
    flags.emit = "mlir";
  }
  auto form = forms.find(flags.emit);
  if (form == forms.end() && flags.emit != "mlir")
    throw std::runtime_error("--emit " + flags.emit + ": exe, lib, obj, llvm, asm or mlir is needed");
  if (flags.emit == "lib" && flags.spec.train)
    throw std::runtime_error("--emit lib is for models that are used; --train needs an executable");
  if (!options.target.device.empty() && flags.emit == "lib")
    throw std::runtime_error(
        "--emit lib is for processors: a driver cannot be opened from a static archive; --target " + flags.target +
        " needs an executable");
  if (flags.symbols && flags.emit != "exe")
    throw std::runtime_error("--symbols is for executables; objects and libraries keep what linkers need");
  if (flags.embed && (flags.weights.empty() || flags.emit != "exe"))
    throw std::runtime_error("--embed-weights needs --weights and an executable to append them to");
  takeConfig(flags.spec, flags.weights);
  std::string stem = fs::path(flags.spec.spec).stem().string();
  if (options.output.empty())
    options.output = flags.emit == "exe" ? stem : flags.emit == "lib" ? "lib" + stem + ".a" : stem + "." + flags.emit;
  fs::path folder = fs::path(options.output).parent_path(); // folders of objects are made
  if ((flags.emit == "exe" || flags.emit == "lib" || flags.emit == "mlir") && !folder.empty() &&
      !fs::is_directory(folder))
    throw std::runtime_error("-o " + options.output + ": there is no folder " + folder.string());

  mlir::MLIRContext context;
  if (flags.remarks)
    enableRemarks(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, flags.spec);
  if (!module)
    return 1;
  std::string from = startOf(flags.spec, flags.from);
  if (!flags.to.empty())
    checkGoal(from, flags.to);
  if (!flags.memory.memory.empty() && (!flags.spec.train || !flags.to.empty()))
    throw std::runtime_error("--memory plans a whole program for training: it needs --train, and no --compile-to");
  if (!flags.memory.memory.empty() && !options.target.device.empty())
    throw std::runtime_error("--memory counts what a processor's kernels need; those of --target " + flags.target +
                             " store attention's scores too, which no plan counts: leave out --memory");
  quern::passes::PassOptions passes = passOptions(flags.target, flags.schedules, flags.without);
  AppliedPlans applied;
  std::vector<TunedPlan> tuned = tunedPlans(flags);
  passes.planning = [&, next = passes.planning](mlir::ModuleOp planning) {
    applied = applyPlans(planning, tuned, options);
    return next(planning);
  };
  std::string planned;
  mlir::LogicalResult done = flags.memory.memory.empty() ? quern::passes::runPhases(*module, passes, from, flags.to)
                                                         : runWithin(module, flags.memory, passes, from, planned);
  if (mlir::failed(done)) // a module may be anybody's
    return llvm::StringRef(flags.spec.spec).ends_with(".mlir") ? 1 : reportFailedPasses();
  for (const std::string &refused : applied.refused)
    std::cerr << "quern compile: a tuned plan is not used: " << refused << "\n";
  if (flags.remarks)
    explainKernels(*module);
  if (flags.emit == "mlir") {
    std::string text = dumpHeader(flags.to.empty() ? "planned" : flags.to);
    llvm::raw_string_ostream out(text);
    module->print(out, flags.locations ? mlir::OpPrintingFlags().enableDebugInfo() : mlir::OpPrintingFlags());
    quern::support::writeFile(options.output, text);
    return 0;
  }
  options.emit = form->second;
  options.symbols = flags.symbols;
  options.embed = flags.embed ? flags.weights : "";
  bool terminal = isatty(STDERR_FILENO) && !flags.quiet;
  options.progress = [&](int done, int all) {
    if (terminal)
      std::cerr << "\rkernels " << done << " of " << all << std::flush;
  };
  enterCodegen();
  CompileReport report = compileModule(*module, options);
  if (terminal)
    std::cerr << "\r\033[K";
  if (report.refusedThreads && !flags.quiet)
    std::cerr << "quern compile: warning: the system refused " << report.refusedThreads
              << " more threads (a limit of processes or memory)\n";
  if (!flags.quiet && !planned.empty())
    std::cerr << options.output << ": " << planned << "\n";
  if (!flags.quiet)
    std::cerr << llvm::formatv(
                     "{0}: {1} kernels ({2} from the cache{6}) in {3:f1} s, host program {4:f1} s, link {5:f1} s\n",
                     options.output, report.kernels, report.cached, report.kernelSeconds, report.hostSeconds,
                     report.linkSeconds, applied.applied ? llvm::formatv(", {0} tuned", applied.applied).str() : "")
                     .str();
  return 0;
}

int quern::tools::compileCommand(const Arguments &arguments) {
  CompileFlags flags;
  po::options_description options("options");
  flags.add(options);
  po::variables_map values;
  if (!parseOptions(withCompileFrom(arguments),
                    "quern compile MODEL [-o PROGRAM] [--config FILE] [--set NAME=VALUE] [options]\n"
                    "  MODEL: SPEC.quern; or a checkpoint whose spec is known: a folder or ORG/NAME from "
                    "Hugging Face, or a GGUF file",
                    options, values))
    return 0;
  flags.takeCheckpoint();
  flags.takeStored();
  if (takeTargetsFormats(flags.spec, flags.target, flags.weights, values) && !flags.quiet)
    std::cerr << "numbers in bf16 and sums in f32, as --target cuda has them; --precision f32 is exact\n";
  if (!flags.adapter.empty() && flags.embed)
    throw std::runtime_error("--embed-weights does not merge adapters; give the program --adapter " + flags.adapter);
  if (!flags.adapter.empty() && !flags.quiet)
    std::cerr << "give the program --adapter " << flags.adapter << "\n";
  return compile(flags);
}
