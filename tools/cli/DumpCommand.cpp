// quern dump: the module after each pass, as text that the compiler reads again, as numbers, as a diff or as JSON.
#include "codegen/CompileKernels.h"
#include "codegen/ExplainKernels.h"
#include "ir/Dialect.h"
#include "support/Files.h"
#include "support/OutputFile.h"
#include "support/TemporaryFolder.h"
#include "tools/cli/Commands.h"
#include "tools/inspect/DumpPage.h"
#include "tools/inspect/TextDiff.h"
#include "tools/spec/Remarks.h"
#include "tools/spec/SpecOptions.h"
#include "tools/spec/TargetFormats.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Program.h"

#include <cstdlib>
#include <iostream>
#include <set>
#include <unistd.h>

namespace po = boost::program_options;
using namespace quern::tools;
using namespace quern::passes;
using Json = nlohmann::ordered_json;

static void listPasses() {
  for (const Phase &phase : phases()) {
    std::cout << phase.name << std::string(16 - phase.name.size(), ' ') << phase.meaning << "\n";
    for (const PassEntry &pass : phase.passes) {
      std::cout << "    " << pass.name << std::string(24 - pass.name.size(), ' ') << pass.meaning
                << (pass.needed.empty() ? "" : " (cannot be left out)") << "\n";
      for (const Rule &rule : rules())
        if (pass.name == rule.pass)
          std::cout << "      " << rule.name << std::string(22 - llvm::StringRef(rule.name).size(), ' ') << rule.meaning
                    << "\n";
    }
  }
}

static int passesOf(llvm::StringRef name) {
  for (const Phase &phase : phases())
    if (phase.name == name)
      return static_cast<int>(phase.passes.size());
  return 1;
}

namespace {
struct DumpFlags {
  SpecOptions spec;
  std::string after, to, from, target = "native", diffA, diffB, html, machine, profile, cache, emit;
  std::vector<std::string> without, sizes;
  bool locations = false, timing = false, onlyChanged = false, stats = false, scratch = false, json = false,
       remarks = false;

  void add(po::options_description &options) {
    addSpecOptions(options, spec);
    addTrain(options, spec);
    addWithout(options, without);
    options.add_options()("after", po::value(&after),
                          "a phase, a pass, or 'all' (default: where the module stands, resolved)")(
        "compile-to", po::value(&to), "the same as --after")(
        "compile-from", po::value(&from), "PHASE that an .mlir file is in (a dump names it itself); or the FILE")(
        "only-changed", po::bool_switch(&onlyChanged),
        "with 'all': leave out passes that changed nothing; else: functions and kernels that --after changed")(
        "diff", "A B: what changed between two phases or passes")(
        "stats", po::bool_switch(&stats), "operations, launches, kernels, FLOPs, bytes, memory, instead of the text")(
        "scratch", po::bool_switch(&scratch),
        "--stats of phase 'planned', and what kernels ask for while they run; compiles them, so that `quern compile` "
        "finds them in its cache")("set-size", po::value(&sizes)->composing(),
                                   "T=512[,past=0]: also the value of each polynomial of --stats")(
        "json", po::bool_switch(&json), "one object: text and numbers after each pass (with --stats: numbers alone)")(
        "html", po::value(&html), "FILE: an HTML page that shows all of it, and the kernels")(
        "machine", po::value(&machine), "GFLOPS,GBS: the limits of the roofline, instead of measuring this machine")(
        "profile", po::value(&profile),
        "FILE that --profile of this model's program wrote: the page shows what was measured beside what is estimated")(
        "cache-dir", po::value(&cache), "folder of compiled kernels (default: $QUERN_CACHE, else the user's cache)")(
        "emit", po::value(&emit),
        "ptx: each kernel as the driver of --target cuda gets it, instead of the module (for opencl: OpenCL C); sass: "
        "what "
        "ptxas makes of that, where it and nvdisasm are installed")(
        "remarks", po::bool_switch(&remarks), "print on stderr what the passes that ran did and did not do")(
        "timing", po::bool_switch(&timing), "time of each pass, on stderr")(
        "list-passes", "phases and passes in order")("locations", po::bool_switch(&locations),
                                                     "with locations in the spec")("target", po::value(&target),
                                                                                   "the machine to compile for");
  }
  /// Takes `--diff A B` out of the words; the library cannot tell B from SPEC.
  Arguments takeDiff(Arguments words) {
    auto at = std::find(words.begin(), words.end(), "--diff");
    if (at == words.end())
      return words;
    if (words.end() - at < 3)
      throw std::runtime_error("--diff takes two phases or passes: --diff rolled incremental");
    diffA = at[1], diffB = at[2];
    words.erase(at, at + 3);
    return words;
  }
};
} // namespace

