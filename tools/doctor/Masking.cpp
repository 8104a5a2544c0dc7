// Takes: a spec with numbers in it. Gives: whether a position's result changes with text that it must not see.
// Measured, since a change is a proof; the place and the reason come from the time analysis.
//
//   later text   tokens from position p on are exchanged: rows before p must stay, where the loss asks for the next token
//   padding      `mask` is false at the end, and what stands there is exchanged: nothing else may change
#include "passes/time/TimeAnalysis.h"
#include "tools/doctor/Doctor.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;

/// The input with other numbers where `chosen` says so for the position along `label`.
static Array exchanged(const Array &array, StringRef label, int64_t below,
                       llvm::function_ref<bool(int64_t row, int64_t position)> chosen) {
  std::vector<int64_t> strides = array.stridesIn(array.getDims());
  int at = array.find(label);
  int64_t size = array.getDims()[at].size, stride = strides[at], outer = array.getDims()[0].size,
          block = array.getCount() / outer;
  auto change = [&](const auto *numbers, auto out, auto other) {
    for (int64_t i = 0; i < array.getCount(); ++i)
      out.push_back(chosen(i / block, i / stride % size) ? other(numbers[i]) : numbers[i]);
    return out;
  };
  if (array.isReal())
    return Array(array.getDims(), change(array.reals(), std::vector<double>(), [](double x) { return x + 1; }));
  return Array(array.getKind(), array.getDims(),
               change(array.ints(), std::vector<int64_t>(), [&](int64_t x) { return (x + 1) % below; }));
}

/// The largest difference of two results, at positions along `label` that count.
static double difference(const Array &a, const Array &b, StringRef label,
                         llvm::function_ref<bool(int64_t row, int64_t position)> counts) {
  int at = a.find(label);
  int64_t size = at < 0 ? 1 : a.getDims()[at].size, stride = at < 0 ? 1 : a.stridesIn(a.getDims())[at];
  int64_t block = a.getDims().empty() ? 1 : a.getCount() / a.getDims()[0].size;
  double worst = 0;
  for (int64_t i = 0; i < a.getCount(); ++i)
    if ((at < 0 || counts(i / block, i / stride % size)) && a.number(i) != b.number(i))
      worst =
          std::max(worst, std::isfinite(a.number(i) - b.number(i)) ? std::fabs(a.number(i) - b.number(i)) : INFINITY);
  return worst;
}

/// How far position p - 1 and those before move when the text from p on is exchanged, the worst p.
static std::optional<std::pair<double, int64_t>> lookAhead(const Patient &patient, func::FuncOp function, int result) {
  Interpreter::Inputs inputs = patient.inputsOf(function);
  std::string text = argumentName(function, 0).str(),
              time = typeOf(function.getArgument(0)).getDims().back().getName().str();
  int64_t length = inputs.at(text).sizeOf(time), below = positionsBelow(function, function.getArgument(0));
  FailureOr<std::vector<Array>> whole = patient.run(function, inputs);
  if (failed(whole))
    return std::nullopt;
  std::pair<double, int64_t> worst{0, 0};
  for (int64_t p : {length - 1, length / 2, int64_t(1)}) {
    if (p < 1)
      continue;
    Interpreter::Inputs other = inputs;
    other[text] = exchanged(inputs.at(text), time, below, [&](int64_t, int64_t position) { return position >= p; });
    FailureOr<std::vector<Array>> changed = patient.run(function, other);
    if (failed(changed))
      return std::nullopt;
    double moved = difference(whole->at(size_t(result)), changed->at(size_t(result)), time,
                              [&](int64_t, int64_t position) { return position < p; });
    if (moved > worst.first)
      worst = {moved, p};
  }
  return worst;
}

