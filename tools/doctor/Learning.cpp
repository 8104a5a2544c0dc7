// Takes: a spec with numbers in it, its module with @loss.grad. Gives: the loss at the start beside that of an even
// guess, gradients beside differences, parameters that never get one, and whether Adam can learn one small batch by
// heart.
#include "tools/doctor/Doctor.h"
#include "tools/interpret/GradCheck.h"
#include "tools/interpret/InitialValues.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;

static std::string shortText(double x) {
  char text[40];
  std::snprintf(text, sizeof(text), "%g", x);
  return text;
}

/// Positions of the dimension along which the loss looks up the labels: how many answers there are.
static std::optional<int64_t> answersOf(func::FuncOp loss) {
  std::optional<int64_t> answers;
  for (BlockArgument argument : loss.getArguments()) {
    if (argumentName(loss, argument.getArgNumber()) != "labels")
      continue;
    DenseSet<Value> made = {argument};
    loss.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto gather = dyn_cast<GatherOp>(op); gather && made.contains(gather.getPositions())) {
        if (!answers)
          answers = typeOf(gather.getX()).dim(gather.getDim()).getStatic();
      } else if (llvm::any_of(op->getOperands(), [&](Value operand) { return made.contains(operand); })) {
        made.insert_range(op->getResults());
      }
    });
  }
  return answers;
}

/// Matrices that begin large, the largest first: where a wild first loss comes from.
static std::string largeBeginnings(func::FuncOp loss) {
  std::vector<std::pair<double, std::string>> found;
  loss.walk([&](ParamOp op) {
    NamedTensorType type = typeOf(op.getResult());
    if (double scale = initialScale(op); scale > 0.3 && type.getRank() > 1)
      found.emplace_back(scale, cast<StringAttr>(cast<ArrayAttr>(op.getPaths()[0])[0]).getValue().str());
  });
  llvm::sort(found, std::greater<>());
  std::string text;
  for (size_t i = 0; i < found.size() && i < 3; ++i)
    text += (i ? ", '" : "'") + found[i].second + llvm::formatv("' ~ normal({0})", shortText(found[i].first)).str();
  return text;
}

static Finding checkStart(const Patient &patient, func::FuncOp loss, double start) {
  using Grade = Finding::Grade;
  std::optional<int64_t> answers = answersOf(loss);
  if (!answers)
    return {Grade::Note, "first loss",
            llvm::formatv("{0:f4}; the spec's loss looks up no labels to compare it with", start).str(), ""};
  double even = std::log(static_cast<double>(*answers));
  std::string text =
      llvm::formatv("{0:f4} at the start; an even guess among {1} has log {1} = {2:f4}", start, *answers, even).str();
  if (patient.options.weights)
    return {Grade::Note, "first loss",
            text + " (with weights: of " + (patient.options.inputs.empty() ? "made-up tokens)" : "the text given)"),
            ""};
  if (start > even + 1) {
    std::string large = largeBeginnings(loss);
    return {Grade::Wrong, "first loss",
            wrongAt(loss.getLoc(), text + ": the first guesses are confident and wrong",
                    large.empty() ? "smaller initial values (~ normal(0.02)), or a norm before the last projection"
                                  : "smaller initial values than " + large),
            ""};
  }
  if (start < 0.5 * even && *answers > 1)
    return {
        Grade::Wrong, "first loss",
        wrongAt(loss.getLoc(), text + ": the labels are known before any training", "do the labels reach the result?"),
        ""};
  return {Grade::Ok, "first loss", text, ""};
}

namespace {

/// Adam on the interpreter's gradients, remembering for each stored tensor the largest gradient it ever got.
class Memoriser {
public:
  Memoriser(Patient &patient, ModuleOp module) : patient(patient), module(module) {}
  /// Losses of the steps, until one is below a fifth of the first; nothing after a diagnostic.
  std::optional<std::vector<double>> run(double rate);

  std::map<std::string, double> largest;
  double largestOfAll = 0;

private:
  Patient &patient;
  ModuleOp module;
};

} // namespace