static Json stageJson(const Stage &stage, bool text, const std::optional<Lengths> &lengths) {
  Json one = {{"name", stage.name},       {"phase", stage.phase},
              {"meaning", stage.meaning}, {"seconds", stage.seconds},
              {"changed", stage.changed}, {"statistics", toJson(stage.statistics, lengths)}};
  if (text)
    one["text"] = *stage.text;
  return one;
}

/// The functions and kernels of `stage` that `before` has not, or has otherwise.
static std::string changedSymbols(const Stage &stage, const Stage &before) {
  std::map<std::string, std::string> old;
  for (auto &[name, text] : splitSymbols(*before.text))
    old[name] = text;
  std::string out;
  for (auto &[name, text] : splitSymbols(*stage.text))
    if (auto found = old.find(name); found == old.end() || found->second != text)
      out += text;
  return out;
}

static std::string timingText(const std::vector<Stage> &stages) {
  std::string text;
  double total = 0;
  for (const Stage &stage : llvm::ArrayRef(stages).drop_front()) {
    text += llvm::formatv("{0,-22} {1,8:f2} ms{2}\n", stage.name, stage.seconds * 1e3,
                          stage.changed ? "" : "   nothing changed")
                .str();
    total += stage.seconds;
  }
  return text + llvm::formatv("{0,-22} {1,8:f2} ms\n", "all passes", total * 1e3).str();
}

/// One line a pass: how the numbers move.
static std::string overview(const std::vector<Stage> &stages, const Lengths &lengths) {
  std::string text = llvm::formatv("{0,-22} {1,7} {2,8} {3,9} {4,10} {5,10} {6,10} {7,9}\n", "after", "ops", "kernels",
                                   "launches", "FLOP", "traffic B", "arena B", "ms")
                         .str();
  for (const Stage &stage : stages) {
    int64_t launches = 0, flops = 0, bytes = 0, arena = 0;
    // The function that does most of the work stands for the module: the others are variants of it.
    for (const FunctionStatistics &function : stage.statistics.functions)
      if (int64_t work = valueOf(function.flops, lengths); work >= flops) {
        flops = work, bytes = valueOf(function.bytes, lengths);
        launches = function.launches, arena = function.arenaBytes(lengths);
      }
    text += llvm::formatv("{0,-22} {1,7} {2,8} {3,9} {4,10} {5,10} {6,10} {7,9:f2}\n", stage.name, stage.statistics.ops,
                          stage.statistics.kernels.size(), launches, shortNumber(double(flops)),
                          shortNumber(double(bytes)), arena ? shortNumber(double(arena)) : "-", stage.seconds * 1e3)
                .str();
  }
  return text;
}

static void printAll(const std::vector<Stage> &stages, const DumpFlags &flags) {
  const char *separator = "";
  for (const Stage &stage : stages) {
    if (flags.onlyChanged && !stage.changed)
      continue;
    std::cout << separator << "// ---- after " << stage.name
              << (stage.changed ? "\n" + *stage.text : " (nothing changed)\n");
    separator = "\n";
  }
}

