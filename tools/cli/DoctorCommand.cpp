// quern doctor: a checklist for a spec, a line a check: ok, or what is wrong, where, and what to do.
#include "ir/Attributes.h"
#include "passes/Phases.h"
#include "tools/cli/Commands.h"
#include "tools/doctor/Doctor.h"
#include "tools/interpret/InterpretDiagnostics.h"
#include "tools/interpret/InterpretSafetensors.h"
#include "tools/spec/SpecOptions.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <iostream>

namespace po = boost::program_options;
using namespace quern::tools;

/// Beyond it the interpreter takes minutes.
static constexpr int64_t mostNumbers = 3'000'000;

static int64_t countParameters(mlir::ModuleOp module) {
  std::map<std::string, int64_t> counts;
  module.walk([&](quern::ir::ParamOp op) {
    for (unsigned iteration = 0; iteration < op.getIterations(); ++iteration)
      quern::ir::forEachStored(op, iteration, [&](llvm::ArrayRef<std::string> names, llvm::ArrayRef<int64_t> shape) {
        int64_t count = 1;
        for (int64_t size : shape)
          count *= size;
        counts[names.front()] = count;
      });
  });
  int64_t total = 0;
  for (const auto &[name, count] : counts)
    total += count;
  return total;
}

/// As the frontend chooses (DefaultLoss): a spec's own loss, else scores of a vocabulary for each position.
static bool canTrain(mlir::ModuleOp module) {
  if (module.lookupSymbol("loss"))
    return true;
  for (const char *name : {"forward", "decode"})
    if (auto function = module.lookupSymbol<mlir::func::FuncOp>(name)) {
      const int scored = quern::ir::scoredResult(function);
      if (scored < 0)
        return false;
      auto result = mlir::cast<quern::ir::NamedTensorType>(function.getResultTypes()[scored]);
      return function.getNumArguments() && quern::ir::typeOf(function.getArgument(0)).getRank() == 2 &&
             result.getRank() == 3 && result.isReal();
    }
  return false;
}