static void checkLater(const Patient &patient, func::FuncOp function, bool mustNot, Findings &findings) {
  if (!quern::passes::timeDimension(function))
    return;
  DimAttr time = typeOf(function.getArgument(0)).getDims().back();
  const int scored = scoredResult(function);
  if (scored < 0 || !cast<NamedTensorType>(function.getResultTypes()[scored]).has(time.getName()))
    return;
  std::optional<std::pair<double, int64_t>> moved = lookAhead(patient, function, scored);
  if (!moved)
    return findings.push_back({Finding::Grade::Wrong, "masking",
                               ("@" + function.getName() + " cannot be run on the made-up batch").str(), ""});
  std::string name = ("@" + function.getName()).str();
  quern::passes::TimeAnalysis analysis(function, /*scoredOnly=*/true);
  bool sees = moved->first > 1e-12;
  if (!sees) {
    bool known = analysis.refusals().empty();
    findings.push_back({Finding::Grade::Ok, "masking",
                        name + ": no position sees later ones" +
                            (known ? "" : " (generate cannot prove it, and refuses to go on step by step)"),
                        known ? "" : "    " + analysis.describeRefusals() + "\n"});
    return;
  }
  if (!mustNot) {
    findings.push_back({Finding::Grade::Ok, "masking",
                        name + ": every position may see all others (the loss asks for no next token)", ""});
    return;
  }
  std::string message =
      llvm::formatv(
          "{0}: position {1} sees the text from position {2} on, which it is to predict (its result moves by {3:e1})",
          name, moved->second - 1, moved->second, moved->first)
          .str();
  std::string fix = "mask what is later: attention(..., mask: index(S) <= index(" + time.getName().str() + "))";
  if (analysis.refusals().empty())
    findings.push_back({Finding::Grade::Wrong, "masking", wrongAt(function.getLoc(), message, fix), ""});
  std::set<std::string> lines;
  for (const quern::passes::Refusal &refusal : analysis.refusals())
    if (lines.insert(quern::ir::linesOf(refusal.where).first).second)
      findings.push_back(
          {Finding::Grade::Wrong, "masking",
           wrongAt(refusal.where, (lines.size() == 1 ? message + ": " : name + ": ") + refusal.message, fix), ""});
}

/// A function with `mask: bool[B, X]`: its last two positions hidden in the first row, and exchanged.
static void checkPadding(const Patient &patient, func::FuncOp function, Findings &findings) {
  BlockArgument mask;
  for (BlockArgument argument : function.getArguments())
    if (argumentName(function, argument.getArgNumber()) == "mask" && typeOf(argument).isBool() &&
        typeOf(argument).getRank() == 2)
      mask = argument;
  if (!mask || patient.options.inputs.count("mask"))
    return;
  std::string label = typeOf(mask).getDims().back().getName().str();
  Interpreter::Inputs inputs = patient.inputsOf(function);
  std::vector<NamedSize> dims;
  for (const auto &[name, array] : inputs)
    if (int at = array.find(label); at >= 0 && dims.empty())
      dims = {array.getDims()[0], array.getDims()[at]};
  if (dims.empty() || dims[1].size < 3)
    return;
  auto hidden = [&](int64_t row, int64_t position) { return row == 0 && position >= dims[1].size - 2; };
  std::vector<int64_t> truth;
  for (int64_t i = 0; i < countOf(dims); ++i)
    truth.push_back(!hidden(i / dims[1].size, i % dims[1].size));
  inputs["mask"] = Array(Kind::Bool, dims, std::move(truth));
  Interpreter::Inputs other = inputs;
  for (BlockArgument argument : function.getArguments()) {
    std::string name = argumentName(function, argument.getArgNumber()).str();
    if (auto input = other.find(name);
        input != other.end() && name != "mask" && name != "labels" && input->second.find(label) >= 0)
      input->second = exchanged(inputs.at(name), label, positionsBelow(function, argument), hidden);
  }
  FailureOr<std::vector<Array>> whole = patient.run(function, inputs), changed = patient.run(function, other);
  if (failed(whole) || failed(changed))
    return findings.push_back(
        {Finding::Grade::Wrong, "padding", ("@" + function.getName() + " cannot be run with a mask").str(), ""});
  double moved = difference(whole->at(0), changed->at(0), label,
                            [&](int64_t row, int64_t position) { return !hidden(row, position); });
  std::string name = ("@" + function.getName()).str();
  if (moved <= 1e-12)
    findings.push_back({Finding::Grade::Ok, "padding", name + ": what `mask` hides changes nothing else", ""});
  else
    findings.push_back(
        {Finding::Grade::Wrong, "padding",
         wrongAt(
             function.getLoc(),
             llvm::formatv("{0} takes `mask`, but positions that it hides are seen by others (results move by {1:e1})",
                           name, moved)
                 .str(),
             "give it to each attention over " + label +
                 " as `mask:`, renamed as the keys are, and to each mean or sum over " + label),
         ""});
}

Findings quern::tools::checkMasking(const Patient &patient) {
  Findings findings;
  bool nextToken = patient.get("loss") && !patient.ownLoss;
  for (auto function : patient.module.getOps<func::FuncOp>()) {
    StringRef name = function.getName();
    if (name == "loss" || name.contains('.') || function.getNumArguments() == 0 ||
        typeOf(function.getArgument(0)).getRank() < 2)
      continue;
    if (name == "forward" || name == "decode")
      checkLater(patient, function, nextToken, findings);
    checkPadding(patient, function, findings);
  }
  return findings;
}
