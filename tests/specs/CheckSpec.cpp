// Takes: a spec. Gives: a verdict on everything that the compiler makes of it: the module after each pass, whole and in
// pieces, and the compiled program, whole, in pieces and for the last rows alone.
// Why a second run with other weights: a choice (top_k, argmax, a > b) may hang on the last bit, and then no compiler
// can be blamed. What the interpreter's own result does when each weight moves by 1e-6 says how much may be asked.
#include "tests/specs/CheckSpec.h"

#include "frontend/Frontend.h"
#include "ir/Dialect.h"
#include "ir/reference/Interpreter.h"
#include "passes/Phases.h"
#include "tests/codegen/support/DrawnPlan.h"
#include "tests/specs/CompiledModule.h"

#include "codegen/PlanKernels.h"
#include "codegen/ReadKernel.h"
#include "codegen/schedule/ChoosePlan.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <numeric>
#include <sstream>

using namespace mlir;
using namespace quern::ir;
using namespace quern::test;

namespace {

constexpr double exact = 1e-9;   // between two interpretations
constexpr double rounded = 1e-4; // between the interpretation and a program in f32
constexpr double moved = 1e-6;   // how far weights are moved
constexpr double leverage = 30;  // times what the moved weights change

/// What went wrong, and at which stage.
struct Problem {
  Verdict verdict;
  std::string stage, message;
};

struct Sample {
  Interpreter::Inputs inputs; // of forward, or of decode without memory
  Interpreter::Inputs source; // of encode
  Array result, moved;        // by the reference interpreter
  bool plain = false;         // no optional input is given
};

class Checker {
public:
  Checker(const RandomSpec &spec, Choices &choices, const CheckOptions &options)
      : spec(spec), choices(choices), options(options), context(DialectRegistry(), MLIRContext::Threading::DISABLED),
        diagnostics(&context, [this](Diagnostic &diagnostic) { errors += diagnostic.str() + "; "; }) {}
  Outcome run();

private:
  void makeWeights();
  void makeSamples();
  void chooseWithout();
  void checkModule(const std::string &stage);
  void checkPieces(const std::string &stage);
  void checkProgram();
  std::vector<Array> evaluate(ModuleOp module, StringRef function, const Interpreter::Inputs &inputs, double shift = 0);
  Array evaluateAll(ModuleOp module, const Sample &sample, double shift = 0);
  Interpreter::ParameterLookup lookup(double shift) const;
  void compare(const Array &got, const Sample &sample, double tolerance, const std::string &stage);
  Array rowsOf(const Array &whole, int64_t begin, int64_t count) const;
  std::vector<int64_t> pieces(int64_t length);
  bool steps(StringRef function);

