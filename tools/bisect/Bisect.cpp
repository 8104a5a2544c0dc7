// Takes: a module in phase `resolved`, weights, inputs. Gives: the first weight, pass or kernel whose numbers differ,
// and in it the layer, the operation and its line. How an operation is found after a pass: values of the module before
// are known by the place in the spec that they come from. A value that equals none of its place is suspect; a chain of
// suspects that reaches a wrong result is the trail, and where it begins is the fault. (A suspect whose users are all
// well is only a value that the pass computes in another way; so is one that joins known values.)
#include "tools/bisect/Bisect.h"

#include "codegen/HostLibrary.h"
#include "codegen/link/Link.h"
#include "ir/analysis/Options.h"
#include "passes/weights/WeightFormats.h"
#include "support/TemporaryFolder.h"
#include "tools/bisect/Trace.h"
#include "tools/interpret/InterpretSafetensors.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;

namespace {

class Bisector {
public:
  Bisector(ModuleOp module, const BisectOptions &options) : module(module), options(options) {
    const ProgramOptions asked = optionsOf(module);
    mayRound = quern::passes::WeightFormats::of(asked).narrows() || asked.caches != Storage::F32;
  }
  Divergence run();

private:
  bool checkSpec();
  bool checkWeights();
  bool checkPasses();
  bool checkKernels();
  bool checkProgram();
  double worstResult(const std::map<std::string, Array> &got, double tolerance, std::string &which) const;
  void locate(const Trace &before, const Trace &after);
  void describe(const Step &step);