/// Throws for lengths that the model does not have.
static void checkLengths(mlir::ModuleOp module, const Lengths &lengths) {
  std::set<std::string> known = {"past", "cap"}; // of what will be remembered
  for (auto function : module.getOps<mlir::func::FuncOp>())
    for (mlir::Type type : function.getArgumentTypes())
      if (auto tensor = mlir::dyn_cast<quern::ir::NamedTensorType>(type))
        for (quern::ir::DimAttr dim : tensor.getDims())
          for (const std::string &symbol : dim.getSize().symbols())
            known.insert(symbol);
  for (const auto &[name, value] : lengths)
    if (!known.count(name.substr(0, name.find('.')))) { // past.256: of a ring
      std::vector<std::string> names(known.begin(), known.end());
      throw std::runtime_error("--set-size " + name + ": the model has no such length; it has " +
                               llvm::join(names, ", "));
    }
}

/// What the card executes: by the tools of CUDA's toolkit, which need not be there for anything else. A kernel may have an
/// image for one kind of card beside that for others.
static std::string sassOf(const std::string &kernel) {
  for (const char *tool : {"ptxas", "nvdisasm"})
    if (!llvm::sys::findProgramByName(tool))
      throw std::runtime_error(std::string("--emit sass needs ") + tool +
                               ", which no folder of PATH has; it comes with CUDA's toolkit (PyPI: "
                               "nvidia-cuda-nvcc-cu12, nvidia-cuda-cuobjdump-cu12), or --emit ptx shows the kernels");
  quern::support::TemporaryFolder work;
  std::string base = work.path() + "/kernel", sass;
  for (size_t at = kernel.find("\n.version "), next; at != std::string::npos; at = next) {
    next = kernel.find("\n.version ", at + 1);
    std::string ptx = kernel.substr(at, next == std::string::npos ? next : next - at);
    size_t target = ptx.find(".target sm_") + 8;
    quern::support::writeFile(base + ".ptx", ptx);
    for (const std::string &command : {"ptxas -arch=" + ptx.substr(target, ptx.find_first_of(", \n", target) - target) +
                                           " " + base + ".ptx -o " + base + ".cubin",
                                       "nvdisasm " + base + ".cubin > " + base + ".sass"})
      if (std::system(command.c_str()))
        throw std::runtime_error("failed: " + command);
    sass += quern::support::readFile(base + ".sass");
  }
  return sass;
}

static void printKernels(mlir::ModuleOp planned, const DumpFlags &flags) {
  for (const quern::codegen::KernelText &kernel :
       quern::codegen::describeKernels(planned, inspectOptions(flags.target, flags.cache)))
    std::cout << "// ---- " << kernel.name << "\n"
              << (flags.emit == "sass" ? sassOf(kernel.assembly) : kernel.assembly) << "\n";
}

