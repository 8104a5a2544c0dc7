// Takes: a module at `resolved`, weights or the spec's initial values. Gives: a patient whose functions can be run with
// inputs made up.
#include "tools/doctor/Doctor.h"

#include "tools/interpret/InitialValues.h"
#include "tools/interpret/InterpretDiagnostics.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;

std::string quern::tools::wrongAt(Location where, const std::string &message, const std::string &fix) {
  std::string text = describeAt(where, "wrong", message);
  return text + (fix.empty() ? "" : "  fix: " + fix + "\n");
}

Patient::Patient(ModuleOp module, std::vector<frontend::NamedValue> names, bool ownLoss, const DoctorOptions &options)
    : module(module), names(std::move(names)), ownLoss(ownLoss), options(options) {
  for (auto function : module.getOps<func::FuncOp>())
    parameters.merge(initialValues(function, options.seed));
  if (!options.weights)
    return;
  std::set<std::string> seen;
  module.walk([&](ParamOp op) {
    for (unsigned iteration = 0; iteration < op.getIterations(); ++iteration)
      forEachStored(op, iteration, [&](ArrayRef<std::string> alternatives, ArrayRef<int64_t> shape) {
        if (!seen.insert(alternatives.front()).second)
          return;
        if (auto given = options.weights(alternatives, shape))
          parameters[alternatives.front()] = std::move(*given);
        else
          misfits.push_back(
              wrongAt(op.getLoc(), "the weights have no '" + alternatives.front() + "' of this shape",
                      "give the weights of this spec and this config (quern interpret reports how they differ)"));
      });
  });
}

SmallVector<func::FuncOp> Patient::functionsToRun() const {
  if (func::FuncOp loss = get("loss"))
    return {loss};
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.getName().contains('.')) // defaults of inputs have a dot
      functions.push_back(function);
  return functions;
}

Interpreter::Inputs Patient::inputsOf(func::FuncOp function) const {
  Interpreter::Inputs given;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto input = options.inputs.find(argumentName(function, i).str()); input != options.inputs.end())
      given.insert(*input);
  size_t fromOutside = given.size();
  Interpreter::Inputs inputs = madeUpInputs(function, std::move(given), options.batch, options.length);
  // The first token of each row is its own, so that no label depends on what cannot be seen.
  std::string text = argumentName(function, 0).str();
  auto tokens = inputs.find(text);
  if (fromOutside || tokens == inputs.end() || tokens->second.getKind() != Kind::Int ||
      tokens->second.getDims().size() != 2)
    return inputs;
  const Array &old = tokens->second;
  int64_t rows = old.getDims()[0].size, width = old.getDims()[1].size,
          below = positionsBelow(function, function.getArgument(0));
  std::vector<int64_t> numbers(old.ints(), old.ints() + old.getCount());
  for (int64_t r = 0; r < rows; ++r)
    numbers[r * width] = r % below;
  inputs[text] = Array(Kind::Int, old.getDims(), std::move(numbers));
  return inputs;
}

FailureOr<std::vector<Array>> Patient::run(func::FuncOp function, const Interpreter::Inputs &inputs,
                                           Interpreter::Observer observer) const {
  Interpreter interpreter(module);
  interpreter.setParameters(
      [&](ArrayRef<std::string> alternatives, ArrayRef<int64_t>) -> std::optional<std::vector<double>> {
        return parameters.at(alternatives.front());
      });
  if (observer)
    interpreter.setObserver(std::move(observer));
  return interpreter.run(function, inputs);
}