std::optional<std::vector<double>> Memoriser::run(double rate) {
  auto gradient = module.lookupSymbol<func::FuncOp>("loss.grad");
  Interpreter::Inputs inputs = patient.inputsOf(gradient);
  std::map<std::string, std::vector<double>> numbers = patient.parameters;
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> moments;
  Interpreter interpreter(module);
  interpreter.setParameters([&](ArrayRef<std::string> names, ArrayRef<int64_t>) -> std::optional<std::vector<double>> {
    return numbers.at(names.front());
  });
  std::vector<double> losses;
  for (int64_t step = 1; step <= patient.options.steps; ++step) {
    FailureOr<std::vector<Array>> results = interpreter.run(gradient, inputs);
    if (failed(results))
      return std::nullopt;
    losses.push_back(results->at(0).reals()[0]);
    for (const StoredGradient &stored : storedGradients(gradient, *results)) {
      std::vector<double> &x = numbers.at(stored.names.front());
      auto &[mean, square] = moments[stored.names.front()];
      mean.resize(x.size());
      square.resize(x.size());
      double &most = largest[stored.names.front()];
      for (size_t i = 0; i < x.size(); ++i) {
        double g = stored.numbers[i];
        most = std::max(most, std::fabs(g));
        mean[i] = 0.9 * mean[i] + 0.1 * g;
        square[i] = 0.99 * square[i] + 0.01 * g * g;
        x[i] -=
            rate * mean[i] / (1 - std::pow(0.9, step)) / (std::sqrt(square[i] / (1 - std::pow(0.99, step))) + 1e-12);
      }
      largestOfAll = std::max(largestOfAll, most);
    }
    if (!std::isfinite(losses.back()) || losses.back() <= 0.2 * losses.front())
      break;
  }
  return losses;
}

/// Parameters of the loss that got nothing in any step; of stacked experts some may not have been chosen.
static Findings checkReached(func::FuncOp loss, const Memoriser &memoriser) {
  using Grade = Finding::Grade;
  Findings findings;
  std::set<std::string> seen;
  std::string faint;
  size_t reached = 0, idle = 0;
  loss.walk([&](ParamOp op) {
    SmallVector<std::string> none;
    size_t some = 0;
    for (unsigned iteration = 0; iteration < op.getIterations(); ++iteration)
      forEachStored(op, iteration, [&](ArrayRef<std::string> names, ArrayRef<int64_t>) {
        if (!seen.insert(names.front()).second)
          return;
        auto found = memoriser.largest.find(names.front());
        double most = found == memoriser.largest.end() ? 0 : found->second;
        if (most == 0)
          none.push_back(names.front());
        else
          ++some;
        if (most != 0 && most < 1e-12 * memoriser.largestOfAll)
          faint += (faint.empty() ? "    only rounding reaches: " : ", ") + names.front();
      });
    reached += some;
    if (none.empty())
      return;
    if (some) { // experts side by side
      idle += none.size();
      return;
    }
    findings.push_back(
        {Grade::Wrong, "reached",
         wrongAt(
             op.getLoc(), "'" + none.front() + "' never gets a gradient: the loss does not change with it",
             "is it used only in comparisons, positions or rounding, hidden by where, or multiplied by what stays 0?"),
         ""});
  });
  std::string text = llvm::formatv("{0} stored tensors get a gradient", reached).str();
  if (idle)
    text += llvm::formatv(", {0} experts were not chosen in this batch", idle).str();
  if (!faint.empty())
    faint += " (as a shift of all scores, which no softmax sees)\n";
  if (findings.empty())
    findings.push_back({Grade::Ok, "reached", text, faint});
  return findings;
}

static Finding checkGradientsOf(const Patient &patient, ModuleOp differentiated) {
  using Grade = Finding::Grade;
  GradCheckOptions check;
  // Without weights at made-up numbers: the spec's initial values sit on kinks (a bias of 0 before relu), where no
  // slope is one.
  if (patient.options.weights)
    check.parameters = [&](ArrayRef<std::string> names, ArrayRef<int64_t>) -> std::optional<std::vector<double>> {
      return patient.parameters.at(names.front());
    };
  check.inputs = patient.inputsOf(patient.get("loss"));
  check.directions = 1;
  FailureOr<std::vector<GradientError>> errors = checkGradients(differentiated, check);
  if (failed(errors))
    return {Grade::Wrong, "gradients", "the gradient cannot be computed; the message above says why", ""};
  const GradientError *worst = nullptr;
  for (const GradientError &error : *errors)
    if (!worst || !(error.error <= worst->error))
      worst = &error;
  if (!worst)
    return {Grade::Wrong, "gradients", "the spec has no parameters", ""};
  std::string text =
      llvm::formatv("{0} tensors against differences of the loss, largest error {1:e1}", errors->size(), worst->error)
          .str();
  if (worst->error < 1e-6)
    return {Grade::Ok, "gradients", text, ""};
  Location where = patient.get("loss").getLoc();
  patient.get("loss").walk([&](ParamOp op) {
    for (unsigned iteration = 0; iteration < op.getIterations(); ++iteration)
      forEachStored(op, iteration, [&](ArrayRef<std::string> names, ArrayRef<int64_t>) {
        if (names.front() == worst->name)
          where = op.getLoc();
      });
  });
  return {Grade::Wrong, "gradients",
          wrongAt(where, text + ": that of '" + worst->name + "' is not the slope of the loss",
                  "a jump of the loss (round, a comparison that the parameter moves)? Otherwise a fault of the "
                  "compiler: quern gradcheck, and report it"),
          ""};
}