int quern::tools::dumpCommand(const Arguments &arguments) {
  if (llvm::is_contained(arguments, "--list-passes")) {
    listPasses();
    return 0;
  }
  DumpFlags flags;
  Arguments words = flags.takeDiff(withCompileFrom(arguments));
  po::options_description options("options");
  flags.add(options);
  po::variables_map values;
  if (!parseOptions(words, "quern dump SPEC [--after PASS|PHASE|all] [options]", options, values))
    return 0;
  takeTargetsFormats(flags.spec, flags.target, "", values);
  std::string from = startOf(flags.spec, flags.from);
  if (flags.after.empty())
    flags.after = !flags.to.empty() ? flags.to : flags.scratch || !flags.emit.empty() ? "planned" : from;
  if (flags.scratch && (flags.after != "planned" || !flags.html.empty() || !flags.diffA.empty()))
    throw std::runtime_error(
        "--scratch goes with --after planned: what is compiled are the kernels of a planned module");
  if (flags.scratch && flags.sizes.empty())
    throw std::runtime_error(
        "--scratch needs lengths, --set-size T=512 for example: which kernel asks for most depends on them");
  if (!flags.profile.empty() && flags.html.empty())
    throw std::runtime_error("--profile goes with --html: the page shows it; a program shows it as a table by itself");
  if (!flags.emit.empty()) {
    std::string device = codegen::cpuTarget(flags.target).device;
    if ((flags.emit != "ptx" && flags.emit != "sass") ||
        (device != "cuda" && (device != "opencl" || flags.emit == "sass")))
      throw std::runtime_error(
          "--emit " + flags.emit + " --target " + flags.target +
          ": ptx and sass are of --target cuda (ptx of opencl is its C); quern compile --emit asm is "
          "for processors");
    if (flags.after != "planned" || !flags.diffA.empty() || !flags.html.empty() || flags.json || flags.stats ||
        flags.scratch)
      throw std::runtime_error(
          "--emit shows the kernels of a planned module: give it without --diff, --html, --json and "
          "--stats");
  }
  flags.stats |= flags.scratch;
  bool diff = !flags.diffA.empty(), all = flags.after == "all";
  if (diff && (flags.json || flags.stats))
    throw std::runtime_error("--diff compares texts: give it without --json and --stats");
  for (const std::string &name : {flags.after, flags.diffA, flags.diffB})
    if (!name.empty() && name != "all")
      checkGoal(from, name);
  Lengths lengths = parseLengths(flags.sizes);
  std::optional<Lengths> given = flags.sizes.empty() ? std::nullopt : std::optional(lengths);

  mlir::MLIRContext context;
  if (flags.remarks)
    enableRemarks(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, flags.spec);
  if (!module)
    return 1;
  checkLengths(*module, lengths);
  PassOptions passes = passOptions(flags.target, "", flags.without);
  if (orderOf(from) >= orderOf("scheduled") && mlir::failed(passes.planning(*module))) // plans may have been edited
    return 1;
  if (!flags.html.empty()) {
    DumpPageOptions page{flags.spec,   flags.html,    flags.machine, flags.cache, from,
                         flags.target, flags.profile, lengths,       "quern dump"};
    for (const std::string &word : arguments)
      page.command += " " + word;
    return dumpPage(*module, passes, page);
  }
  std::string to = all    ? ""
                   : diff ? (orderOf(flags.diffA) > orderOf(flags.diffB) ? flags.diffA : flags.diffB)
                          : flags.after;
  mlir::FailureOr<std::vector<Stage>> collected =
      collectStages(*module, passes, from, orderOf(to) == orderOf(from) ? from : to, flags.locations);
  if (mlir::failed(collected))
    return 1;
  std::vector<Stage> &stages = *collected;
  if (flags.remarks)
    codegen::explainKernels(*module);
  if (flags.scratch) {
    quern::support::TemporaryFolder work;
    codegen::KernelFiles kernels =
        codegen::compileKernels(*module, inspectOptions(flags.target, flags.cache), work.path());
    addScratch(stages.back().statistics, *module, kernels.scratch);
  }
  if (flags.timing)
    std::cerr << timingText(stages);
  if (!flags.emit.empty()) {
    printKernels(*module, flags);
    return 0;
  }

  // What a phase or pass left: the last stage that is not later (a pass may have been left out).
  auto stageOf = [&](int order) -> const Stage & {
    size_t best = 0;
    for (size_t i = 1; i < stages.size(); ++i)
      if (orderOf(stages[i].name) <= order)
        best = i;
    return stages[best];
  };
  if (diff) {
    const char *no = std::getenv("NO_COLOR");
    std::cout << unifiedDiff(*stageOf(orderOf(flags.diffA)).text, *stageOf(orderOf(flags.diffB)).text, flags.diffA,
                             flags.diffB, isatty(STDOUT_FILENO) && !(no && *no));
    return 0;
  }
  if (flags.json) {
    Json root = {{"passes", Json::array()}};
    for (const Stage &stage : all ? llvm::ArrayRef(stages) : llvm::ArrayRef(stages).take_back(1))
      if (!(flags.onlyChanged && !stage.changed))
        root["passes"].push_back(stageJson(stage, !flags.stats, given));
    std::cout << root.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    return 0;
  }
  if (flags.stats && all)
    std::cout << overview(stages, lengths);
  else if (flags.stats)
    std::cout << "after " << flags.after << ": " << toText(stages.back().statistics, given);
  else if (all)
    printAll(stages, flags);
  else if (flags.onlyChanged && stages.size() > 1)
    std::cout << changedSymbols(stages.back(), stageOf(orderOf(flags.after) - passesOf(flags.after)));
  else
    std::cout << dumpHeader(flags.after) << *stages.back().text;
  return 0;
}
