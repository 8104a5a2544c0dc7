// quern interpret: a program's `eval` in double precision, by the reference interpreter.
#include "passes/Phases.h"
#include "tools/Interpret.h"
#include "tools/SpecOptions.h"

namespace po = boost::program_options;
using namespace quern::tools;

int quern::tools::interpretCommand(const Arguments &arguments) {
  SpecOptions spec;
  InterpretOptions interpret;
  std::string after = "resolved";
  std::vector<std::string> without;
  po::options_description options("options");
  addSpecOptions(options, spec);
  addTrain(options, spec);
  addWithout(options, without);
  options.add_options()("weights", po::value(&interpret.weights), "safetensors file or folder")(
      "input", po::value(&interpret.input), "safetensors file with the function's parameters by name")(
      "output", po::value(&interpret.output)->required(), "safetensors file for the results")(
      "function", po::value(&interpret.function), "default: forward, or encode and decode")(
      "after", po::value(&after), "interpret the module after this pass or phase (default: resolved)");
  po::variables_map values;
  if (!parseOptions(arguments, "quern interpret SPEC --weights W --input IN --output OUT [options]", options, values))
    return 0;
  if (spec.train) {
    interpret.function = interpret.function.empty() ? "loss.grad" : interpret.function;
    after = after == "resolved" ? "differentiated" : after;
  }
  if (!quern::passes::isPhaseOrPass(after))
    throw std::runtime_error("no phase or pass is named '" + after + "'; see quern dump --list-passes");
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, spec);
  if (!module)
    return 1;
  if (after != "resolved" && mlir::failed(quern::passes::runPhases(*module, passOptions("native", "", without), "resolved", after)))
    return 1;
  return interpretMain(*module, interpret);
}