  const RandomSpec &spec;
  Choices &choices;
  const CheckOptions &options;
  MLIRContext context;
  std::string errors;
  ScopedDiagnosticHandler diagnostics;
  OwningOpRef<ModuleOp> reference, lowered;
  quern::passes::PassOptions passOptions;
  quern::codegen::CpuTarget cpu;
  quern::codegen::ScheduleTable schedules = quern::codegen::ScheduleTable::standard();
  Checkpoint weights;
  std::vector<Sample> samples;
  std::string main, time;
  Outcome outcome;
};

[[noreturn]] void fail(const std::string &stage, const std::string &message, Verdict verdict = Verdict::Different) {
  throw Problem{verdict, stage, message};
}

uint64_t mix(uint64_t x) {
  x ^= x >> 33, x *= 0xff51afd7ed558ccdu, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53u;
  return x ^ x >> 33;
}

// ---- weights and inputs

/// A number in [-0.4, 0.4) for each element, from the tensor's name.
void Checker::makeWeights() {
  reference->walk([&](ParamOp op) {
    for (unsigned iteration = 0; iteration < op.getIterations(); ++iteration)
      forEachStored(op, iteration, [&](ArrayRef<std::string> names, ArrayRef<int64_t> shape) {
        StoredNumbers &stored = weights[names.front()];
        if (!stored.numbers.empty())
          return;
        stored.shape.assign(shape.begin(), shape.end());
        int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
        uint64_t state = llvm::hash_value(names.front()) % 1000003;
        for (int64_t i = 0; i < count; ++i)
          stored.numbers.push_back(static_cast<float>((mix(state * 1000003 + i) >> 11) * 0x1p-53 * 0.8 - 0.4));
      });
  });
}

Interpreter::ParameterLookup Checker::lookup(double shift) const {
  return [this, shift](ArrayRef<std::string> names, ArrayRef<int64_t>) -> std::optional<std::vector<double>> {
    auto stored = weights.find(names.front());
    if (stored == weights.end())
      return std::nullopt;
    std::vector<double> numbers(stored->second.numbers.begin(), stored->second.numbers.end());
    for (size_t i = 0; shift != 0 && i < numbers.size(); ++i)
      numbers[i] *= 1 + (mix(i + 77) & 1 ? shift : -shift);
    return numbers;
  };
}

void Checker::makeSamples() {
  bool given = choices.chance(50);
  auto inputsOf = [&](func::FuncOp function, int64_t batch, int64_t length, int64_t other, Sample &sample) {
    Interpreter::Inputs inputs;
    DimAttr last = typeOf(function.getArgument(0)).getDims().back();
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      std::string name = argumentName(function, i).str();
      if (name == "memory" || (defaultOf(function, i) && !given))
        continue;
      sample.plain &= !defaultOf(function, i);
      NamedTensorType type = typeOf(function.getArgument(i));
      DimAttr first = typeOf(function.getArgument(0)).getDims().front();
      std::vector<NamedSize> dims;
      for (DimAttr dim : type.getDims())
        dims.push_back({dim.getName().str(), dim.getStatic().value_or(dim == last    ? length
                                                                      : dim == first ? batch
                                                                                     : other)});
      int64_t inner = dims.empty() ? 1 : dims.back().size, count = countOf(dims);
      if (type.isReal()) {
        std::vector<double> numbers;
        for (int64_t i = 0; i < count; ++i)
          numbers.push_back(static_cast<float>((mix(i * 7 + name.size() * 1009) >> 11) * 0x1p-53 * 2 - 1));
        inputs[name] = Array(dims, numbers);
        continue;
      }
      std::vector<int64_t> numbers;
      for (int64_t i = 0; i < count; ++i) {
        uint64_t random = mix(i / inner * 131 + i % inner * 7 + name.size() * 1009);
        numbers.push_back(name == "mask"        ? random % 4 != 0
                          : name == "segments"  ? static_cast<int64_t>(random % 2)
                          : name == "positions" ? (i % inner + i / inner) % spec.longest
                                                : static_cast<int64_t>(random % spec.vocabulary));
      }
      inputs[name] = Array(type.getKind(), dims, numbers);
    }
    return inputs;
  };
  auto encode = reference->lookupSymbol<func::FuncOp>("encode"), function = reference->lookupSymbol<func::FuncOp>(main);
  std::vector<std::pair<int64_t, int64_t>> shapes = {{2, choices.between(2, 9)},
                                                     {choices.between(1, 3), choices.between(1, 40)}};
  for (auto [batch, length] : shapes) {
    Sample sample;
    sample.plain = true;
    int64_t other = choices.between(1, 12);
    if (encode)
      sample.source = inputsOf(encode, batch, other, other, sample);
    sample.inputs = inputsOf(function, batch, length, other, sample);
    if (encode && sample.source.count("mask"))
      sample.inputs["mask"] = sample.source["mask"];
    sample.result = evaluateAll(*reference, sample);
    sample.moved = evaluateAll(*reference, sample, moved);
    samples.push_back(std::move(sample));
  }
}