/// A batch that was not memorised. A spec with a few numbers for each label, such as one to work out on paper, cannot:
/// that says nothing about it.
static Finding notLearnt(const Patient &patient, Location where, const std::string &what) {
  using Grade = Finding::Grade;
  size_t numbers = 0;
  for (const auto &[name, values] : patient.parameters)
    numbers += values.size();
  size_t labels = patient.options.batch * patient.options.length;
  bool madeUp = patient.options.inputs.empty();
  if (madeUp && numbers < 6 * labels)
    return {Grade::Note, "overfits",
            llvm::formatv("not known: {0} parameters are few for {1} labels ({2}); a larger shape, --batch 1 "
                          "--length 3, or --input shows more",
                          numbers, labels, what)
                .str(),
            ""};
  std::string cure = "does the result depend on all of the text (positions, residuals, a mask that hides too much)? "
                     "Does every parameter get a gradient?";
  if (madeUp && numbers < 50 * labels)
    cure =
        llvm::formatv(
            "{0} parameters may be too few for {1} labels: try --batch 1 --length 3, or a larger shape; otherwise: {2}",
            numbers, labels, cure)
            .str();
  return {Grade::Wrong, "overfits", wrongAt(where, "one small batch cannot be memorised: " + what, cure), ""};
}

Findings quern::tools::checkTraining(Patient &patient, ModuleOp differentiated) {
  using Grade = Finding::Grade;
  Findings findings;
  func::FuncOp loss = patient.get("loss");
  FailureOr<std::vector<Array>> start = patient.run(loss, patient.inputsOf(loss));
  if (failed(start))
    return {{Grade::Wrong, "first loss", "the loss cannot be computed; the message above says why", ""}};
  double first = start->at(0).reals()[0];
  if (!std::isfinite(first))
    return {{Grade::Wrong, "first loss",
             llvm::formatv("{0:f4}: nothing can be learnt from it; see 'finite'", first).str(), ""}};
  findings.push_back(checkStart(patient, loss, first));
  findings.push_back(checkGradientsOf(patient, differentiated));
  Memoriser memoriser(patient, differentiated);
  std::optional<std::vector<double>> best;
  double rate = 0;
  for (double tried : {1e-2, 5e-2, 2e-3}) {
    std::optional<std::vector<double>> losses = memoriser.run(tried);
    if (!losses)
      break;
    if (!best || !(losses->back() >= best->back()))
      best = losses, rate = tried;
    if (best->back() <= 0.2 * best->front())
      break;
  }
  Findings reached = checkReached(loss, memoriser);
  findings.insert(findings.end(), reached.begin(), reached.end());
  if (!best)
    findings.push_back({Grade::Wrong, "overfits", "the gradient cannot be computed; the message above says why", ""});
  else if (best->back() <= 0.2 * best->front())
    findings.push_back({Grade::Ok, "overfits",
                        llvm::formatv("one batch is memorised: loss {0:f4} -> {1:f4} in {2} steps of Adam at {3}",
                                      best->front(), best->back(), best->size(), shortText(rate))
                            .str(),
                        ""});
  else
    findings.push_back(notLearnt(patient, loss.getLoc(),
                                 llvm::formatv("loss {0:f4} -> {1:f4} in {2} steps of Adam at {3}", best->front(),
                                               best->back(), best->size(), shortText(rate))
                                     .str()));
  return findings;
}
