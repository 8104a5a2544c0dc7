// The helpers of Support.h. Results of steps are put together along T, so that they compare with a whole run.
#include "Support.h"

#include "mlir/Transforms/Passes.h"

#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes::test;

Program::Program() : context(DialectRegistry(), MLIRContext::Threading::DISABLED) {
  context.loadDialect<QuernDialect, func::FuncDialect>();
}

Program::Program(StringRef text) : Program() {
  owned = parseSourceString<ModuleOp>(text, &context);
}

static std::string textOf(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file.good()) << "cannot read " << path;
  return text.str();
}

static OwningOpRef<ModuleOp> elaborated(MLIRContext &context, quern::frontend::SpecInput input,
                                        const std::vector<std::string> &settings) {
  for (const std::string &setting : settings)
    input.settings.push_back(*quern::frontend::parseSetting(setting));
  quern::frontend::Diagnostics diagnostics;
  OwningOpRef<ModuleOp> module = quern::frontend::elaborate(context, input, diagnostics);
  EXPECT_TRUE(module) << input.name << " does not elaborate";
  return module;
}

Program::Program(const std::string &specPath, const std::string &configPath, const std::vector<std::string> &settings)
    : Program() {
  quern::frontend::SpecInput input;
  input.name = specPath.substr(specPath.rfind('/') + 1);
  input.text = textOf(specPath);
  if (!configPath.empty())
    input.configText = textOf(configPath);
  owned = elaborated(context, input, settings);
}

std::unique_ptr<Program> Program::fromSpec(const std::string &text, const std::vector<std::string> &settings) {
  std::unique_ptr<Program> program(new Program());
  quern::frontend::SpecInput input;
  input.name = "test.quern";
  input.text = text;
  program->owned = elaborated(program->context, input, settings);
  return program;
}

void Program::run(std::vector<std::unique_ptr<Pass>> passes) {
  PassManager manager(&context);
  for (std::unique_ptr<Pass> &pass : passes)
    manager.addPass(std::move(pass));
  EXPECT_TRUE(succeeded(manager.run(*owned)));
  EXPECT_TRUE(succeeded(verify(*owned)));
}

void Program::roll() {
  std::vector<std::unique_ptr<Pass>> passes;
  passes.push_back(createRollRepeatsPass());
  run(std::move(passes));
}

void Program::lower() {
  std::vector<std::unique_ptr<Pass>> passes;
  passes.push_back(createRollRepeatsPass());
  passes.push_back(createCanonicalizerPass());
  passes.push_back(createCSEPass());
  passes.push_back(createRaiseSoftmaxPass());
  passes.push_back(createIncrementalPass());
  passes.push_back(createAbsorbProjectionsPass());
  passes.push_back(createSinkGathersPass());
  passes.push_back(createCanonicalizerPass());
  passes.push_back(createCSEPass());
  run(std::move(passes));
}

std::string Program::print() {
  std::string text;
  llvm::raw_string_ostream out(text);
  owned->print(out);
  return text;
}

std::vector<double> quern::passes::test::madeUp(StringRef name, int64_t count, double scale) {
  uint64_t state = 1469598103934665603u;
  for (char c : name)
    state = (state ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::vector<double> numbers(count);
  for (double &number : numbers) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    number = scale * (static_cast<double>(state >> 11) / (1ull << 52) - 1);
  }
  return numbers;
}

static void makeUpWeights(Interpreter &interpreter) {
  interpreter.setParameters([](ArrayRef<std::string> names, ArrayRef<int64_t> shape) {
    int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
    return std::optional(madeUp(names.front(), count, 0.4));
  });
}

static std::vector<double> numbersOf(const Array &array) {
  std::vector<double> numbers(array.getCount());
  for (int64_t i = 0; i < array.getCount(); ++i)
    numbers[i] = array.number(i);
  return numbers;
}

std::vector<double> Program::evaluate(StringRef name, const Inputs &inputs) {
  Interpreter interpreter(*owned);
  makeUpWeights(interpreter);
  FailureOr<std::vector<Array>> results = interpreter.run(function(name), inputs);
  EXPECT_TRUE(succeeded(results)) << name.str();
  return succeeded(results) ? numbersOf(results->front()) : std::vector<double>();
}

/// Positions begin .. begin + count - 1 of the last dimension of [B, T].
static Array slice(const Array &x, int64_t begin, int64_t count) {
  int64_t rows = x.getDims()[0].size, length = x.getDims()[1].size;
  std::vector<int64_t> numbers;
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t t = begin; t < begin + count; ++t)
      numbers.push_back(x.ints()[b * length + t]);
  return Array(x.getKind(), {x.getDims()[0], {x.getDims()[1].name, count}}, numbers);
}

std::vector<double> Program::evaluateSteps(StringRef name, const Inputs &inputs, ArrayRef<int64_t> lengths) {
  func::FuncOp target = function(name);
  std::string time = typeOf(target.getArgument(0)).getDims().back().getName().str();
  Interpreter interpreter(*owned);
  makeUpWeights(interpreter);
  int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t(0)), past = 0;
  std::vector<double> whole;
  for (int64_t length : lengths) {
    Inputs some = inputs;
    for (auto &[input, array] : some)
      if (array.find(time) == 1)
        array = slice(array, past, length);
    interpreter.bind("past", past);
    FailureOr<std::vector<Array>> results = interpreter.run(target, some);
    EXPECT_TRUE(succeeded(results)) << name.str() << " at " << past;
    if (failed(results))
      return {};
    const Array &rows = results->front();
    if (rows.find(time) < 0) { // the last row of each piece
      std::vector<double> last = numbersOf(rows);
      whole.insert(whole.end(), last.begin(), last.end());
    } else {
      // [B, T, ...]: this piece's rows into their places.
      int64_t batch = rows.getDims()[0].size, width = rows.getCount() / batch / length;
      whole.resize(batch * total * width);
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t i = 0; i < length * width; ++i)
          whole[(b * total + past) * width + i] = rows.number(b * length * width + i);
    }
    past += length;
  }
  return whole;
}

Program::Inputs quern::passes::test::inputsFor(func::FuncOp function, int64_t batch, int64_t time, int64_t length,
                                               int64_t below) {
  Program::Inputs inputs;
  NamedTensorType text = typeOf(function.getArgument(0));
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (defaultOf(function, i))
      continue;
    NamedTensorType type = typeOf(function.getArgument(i));
    std::vector<NamedSize> dims;
    for (DimAttr dim : type.getDims()) {
      int64_t size = dim.getStatic().value_or(dim == text.getDims().front()  ? batch
                                              : dim == text.getDims().back() ? time
                                                                             : length);
      dims.push_back({dim.getName().str(), size});
    }
    std::string name = argumentName(function, i).str();
    std::vector<double> numbers = madeUp(name, countOf(dims), 1);
    if (type.isReal()) {
      inputs[name] = Array(dims, numbers);
      continue;
    }
    std::vector<int64_t> whole;
    for (double number : numbers)
      whole.push_back(static_cast<int64_t>(std::abs(number) * below) % below);
    inputs[name] = Array(type.getKind(), dims, whole);
  }
  return inputs;
}

double quern::passes::test::difference(const std::vector<double> &a, const std::vector<double> &b) {
  if (a.size() != b.size() || a.empty())
    return std::numeric_limits<double>::infinity();
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i]))
      return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(a[i]));
  }
  return worst / std::max(largest, 1e-300);
}