void Checker::chooseWithout() {
  if (options.without != "random") {
    passOptions.without.add(options.without);
  } else if (choices.chance(60)) {
    unsigned percent = choices.chance(30) ? 60 : 15;
    for (const std::string &name : quern::passes::optionalNames())
      if (choices.chance(percent))
        passOptions.without.add(name);
  }
  outcome.without = passOptions.without.str();
  cpu = quern::codegen::cpuTarget(options.target);
  if (!options.schedules.empty())
    schedules.add(options.schedules, "schedules");
  passOptions.packing = quern::codegen::packingRule(schedules, cpu);
  passOptions.planning = [this](ModuleOp module) {
    if (options.plans)
      for (KernelOp kernel : module.getOps<KernelOp>())
        quern::codegen::setPlan(kernel, quern::codegen::drawnPlan(quern::codegen::readKernel(kernel), cpu, schedules,
                                                                  [&](size_t n) { return choices.between(0, n - 1); }));
    return quern::codegen::planKernels(module, {cpu, schedules});
  };
}

// ---- the interpreter

std::vector<Array> Checker::evaluate(ModuleOp module, StringRef function, const Interpreter::Inputs &inputs,
                                     double shift) {
  Interpreter interpreter(module);
  interpreter.setParameters(lookup(shift));
  auto results = interpreter.run(module.lookupSymbol<func::FuncOp>(function), inputs);
  if (failed(results))
    throw std::runtime_error("the interpreter fails: " + errors);
  return *results;
}

/// An encoder's result under the name that the decoder's argument has.
static Array asMemory(const Array &memory, func::FuncOp decode) {
  std::vector<NamedSize> dims = memory.getDims();
  for (unsigned i = 0; i < decode.getNumArguments(); ++i)
    if (argumentName(decode, i) == "memory")
      for (auto [dim, own] : llvm::zip(dims, typeOf(decode.getArgument(i)).getDims()))
        dim.name = own.getName().str();
  return memory.relabelled(dims);
}

Array Checker::evaluateAll(ModuleOp module, const Sample &sample, double shift) {
  Interpreter::Inputs inputs = sample.inputs;
  if (auto encode = module.lookupSymbol<func::FuncOp>("encode"))
    inputs["memory"] =
        asMemory(evaluate(module, "encode", sample.source, shift).front(), module.lookupSymbol<func::FuncOp>(main));
  return evaluate(module, main, inputs, shift).front();
}

/// The largest difference, relative to the largest number; infinite where one is NaN and the other is not.
static double differenceOf(const Array &got, const Array &want) {
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < want.getCount(); ++i) {
    double a = got.number(i), b = want.number(i);
    if (std::isnan(a) && std::isnan(b))
      continue;
    double gap = std::abs(a - b);
    worst = std::max(worst, std::isnan(gap) ? (a == b ? 0 : INFINITY) : gap);
    if (std::isfinite(b))
      largest = std::max(largest, std::abs(b));
  }
  return worst / std::max(largest, 1e-30);
}

void Checker::compare(const Array &got, const Sample &sample, double tolerance, const std::string &stage) {
  Array aligned = got.aligned(sample.result.getDims());
  double difference = differenceOf(aligned, sample.result);
  if (tolerance == rounded && std::isfinite(difference))
    outcome.worst = std::max(outcome.worst, difference);
  if (difference <= tolerance)
    return;
  double own = leverage * differenceOf(sample.moved, sample.result);
  fail(stage,
       llvm::formatv("differs by {0:e2} of the largest number at {1} (weights moved by {2:e0} change it by {3:e2})",
                     difference, describe(sample.result.getDims()), moved, own / leverage),
       difference <= own ? Verdict::Unstable : Verdict::Different);
}

void Checker::checkModule(const std::string &stage) {
  for (const Sample &sample : samples)
    compare(evaluateAll(*lowered, sample), sample, exact, stage);
}

// ---- in pieces

