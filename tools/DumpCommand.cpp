// quern dump: the module after each pass, as text that the compiler reads again.
#include "ir/Dialect.h"
#include "passes/Phases.h"
#include "tools/SpecOptions.h"

#include "llvm/Support/FormatVariadic.h"
#include "mlir/IR/AsmState.h"

#include <iostream>

namespace po = boost::program_options;
using namespace quern::tools;
using namespace quern::passes;

static void listPasses() {
  for (const Phase &phase : phases()) {
    std::cout << phase.name << std::string(14 - phase.name.size(), ' ') << phase.meaning << "\n";
    for (const PassEntry &pass : phase.passes) {
      std::cout << "    " << pass.name << std::string(22 - pass.name.size(), ' ') << pass.meaning
                << (pass.needed.empty() ? "" : " (cannot be left out)") << "\n";
      for (const Rule &rule : rules())
        if (pass.name == rule.pass)
          std::cout << "      " << rule.name << std::string(20 - llvm::StringRef(rule.name).size(), ' ') << rule.meaning << "\n";
    }
  }
}

static std::string textOf(mlir::ModuleOp module, bool locations) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  mlir::OpPrintingFlags flags;
  module->print(stream, locations ? flags.enableDebugInfo() : flags);
  return text;
}

int quern::tools::dumpCommand(const Arguments &arguments) {
  if (llvm::is_contained(arguments, "--list-passes")) {
    listPasses();
    return 0;
  }
  SpecOptions spec;
  std::string after = "resolved", from, target = "native";
  std::vector<std::string> without;
  bool locations = false, times = false, onlyChanged = false;
  po::options_description options("options");
  addSpecOptions(options, spec);
  addWithout(options, without);
  options.add_options()("after", po::value(&after), "a phase, a pass, or 'all' (the default: resolved)")(
      "compile-from", po::value(&from), "the phase that an .mlir file is at")(
      "only-changed", po::bool_switch(&onlyChanged), "with 'all': leave out passes that changed nothing")(
      "list-passes", "phases and passes in order")("locations", po::bool_switch(&locations), "with places in the spec")(
      "times", po::bool_switch(&times), "time of each pass, on stderr")("target", po::value(&target), "the machine to compile for");
  po::variables_map values;
  if (!parseOptions(arguments, "quern dump SPEC [--after PASS|PHASE|all] [options]", options, values))
    return 0;
  for (const std::string &name : {after, from})
    if (!name.empty() && name != "all" && !isPhaseOrPass(name))
      throw std::runtime_error("no phase or pass is named '" + name + "'; see quern dump --list-passes");

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, spec);
  if (!module)
    return 1;
  PassOptions machine = passOptions(target, "", without);
  std::string before;
  bool all = after == "all";
  if (all && from.empty()) {
    before = textOf(*module, locations);
    std::cout << "// ---- resolved\n" << before;
  }
  auto show = [&](llvm::StringRef pass, mlir::ModuleOp result, double seconds) {
    if (times)
      std::cerr << llvm::formatv("{0,-22} {1,8:f1} ms\n", pass, seconds * 1e3).str();
    if (!all)
      return;
    std::string text = textOf(result, locations);
    if (!onlyChanged || text != before)
      std::cout << "\n// ---- after " << pass.str() << (text == before ? " (nothing changed)\n" : "\n" + text);
    before = text;
  };
  llvm::StringRef to = all ? "" : llvm::StringRef(after);
  bool nothingToRun = !all && (after == "resolved" || after == from);
  if (!nothingToRun && mlir::failed(runPhases(*module, machine, from.empty() ? "resolved" : from, to, show)))
    return 1;
  if (!all)
    std::cout << textOf(*module, locations);
  return 0;
}