/// Inputs by name for the module's functions; a wrong number of dimensions is an error.
static quern::ir::Interpreter::Inputs inputsFrom(const std::string &path, mlir::ModuleOp module) {
  using namespace quern::ir;
  Interpreter::Inputs inputs;
  SafetensorsFiles files(path);
  for (const auto &[name, tensor] : files.getTensors()) {
    NamedTensorType type;
    for (auto function : module.getOps<mlir::func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (argumentName(function, i) == name && (!type || function.getName() == "loss"))
          type = typeOf(function.getArgument(i));
    if (!type)
      throw std::runtime_error(path + ": no function takes an input '" + name + "'");
    if (type.getRank() != tensor.shape.size())
      throw std::runtime_error(path + ": '" + name + "' has " + std::to_string(tensor.shape.size()) +
                               " dimensions, not " + std::to_string(type.getRank()));
    std::vector<NamedSize> dims;
    for (auto [dim, size] : llvm::zip(type.getDims(), tensor.shape))
      dims.push_back({dim.getName().str(), size});
    inputs[name] = type.isReal() ? Array(dims, tensor.asDoubles()) : Array(type.getKind(), dims, tensor.asInts());
  }
  return inputs;
}

static std::optional<Finding> brokenWeights(const SafetensorsFiles &files) {
  for (const auto &[name, tensor] : files.getTensors())
    if (tensor.isFloat())
      for (double number : tensor.asDoubles())
        if (!std::isfinite(number))
          return Finding{Finding::Grade::Wrong, "weights",
                         "'" + name + "' holds a number that is NaN or infinite; take an earlier checkpoint", ""};
  return std::nullopt;
}

/// Prints the findings; how many are wrong.
static size_t report(const Findings &findings, bool brief) {
  size_t wrong = 0;
  for (const Finding &finding : findings) {
    bool isWrong = finding.grade == Finding::Grade::Wrong;
    wrong += isWrong;
    if (brief && !isWrong)
      continue;
    llvm::StringRef mark = isWrong ? "WRONG" : finding.grade == Finding::Grade::Ok ? "ok" : "-";
    std::cout << llvm::formatv("{0,-6} {1,-15} {2}\n", mark, finding.check, llvm::StringRef(finding.text).rtrim()).str()
              << finding.details;
  }
  std::cout.flush(); // a long check follows
  return wrong;
}

int quern::tools::doctorCommand(const Arguments &arguments) {
  SpecOptions spec;
  DoctorOptions options;
  std::string weights, input;
  bool brief = false;
  po::options_description description("options");
  addSpecOptions(description, spec);
  description.add_options()("weights", po::value(&weights), "a checkpoint (default: the spec's initial values, ~)")(
      "input", po::value(&input), "inputs by name, safetensors or JSON (default: a made-up batch)")(
      "batch", po::value(&options.batch), "rows of the made-up batch (default: 2)")(
      "length", po::value(&options.length), "its positions (default: 8)")("seed", po::value(&options.seed),
                                                                          "of the initial values (default: 0)")(
      "steps", po::value(&options.steps),
      "most steps to memorise the batch (default: 150)")("quiet,q", po::bool_switch(&brief), "only what is wrong");
  po::variables_map values;
  if (!parseOptions(arguments, "quern doctor SPEC [--config FILE] [--set NAME=VALUE] [--weights W] [options]",
                    description, values))
    return 0;
  if (options.batch < 1 || options.length < 2 || options.steps < 1)
    throw std::runtime_error("--batch and --steps are at least 1, --length at least 2");
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> untrained = readModule(context, spec);
  if (!untrained)
    return 1;
  bool ownLoss = untrained->lookupSymbol("loss");
  spec.train = canTrain(*untrained);
  spec.warnings = false;
  int64_t count = countParameters(*untrained);
  if (count > mostNumbers)
    throw std::runtime_error(llvm::formatv("{0} parameters are too many for the interpreter: give a small shape of the "
                                           "same spec, at most {1}, with --set or --config",
                                           count, mostNumbers));
  std::vector<quern::frontend::NamedValue> names;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, spec, &names);
  if (!module)
    return 1;
  std::optional<SafetensorsFiles> files;
  if (!weights.empty()) {
    files.emplace(weights);
    options.weights = [&](llvm::ArrayRef<std::string> alternatives,
                          llvm::ArrayRef<int64_t> shape) -> std::optional<std::vector<double>> {
      for (const std::string &name : alternatives)
        if (const StoredTensor *tensor = files->find(name); tensor && llvm::ArrayRef<int64_t>(tensor->shape) == shape)
          return tensor->asDoubles();
      return std::nullopt;
    };
  }
  if (!input.empty())
    options.inputs = inputsFrom(input, *module);
  SpecDiagnostics diagnostics(&context);
  Patient patient(*module, std::move(names), ownLoss, options);
  Findings first = {{Finding::Grade::Ok, "spec",
                     llvm::formatv("{0}, {1} parameters{2}",
                                   llvm::cast<mlir::StringAttr>((*module)->getAttr(quern::ir::modelAttr)).getValue(),
                                   count, weights.empty() ? ", initialised as the spec says" : "")
                         .str(),
                     ""}};
  for (const std::string &misfit : patient.misfits)
    first.push_back({Finding::Grade::Wrong, "weights", misfit, ""});
  if (files)
    if (std::optional<Finding> broken = brokenWeights(*files))
      first.push_back(*broken);
  size_t wrong = report(first, brief);
  if (!patient.misfits.empty())
    return 1;
  wrong += report(checkValues(patient), brief);
  wrong += report(checkMasking(patient), brief);
  if (spec.train) {
    mlir::OwningOpRef<mlir::ModuleOp> differentiated = module->clone();
    if (mlir::failed(quern::passes::runPhases(*differentiated, passOptions("native"), "resolved", "differentiated")))
      return 1;
    wrong += report(checkTraining(patient, *differentiated), brief);
  } else {
    wrong += report({{Finding::Grade::Note, "training",
                      "the spec has no loss, and no function that scores a vocabulary for each position", ""}},
                    brief);
  }
  if (wrong)
    std::cout << llvm::formatv("{0} {1} wrong\n", wrong, wrong == 1 ? "thing is" : "things are").str();
  return wrong ? 1 : 0;
}