std::vector<int64_t> Checker::pieces(int64_t length) {
  std::vector<int64_t> lengths;
  bool single = choices.chance(30);
  while (length > 0) {
    lengths.push_back(single ? 1 : std::min<int64_t>(length, choices.between(1, 5)));
    length -= lengths.back();
  }
  return lengths;
}

/// True if the function in `lowered` works on new rows after old ones.
bool Checker::steps(StringRef name) {
  auto function = lowered->lookupSymbol<func::FuncOp>(name);
  if (!function || function->hasAttr("quern.refusal") || function->hasAttr("quern.recompute") ||
      lowered->lookupSymbol(main + ".epoch"))
    return false;
  std::string text;
  llvm::raw_string_ostream stream(text);
  function.print(stream);
  return text.find("past") != std::string::npos || lowered->lookupSymbol<func::FuncOp>(main + ".last") == function;
}

/// Rows begin .. begin + count - 1 along time, in the order [time, the rest]; all of `whole` if it has no time.
Array Checker::rowsOf(const Array &whole, int64_t begin, int64_t count) const {
  std::vector<NamedSize> dims = {{time, whole.sizeOf(time)}}, rest;
  for (const NamedSize &dim : whole.getDims())
    if (dim.name != time)
      rest.push_back(dim);
  dims.insert(dims.end(), rest.begin(), rest.end());
  Array ordered = whole.aligned(dims);
  int64_t width = countOf(rest);
  std::vector<double> numbers(ordered.reals() + begin * width, ordered.reals() + (begin + count) * width);
  dims[0].size = count;
  return Array(dims, numbers);
}

void Checker::checkPieces(const std::string &stage) {
  std::string last = main + ".last";
  for (const std::string &name : {main, last}) {
    auto function = lowered->lookupSymbol<func::FuncOp>(name);
    if (!steps(name))
      continue;
    for (const Sample &sample : samples) {
      if (name == last && !sample.plain)
        continue;
      Interpreter interpreter(*lowered);
      interpreter.setParameters(lookup(0));
      Interpreter::Inputs inputs = sample.inputs;
      if (lowered->lookupSymbol<func::FuncOp>("encode"))
        inputs["memory"] = asMemory(evaluate(*lowered, "encode", sample.source).front(), function);
      int64_t past = 0;
      for (int64_t length : pieces(sample.inputs.begin()->second.getDims()[0].size ? sample.result.sizeOf(time) : 0)) {
        Interpreter::Inputs some = inputs;
        for (auto &[input, array] : some)
          if (array.find(time) == 1)
            array = cutRows(array, past, length);
        interpreter.bind("past", past);
        auto results = interpreter.run(function, some);
        if (failed(results))
          fail(stage, "the interpreter fails at " + std::to_string(past) + ": " + errors);
        Sample want;
        bool rows = name == main;
        want.result = rowsOf(sample.result, rows ? past : past + length - 1, rows ? length : 1);
        want.moved = rowsOf(sample.moved, rows ? past : past + length - 1, rows ? length : 1);
        compare(results->front(), want, exact * 10, stage + ", " + name + " in pieces");
        past += length;
      }
    }
  }
}

// ---- the program

