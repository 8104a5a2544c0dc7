// Takes: a module with @loss.grad. Gives: for each stored tensor, how far its gradient is from differences of the loss.
// Why directions: all elements of a tensor change at once, by random signs, so that one wrong element shows, and a
// tensor costs a few evaluations whatever its size. Why several steps: a large one crosses the kinks of relu and max, a
// small one drowns in rounding; the best one counts.
#include "tools/interpret/GradCheck.h"

#include "ir/Attributes.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;

namespace {

using Numbers = std::vector<double>;

class Checker {
public:
  Checker(ModuleOp module, const GradCheckOptions &options) : module(module), options(options), interpreter(module) {}
  FailureOr<std::vector<GradientError>> run();

private:
  LogicalResult collectParameters();
  FailureOr<double> lossAt(const std::string &name, const Numbers &direction, double step);
  FailureOr<double> along(const std::string &name, const Numbers &direction, double step);
  FailureOr<double> errorAlong(const StoredGradient &gradient, const Numbers &direction, double typical);

  ModuleOp module;
  const GradCheckOptions &options;
  Interpreter interpreter;
  func::FuncOp gradient, loss;
  Interpreter::Inputs inputs;
  std::map<std::string, Numbers> values; // by the preferred name
};

} // namespace

/// Numbers that look random and depend on the name alone; a matrix's shrink with its rows, so that sums stay near 1.
static Numbers madeUp(ParamOp op, const std::string &name, ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  bool ones = op.getInitAttr() && op.getInitAttr().getDistribution() == "ones";
  double scale = shape.size() < 2 ? 0.3 : 1 / std::sqrt(static_cast<double>(shape.back()));
  std::mt19937_64 generator(std::hash<std::string>()(name));
  std::normal_distribution<double> normal(ones ? 1 : 0, scale);
  Numbers numbers(count);
  for (double &number : numbers)
    number = normal(generator);
  return numbers;
}

LogicalResult Checker::collectParameters() {
  LogicalResult status = success();
  gradient.walk([&](ParamOp op) {
    for (unsigned iteration = 0; iteration < op.getIterations(); ++iteration)
      forEachStored(op, iteration, [&](ArrayRef<std::string> names, ArrayRef<int64_t> shape) {
        auto [entry, fresh] = values.try_emplace(names.front());
        if (!fresh)
          return;
        const bool made =
            !options.parameters || op->hasAttr(adapterAttr); // B would be zeros, of which A has no gradient
        std::optional<Numbers> given = made ? madeUp(op, names.front(), shape) : options.parameters(names, shape);
        if (!given)
          status = op.emitError("Q042: the parameters have no '") << names.front() << "' of this shape";
        else
          entry->second = std::move(*given);
      });
  });
  interpreter.setParameters([&](ArrayRef<std::string> names, ArrayRef<int64_t>) -> std::optional<Numbers> {
    return values.at(names.front());
  });
  return status;
}

FailureOr<double> Checker::lossAt(const std::string &name, const Numbers &direction, double step) {
  Numbers &numbers = values.at(name), before = numbers;
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] += step * direction[i];
  FailureOr<std::vector<Array>> results = interpreter.run(loss, inputs);
  numbers = std::move(before);
  if (failed(results))
    return failure();
  return results->at(0).reals()[0];
}

/// The derivative of the loss along `direction` by fourth-order central differences.
FailureOr<double> Checker::along(const std::string &name, const Numbers &direction, double step) {
  double total = 0;
  for (auto [place, weight] :
       {std::pair(2.0, -1.0), std::pair(1.0, 8.0), std::pair(-1.0, -8.0), std::pair(-2.0, 1.0)}) {
    FailureOr<double> value = lossAt(name, direction, place * step);
    if (failed(value))
      return failure();
    total += weight * *value;
  }
  return total / (12 * step);
}

FailureOr<double> Checker::errorAlong(const StoredGradient &gradient, const Numbers &direction, double typical) {
  double expected = 0, best = INFINITY;
  for (size_t i = 0; i < direction.size(); ++i)
    expected += gradient.numbers[i] * direction[i];
  for (double step : {1e-2, 1e-3, 1e-4, 1e-5, 1e-6}) {
    FailureOr<double> measured = along(gradient.names.front(), direction, step);
    if (failed(measured))
      return failure();
    best = std::min(best,
                    std::fabs(*measured - expected) / std::max({std::fabs(expected), std::fabs(*measured), typical}));
    if (best < 1e-7)
      break;
  }
  return best;
}

FailureOr<std::vector<GradientError>> Checker::run() {
  gradient = module.lookupSymbol<func::FuncOp>("loss.grad");
  loss = module.lookupSymbol<func::FuncOp>("loss");
  if (!gradient || !loss)
    return module.emitError("there is no @loss.grad to check");
  if (failed(collectParameters()))
    return failure();
  inputs = madeUpInputs(loss, options.inputs, options.batch, options.length);
  FailureOr<std::vector<Array>> results = interpreter.run(gradient, inputs);
  if (failed(results))
    return failure();
  std::vector<StoredGradient> gradients = storedGradients(gradient, *results);
  auto rootMeanSquare = [](const Numbers &numbers) {
    double sum = 0;
    for (double number : numbers)
      sum += number * number;
    return numbers.empty() ? 0 : std::sqrt(sum / static_cast<double>(numbers.size()));
  };
  double largest = 0; // what is exactly zero (a key's bias) is compared on the scale of the others
  for (const StoredGradient &stored : gradients)
    largest = std::max(largest, rootMeanSquare(stored.numbers));
  std::vector<GradientError> errors;
  for (const StoredGradient &stored : gradients) {
    GradientError worst{stored.names.front(), 0};
    double typical = std::max(rootMeanSquare(stored.numbers), 1e-4 * largest);
    size_t count = stored.numbers.size(), peak = 0;
    for (size_t i = 0; i < count; ++i)
      if (std::fabs(stored.numbers[i]) > std::fabs(stored.numbers[peak]))
        peak = i;
    std::mt19937_64 generator(std::hash<std::string>()(worst.name) + 1);
    for (int d = 0; d <= options.directions && count; ++d) {
      Numbers direction(count, 0);
      if (d == options.directions)
        direction[peak] = 1;
      else
        for (double &number : direction)
          number = (generator() & 1 ? 1 : -1) / std::sqrt(static_cast<double>(count));
      FailureOr<double> error = errorAlong(stored, direction, typical);
      if (failed(error))
        return failure();
      worst.error = std::max(worst.error, *error);
    }
    errors.push_back(worst);
  }
  return errors;
}

FailureOr<std::vector<GradientError>> quern::tools::checkGradients(ModuleOp module, const GradCheckOptions &options) {
  return Checker(module, options).run();
}
