// quern gradcheck: every parameter's gradient against central differences in the double-precision interpreter.
#include "passes/Phases.h"
#include "tools/cli/Commands.h"
#include "tools/interpret/GradCheck.h"
#include "tools/interpret/InterpretDiagnostics.h"
#include "tools/interpret/InterpretSafetensors.h"
#include "tools/spec/SpecOptions.h"

#include "llvm/Support/FormatVariadic.h"

#include <iostream>

namespace po = boost::program_options;
using namespace quern::tools;

int quern::tools::gradcheckCommand(const Arguments &arguments) {
  SpecOptions spec;
  spec.train = true;
  GradCheckOptions check;
  std::string weights;
  double limit = 1e-6;
  bool quiet = false;
  po::options_description options("options");
  addSpecOptions(options, spec);
  addLora(options, spec);
  options.add_options()("weights", po::value(&weights),
                        "safetensors file or folder (default: made-up numbers, as adapters have in any case)")(
      "batch", po::value(&check.batch), "rows of the made-up text (default: 2)")("length", po::value(&check.length),
                                                                                 "its positions (default: 5)")(
      "directions", po::value(&check.directions), "random directions for each tensor (default: 2)")(
      "limit", po::value(&limit),
      "the largest relative error allowed (default: 1e-6)")("quiet,q", po::bool_switch(&quiet), "only the worst");
  po::variables_map values;
  if (!parseOptions(arguments, "quern gradcheck SPEC [--config FILE] [--set NAME=VALUE] [options]", options, values))
    return 0;
  if (check.batch < 1 || check.length < 1 || check.directions < 1)
    throw std::runtime_error("--batch, --length and --directions are at least 1");
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, spec);
  if (!module)
    return 1;
  SpecDiagnostics diagnostics(&context);
  if (mlir::failed(quern::passes::runPhases(*module, passOptions("native"), "resolved", "differentiated")))
    return 1;
  std::unique_ptr<SafetensorsFiles> files;
  if (!weights.empty()) {
    files = std::make_unique<SafetensorsFiles>(weights);
    check.parameters = [&](llvm::ArrayRef<std::string> names,
                           llvm::ArrayRef<int64_t> shape) -> std::optional<std::vector<double>> {
      for (const std::string &name : names)
        if (const StoredTensor *tensor = files->find(name); tensor && llvm::ArrayRef<int64_t>(tensor->shape) == shape)
          return tensor->asDoubles();
      return std::nullopt;
    };
  }
  llvm::FailureOr<std::vector<GradientError>> errors = checkGradients(*module, check);
  if (mlir::failed(errors))
    return 1;
  if (errors->empty())
    throw std::runtime_error("the model has no parameters");
  const GradientError *worst = &errors->front();
  bool good = true;
  for (const GradientError &error : *errors) {
    good &= error.error < limit; // false for NaN, too
    if (!(error.error <= worst->error))
      worst = &error;
    if (!quiet)
      std::cout << llvm::formatv("{0,-10:e1} {1}\n", error.error, error.name).str();
  }
  std::cout << llvm::formatv("{0} tensors, largest error {1:e1} ({2}): {3}\n", errors->size(), worst->error,
                             worst->name, good ? "gradients agree" : "above the limit")
                   .str();
  return good ? 0 : 1;
}