void Checker::checkProgram() {
  CompiledModule program(*lowered, weights, {cpu, schedules}, options.cache);
  outcome.kernels = program.kernels();
  auto dimsOf = [&](StringRef function, const Sample &sample, int64_t rows) {
    std::vector<NamedSize> dims;
    for (DimAttr dim :
         cast<NamedTensorType>(lowered->lookupSymbol<func::FuncOp>(function).getResultTypes()[0]).getDims()) {
      int at = sample.result.find(dim.getName());
      int64_t size = at >= 0 ? sample.result.getDims()[at].size : 0;
      dims.push_back({dim.getName().str(), dim.getName() == time && rows ? rows : size});
    }
    return dims;
  };
  for (const Sample &sample : samples) {
    Interpreter::Inputs inputs = sample.inputs;
    if (auto encode = lowered->lookupSymbol<func::FuncOp>("encode")) {
      Array memory = evaluate(*reference, "encode", sample.source).front();
      std::vector<NamedSize> dims;
      for (DimAttr dim : cast<NamedTensorType>(encode.getResultTypes()[0]).getDims())
        dims.push_back(memory.getDims()[memory.find(dim.getName())]);
      inputs["memory"] =
          asMemory(Array(dims, program.evaluate("encode", sample.source)), lowered->lookupSymbol<func::FuncOp>(main));
    }
    compare(Array(dimsOf(main, sample, 0), program.evaluate(main, inputs)), sample, rounded, "compiled");
    for (const std::string &name : {main, main + ".last"}) {
      bool rows = name == main;
      if (!steps(name) || (!rows && !sample.plain))
        continue;
      std::vector<int64_t> lengths = pieces(sample.result.sizeOf(time));
      std::vector<std::vector<double>> results = program.evaluateSteps(name, inputs, time, lengths);
      int64_t past = 0;
      for (auto [length, result] : llvm::zip(lengths, results)) {
        Sample want;
        want.result = rowsOf(sample.result, rows ? past : past + length - 1, rows ? length : 1);
        want.moved = rowsOf(sample.moved, rows ? past : past + length - 1, rows ? length : 1);
        compare(Array(dimsOf(name, sample, length), result), want, rounded, "compiled, " + name + " in pieces");
        past += length;
      }
    }
  }
}

Outcome Checker::run() {
  quern::frontend::SpecInput input;
  input.name = "random.quern";
  input.text = spec.text;
  if (!spec.config.empty())
    input.configText = spec.config;
  for (const std::string &setting : spec.settings)
    input.settings.push_back(*quern::frontend::parseSetting(setting));
  quern::frontend::Diagnostics messages;
  reference = quern::frontend::elaborate(context, input, messages);
  if (!reference || messages.hasErrors()) {
    std::ostringstream text;
    messages.print(text);
    outcome.verdict = Verdict::Refused;
    outcome.message = text.str();
    return outcome;
  }
  std::string stage = "resolved";
  try {
    main = reference->lookupSymbol("forward") ? "forward" : "decode";
    time = typeOf(reference->lookupSymbol<func::FuncOp>(main).getArgument(0)).getDims().back().getName().str();
    makeWeights();
    makeSamples();
    chooseWithout();
    lowered = reference->clone();
    stage = "passes";
    auto after = [&](StringRef pass, ModuleOp, double) { checkModule(stage = "after " + pass.str()); };
    if (failed(quern::passes::runPhases(*lowered, passOptions, "resolved", "", after)))
      fail(stage, "the next pass fails: " + errors);
    outcome.causal = steps(main) || steps(main + ".last");
    checkPieces(stage);
    stage = "compiled";
    if (options.compile)
      checkProgram();
  } catch (const Problem &problem) {
    outcome.verdict = problem.verdict;
    outcome.stage = problem.stage;
    outcome.message = problem.message;
  } catch (const std::exception &error) {
    outcome.verdict = Verdict::Different;
    outcome.stage = stage;
    outcome.message = error.what();
  }
  return outcome;
}

} // namespace

const char *const quern::test::smallTiles = "contract vector > 0 : rows 2, columns 16, unroll 1, row_block 4\n"
                                            "contract vector = 4 : columns 8\n"
                                            "attention vector = 16 : rows 16, step 4, keys 16, split 16\n"
                                            "attention vector = 8 : rows 8, step 4, keys 16, split 16\n"
                                            "attention vector = 4 : rows 4, step 4, keys 8, split 8\n"
                                            "row vector > 0 : lanes 16, work 256\n"
                                            "map vector > 0 : work 256\n";

Outcome quern::test::checkSpec(const RandomSpec &spec, Choices &choices, const CheckOptions &options) {
  return Checker(spec, choices, options).run();
}