  ModuleOp module;
  const BisectOptions &options;
  Trace reference;     ///< of the spec, or of the module that a pass has rounded
  std::string rounded; ///< which passes did, a line each
  bool mayRound;       ///< the program's options ask for fewer bits
  Divergence found;
};

std::string percent(double difference) {
  return llvm::formatv("{0:e2} of the largest number", difference).str();
}

/// The results' largest difference from the reference, and where.
double Bisector::worstResult(const std::map<std::string, Array> &got, double tolerance, std::string &which) const {
  double worst = 0;
  for (const auto &[name, want] : reference.results) {
    auto result = got.find(name);
    double difference = result == got.end() ? INFINITY : differenceOf(result->second, want);
    if (difference <= worst)
      continue;
    worst = difference;
    which = "'" + name + "'" +
            (result == got.end() ? " is missing" : " " + firstDifference(result->second, want, tolerance));
  }
  return worst;
}

/// Names the operation of a step.
void Bisector::describe(const Step &step) {
  found.op = step.op->getName().getStringRef().str();
  found.place = placeOf(step.op->getLoc());
  found.layer = layerOf(step.launch ? step.launch : step.op, step.iteration);
  if (auto kernel = step.op->getParentOfType<KernelOp>())
    found.op += " in kernel @" + kernel.getName().str();
}

// ---- the spec itself

/// Compares the interpreter with numbers from elsewhere, and looks for the first operation that makes NaN of numbers.
bool Bisector::checkSpec() {
  reference = traceOf(module, options.files, false);
  if (!reference.error.empty())
    throw std::runtime_error("the spec cannot be interpreted: " + reference.error);
  bool wrong = false;
  if (!options.expected.empty()) {
    SafetensorsFiles expected(options.expected);
    for (const auto &[name, result] : reference.results) {
      const StoredTensor *stored = expected.find(name);
      if (!stored)
        continue;
      std::vector<NamedSize> dims = result.getDims();
      if (stored->count != result.getCount())
        throw std::runtime_error("'" + name + "' in " + options.expected + " has another shape than the result");
      Array want =
          stored->isFloat() ? Array(dims, stored->asDoubles()) : Array(result.getKind(), dims, stored->asInts());
      found.difference = differenceOf(result, want);
      if (found.difference <= options.tolerance)
        continue;
      wrong = true;
      found.message = "the spec's own result '" + name + "', in double precision, differs from " + options.expected +
                      " by " + percent(found.difference) + " (" + firstDifference(result, want, options.tolerance) +
                      "): the fault is in the spec, its config or the weights, not in the compiler\n";
    }
  }
  bool finite = llvm::all_of(reference.results, [](const auto &entry) { return isFinite(entry.second); });
  if (finite && !wrong)
    return false;
  if (!options.reference.empty() && checkWeights())
    return true;
  if (!finite) {
    Trace all = traceOf(module, options.files, true);
    for (const Step &step : all.steps)
      // Masks are made of infinities on purpose: only a result that stays infinite or NaN counts.
      if (step.finiteOperands && !isa<ConstOp, WhereOp>(step.op) && !llvm::all_of(step.results, isFinite)) {
        describe(step);
        auto param = dyn_cast<ParamOp>(step.op);
        found.stage = param ? "weights" : "spec";
        if (param)
          found.name =
              cast<StringAttr>(cast<ArrayAttr>(param.getPaths()[param.getIterations() == 1 ? 0 : step.iteration])[0])
                  .str();
        found.message += (param ? "the weight '" + found.name + "' holds" : "this is the first operation that makes") +
                         " numbers that are not finite, and so does the result\n";
        return true;
      }
  }
  if (!wrong)
    return false;
  found.stage = "spec";
  found.message += options.reference.empty()
                       ? "--reference-weights W, weights that are known to be right, lets bisect name the tensor\n"
                       : "all weights that matter agree with " + options.reference + "\n";
  return true;
}

/// Runs the spec with both checkpoints side by side.
bool Bisector::checkWeights() {
  InterpretOptions right = options.files;
  right.weights = options.reference;
  Trace with = traceOf(module, options.files, true), without = traceOf(module, right, true);
  if (!with.error.empty() || !without.error.empty())
    throw std::runtime_error("the spec cannot be interpreted: " + with.error + without.error);
  std::string message = std::exchange(found.message, "");
  // A weight may differ without being the reason: the first is named, the others counted.
  int count = 0;
  for (size_t i = 0; i < with.steps.size(); ++i) {
    auto param = dyn_cast<ParamOp>(with.steps[i].op);
    if (!param)
      continue;
    const Array &got = with.steps[i].results[0], &want = without.steps[i].results[0];
    double difference = differenceOf(got, want);
    if (difference <= options.exact || ++count > 1)
      continue;
    describe(with.steps[i]);
    found.stage = "weights";
    found.name =
        cast<StringAttr>(cast<ArrayAttr>(param.getPaths()[param.getIterations() == 1 ? 0 : with.steps[i].iteration])[0])
            .str();
    found.difference = difference;
    found.message = "the weight '" + found.name + "' differs from the one in " + options.reference + " by " +
                    percent(difference) + " (" + firstDifference(got, want, options.exact) + ")\n";
  }
  if (!count) {
    found.message = message;
    return false;
  }
  if (count > 1)
    found.message += "so do " + std::to_string(count - 1) + " other weights, which are read later\n";
  for (size_t i = 0; i < with.steps.size(); ++i)
    if (!isa<ParamOp>(with.steps[i].op) && !with.steps[i].results.empty() &&
        differenceOf(with.steps[i].results[0], without.steps[i].results[0]) > options.tolerance) {
      std::string layer = layerOf(with.steps[i].op, with.steps[i].iteration);
      found.message += "the first result beyond the tolerance: " + with.steps[i].op->getName().getStringRef().str() +
                       " at " + placeOf(with.steps[i].op->getLoc()) + (layer.empty() ? "" : " in " + layer) + "\n";
      break;
    }
  found.message += message;
  return true;
}

// ---- passes

void Bisector::locate(const Trace &before, const Trace &after) {
  llvm::DenseMap<Location, std::vector<const Array *>> known;
  for (const Step &step : before.steps)
    for (const Array &array : step.results)
      known[step.op->getLoc()].push_back(&array);
  // What a pass joins, packs or lays out anew equals no value of before as a whole, but holds their numbers alone.
  std::vector<double> numbers = {0};
  for (const Step &step : before.steps)
    for (const Array &array : step.results)
      if (array.getKind() == Kind::Real)
        for (int64_t i = 0; i < array.getCount(); ++i)
          if (std::isfinite(array.number(i)))
            numbers.push_back(array.number(i));
  llvm::sort(numbers);
  auto isJoined = [&](const Step &step) {
    if (!isa<ConcatOp, ContractOp, CutOp, ExpandOp, GatherOp, MergeOp, PermuteOp, RenameOp, SplitOp, SqueezeOp, UnitOp>(
            step.op))
      return false;
    return llvm::all_of(step.results, [&](const Array &array) {
      if (array.getKind() != Kind::Real)
        return false;
      for (int64_t i = 0; i < array.getCount(); ++i) {
        double number = array.number(i), gap = options.exact * std::abs(number) / 100;
        auto near = std::lower_bound(numbers.begin(), numbers.end(), number - gap);
        if (std::isfinite(number) && (near == numbers.end() || *near > number + gap))
          return false;
      }
      return true;
    });
  };
  // Suspect operations, over all iterations; the first step of each.
  llvm::DenseMap<Operation *, const Step *> suspects;
  for (const Step &step : after.steps) {
    auto values = known.find(step.op->getLoc());
    if (values == known.end() || step.results.empty())
      continue;
    auto equals = [&](const Array &array) {
      return llvm::any_of(values->second,
                          [&](const Array *one) { return differenceOfContents(array, *one) <= options.exact; });
    };
    if (!llvm::all_of(step.results, equals) && !isJoined(step))
      suspects.try_emplace(step.op, &step);
  }
  // Back from the results through suspects alone. What a kernel yields is what its launches give.
  llvm::DenseSet<Operation *> trail;
  SmallVector<Operation *> work;
  auto reach = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (auto argument = dyn_cast<BlockArgument>(value))
      if (auto repeat = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp())) // the last iteration's value, too
        if (Operation *carried = repeat.getYield().getOperand(argument.getArgNumber()).getDefiningOp())
          op = carried;
    bool through = op && (suspects.count(op) || isa<RepeatOp, LaunchOp>(op) || !known.count(op->getLoc()));
    if (through && trail.insert(op).second)
      work.push_back(op);
  };
  ModuleOp lowered = after.steps.empty() ? module : after.steps.front().op->getParentOfType<ModuleOp>();
  for (func::FuncOp function : lowered.getOps<func::FuncOp>())
    function.walk([&](func::ReturnOp op) { llvm::for_each(op.getOperands(), reach); });
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    llvm::for_each(op->getOperands(), reach);
    if (auto repeat = dyn_cast<RepeatOp>(op))
      llvm::for_each(repeat.getYield().getOperands(), reach);
    if (auto launch = dyn_cast<LaunchOp>(op))
      llvm::for_each(lowered.lookupSymbol<KernelOp>(launch.getKernel()).getYield().getValues(), reach);
  }
  const Step *first = nullptr;
  for (const Step &step : after.steps) {
    auto suspect = suspects.find(step.op);
    if (suspect != suspects.end() && suspect->second == &step && trail.count(step.op) &&
        !isa<RepeatOp, LaunchOp>(step.op)) {
      first = &step;
      break;
    }
  }
  if (!first) {
    found.message += "no single operation can be named: each value has an equal before the pass\n";
    return;
  }
  describe(*first);
  // The nearest value of that place shows what it should have been.
  const Array *nearest = nullptr;
  double gap = INFINITY;
  for (const Array *one : known[first->op->getLoc()])
    if (double difference = differenceOf(first->results[0], *one); difference < gap)
      gap = difference, nearest = one;
  if (nearest)
    found.message += "there, " + firstDifference(first->results[0], *nearest, options.exact) + "\n";
}

