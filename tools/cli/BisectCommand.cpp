// quern bisect: the first weight, pass, layer and operation whose numbers leave the spec's.
#include "ir/analysis/Options.h"
#include "passes/weights/WeightFormats.h"
#include "tools/bisect/Bisect.h"
#include "tools/cli/Commands.h"
#include "tools/spec/SpecOptions.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <iostream>

namespace po = boost::program_options;
using namespace quern::tools;

int quern::tools::bisectCommand(const Arguments &arguments) {
  SpecOptions spec;
  BisectOptions bisect;
  std::string target = "native", schedules;
  std::vector<std::string> without;
  bool json = false;
  po::options_description options("options");
  addSpecOptions(options, spec);
  addTrain(options, spec);
  addWithout(options, without);
  options.add_options()("weights", po::value(&bisect.files.weights), "safetensors file or folder")(
      "input", po::value(&bisect.files.input)->required(),
      "safetensors file with the function's parameters by name (short texts: every value is kept)")(
      "function", po::value(&bisect.files.function), "default: forward, or encode and decode")(
      "expected", po::value(&bisect.expected), "results that are known to be right, by name")(
      "reference-weights", po::value(&bisect.reference),
      "weights that are known to be right: names the first tensor that differs")(
      "tolerance", po::value(&bisect.tolerance),
      "of kernels and the program, relative to the largest number (default: 1e-4; where rows are rounded, +a8 or +a16, "
      "3e-2: a number near the middle of two may fall to either)")(
      "target", po::value(&target), "the machine to compile for")("schedules", po::value(&schedules),
                                                                  "a file of schedules")(
      "cache-dir", po::value(&bisect.compile.cache), "folder of compiled kernels")("json", po::bool_switch(&json),
                                                                                   "the answer as one JSON object");
  po::variables_map values;
  if (!parseOptions(arguments,
                    "quern bisect SPEC --weights W --input X [--expected Y] [--reference-weights R] [options]", options,
                    values))
    return 0;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, spec);
  if (!module)
    return 1;
  bisect.from = startOf(spec, "");
  if (!values.count("tolerance") && quern::passes::WeightFormats::of(quern::ir::optionsOf(*module)).roundsRows())
    bisect.tolerance = 3e-2;
  bisect.passes = passOptions(target, schedules, without);
  bisect.compile.spec = spec.spec;
  bisect.compile.target = codegen::cpuTarget(target);
  if (!bisect.compile.target.device.empty())
    throw std::runtime_error("bisect runs kernels one by one in its own process, on the processor; --target " + target +
                             " has none for that");
  bisect.compile.schedules = scheduleTable(schedules);
  Divergence found = quern::tools::bisect(*module, bisect);
  if (json) {
    nlohmann::json object = {{"stage", found.stage}, {"name", found.name},   {"layer", found.layer},
                             {"op", found.op},       {"place", found.place}, {"message", found.message}};
    object["difference"] =
        std::isfinite(found.difference) ? nlohmann::json(found.difference) : nlohmann::json("infinite");
    std::cout << object.dump() << "\n";
  } else {
    std::cout << found.message;
    if (!found.op.empty())
      std::cout << "first: " << found.op << (found.layer.empty() ? "" : " in " + found.layer) << ", " << found.place
                << "\n";
  }
  return found.stage == "none" ? 0 : 1;
}