bool Bisector::checkPasses() {
  OwningOpRef<ModuleOp> before = module.clone();
  std::string errors;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    errors += placeOf(diagnostic.getLocation()) + ": " + diagnostic.str() + "\n";
  });
  std::string last = options.from;
  bool differs = false;
  auto after = [&](StringRef pass, ModuleOp now, double) {
    if (differs)
      return;
    if (options.plantInPass)
      options.plantInPass(pass, now);
    last = pass.str();
    Trace trace = traceOf(now, options.files, false);
    std::string which;
    double difference = trace.error.empty() ? worstResult(trace.results, options.exact, which) : INFINITY;
    const quern::passes::PassEntry *entry = quern::passes::findPass(pass);
    if (difference > options.exact && std::isfinite(difference) && mayRound && entry && entry->rounds) {
      rounded += "the pass '" + last + "' rounds, as the program's options ask: by " + percent(difference) + "\n";
      reference.results = std::move(trace.results);
    } else if (difference > options.exact) {
      differs = true;
      found.stage = "pass", found.name = pass.str(), found.difference = difference;
      found.message =
          trace.error.empty()
              ? "after the pass '" + found.name + "' the result " + which + " (" + percent(difference) + ")\n"
              : "after the pass '" + found.name + "' the interpreter fails: " + trace.error + "\n";
      if (trace.error.empty())
        locate(traceOf(*before, options.files, true), traceOf(now, options.files, true));
      return;
    }
    before = now.clone();
  };
  bool failed = mlir::failed(quern::passes::runPhases(module, options.passes, options.from, "", after));
  if (failed && !differs) {
    found.stage = "pass", found.name = last;
    found.message = "a pass after '" + last + "' fails: " + errors;
    return true;
  }
  return differs;
}

// ---- kernels and the program

bool Bisector::checkKernels() {
  OwningOpRef<ModuleOp> compiled = module.clone();
  if (options.plantInKernels)
    options.plantInKernels(*compiled);
  quern::codegen::HostLibrary library(*compiled, options.compile);
  InterpretOptions files = options.files;
  std::map<std::string, Array> ignored;
  files.results = &ignored;
  bool differs = false;
  files.observer = [&](Operation *op, ArrayRef<Array> operands, ArrayRef<Array> results,
                       const Interpreter &interpreter) {
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch || differs)
      return;
    auto kernel = module.lookupSymbol<KernelOp>(launch.getKernel());
    std::vector<int64_t> sizes;
    for (Attribute symbol : launch.getSymbols())
      sizes.push_back(interpreter.valueOf(*Size::parse(cast<StringAttr>(symbol).getValue())));
    std::vector<Array> got = library.call(kernel, sizes, operands);
    for (auto [mine, want] : llvm::zip(got, results)) {
      Array named = mine.relabelled(want.getDims());
      double difference = differenceOf(named, want);
      if (difference <= options.tolerance || differs)
        continue;
      differs = true;
      found.stage = "kernel", found.name = launch.getKernel().str(), found.difference = difference;
      found.op = launch->getName().getStringRef().str() + " of kernel @" + found.name;
      found.place = placeOf(launch.getLoc());
      found.layer = layerOf(op, interpreter.getIteration());
      found.message = "the compiled kernel @" + found.name +
                      " gives a result that differs: " + firstDifference(named, want, options.tolerance) + " (" +
                      percent(difference) + ") for the same operands; it computes\n";
      llvm::StringSet<> reported;
      for (Operation &inner : kernel.getBlock().without_terminator())
        if (std::string line = "  " + inner.getName().getStringRef().str() + " at " + placeOf(inner.getLoc()) + "\n";
            !isa<ConstOp>(inner) && reported.insert(line).second)
          found.message += line;
    }
  };
  if (interpretMain(module, files))
    throw std::runtime_error("the planned module cannot be interpreted");
  return differs;
}

bool Bisector::checkProgram() {
  quern::support::TemporaryFolder folder;
  std::string program = folder.path() + "/program", output = folder.path() + "/output.safetensors", messages;
  quern::codegen::CompileOptions compile = options.compile;
  compile.output = program;
  quern::codegen::compileModule(module, compile);
  std::vector<std::string> command = {program, "eval", "--input", options.files.input, "--output", output};
  if (!options.files.weights.empty())
    command.insert(command.end(), {"--weights", options.files.weights});
  if (!options.files.function.empty())
    command.insert(command.end(), {"--function", options.files.function});
  if (quern::codegen::runCommand(command, messages)) {
    found.stage = found.name = "program";
    found.difference = INFINITY;
    found.message = "the program fails: " + messages;
    return true;
  }
  SafetensorsFiles files(output);
  std::map<std::string, Array> results;
  for (const auto &[name, want] : reference.results)
    if (const StoredTensor *stored = files.find(name); stored && stored->count == want.getCount())
      results[name] = stored->isFloat() ? Array(want.getDims(), stored->asDoubles())
                                        : Array(want.getKind(), want.getDims(), stored->asInts());
  std::string which;
  found.difference = worstResult(results, options.tolerance, which);
  if (found.difference <= options.tolerance)
    return false;
  found.stage = found.name = "program";
  found.message = "every pass and every kernel agrees, but the program's result " + which + " (" +
                  percent(found.difference) +
                  "): the host program, its memory plan, or how the runtime lays weights out\n";
  return true;
}

Divergence Bisector::run() {
  if (checkSpec() || (!options.reference.empty() && checkWeights()) || checkPasses() || checkKernels() ||
      checkProgram())
    return found;
  double difference = found.difference;
  found = {};
  found.stage = "none";
  found.difference = difference;
  found.message = rounded + "nothing differs: every pass within " + llvm::formatv("{0:e0}", options.exact).str() +
                  ", every kernel and the program within " + llvm::formatv("{0:e0}", options.tolerance).str() +
                  " (the program: " + percent(difference) + ")\n";
  return found;
}

} // namespace

Divergence quern::tools::bisect(ModuleOp module, const BisectOptions &options) {
  return Bisector(module, options).run();
}
