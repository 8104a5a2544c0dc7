// Takes: a module and files of tensors. Gives: what every operation computed, in double precision.
#include "tools/bisect/Trace.h"

#include "ir/Dialect.h"
#include "ir/analysis/SourceLines.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;

// ---- comparing

static double differenceOfNumbers(size_t count, llvm::function_ref<double(size_t)> got,
                                  llvm::function_ref<double(size_t)> want) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < count; ++i) {
    double a = got(i), b = want(i);
    if (a == b || (std::isnan(a) && std::isnan(b)))
      worst = std::max(worst, 0.0);
    else
      worst = std::max(worst, std::isfinite(a - b) ? std::abs(a - b) : INFINITY);
    if (std::isfinite(b))
      largest = std::max(largest, std::abs(b));
  }
  return worst == 0 ? 0 : worst / std::max(largest, 1e-30);
}

static bool sameDims(const Array &a, const Array &b) {
  return a.getDims().size() == b.getDims().size() &&
         llvm::all_of(a.getDims(), [&](const NamedSize &dim) { return llvm::is_contained(b.getDims(), dim); });
}

double quern::tools::differenceOf(const Array &got, const Array &want) {
  if (!sameDims(got, want))
    return INFINITY;
  Array aligned = got.aligned(want.getDims());
  return differenceOfNumbers(
      want.getCount(), [&](size_t i) { return aligned.number(i); }, [&](size_t i) { return want.number(i); });
}

double quern::tools::differenceOfContents(const Array &got, const Array &want) {
  if (got.getCount() != want.getCount())
    return INFINITY;
  if (sameDims(got, want))
    if (double difference = differenceOf(got, want); difference < 1e-6)
      return difference;
  auto sorted = [](const Array &array) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < array.getCount(); ++i)
      numbers.push_back(std::isnan(array.number(i)) ? INFINITY : array.number(i));
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  };
  std::vector<double> a = sorted(got), b = sorted(want);
  return differenceOfNumbers(a.size(), [&](size_t i) { return a[i]; }, [&](size_t i) { return b[i]; });
}

std::string quern::tools::firstDifference(const Array &got, const Array &want, double tolerance) {
  if (!sameDims(got, want))
    return describe(got.getDims()) + ", not " + describe(want.getDims());
  Array aligned = got.aligned(want.getDims());
  double largest = 1e-30;
  for (int64_t i = 0; i < want.getCount(); ++i)
    if (std::isfinite(want.number(i)))
      largest = std::max(largest, std::abs(want.number(i)));
  for (int64_t i = 0; i < want.getCount(); ++i) {
    double a = aligned.number(i), b = want.number(i);
    if (a == b || std::abs(a - b) <= tolerance * largest || (std::isnan(a) && std::isnan(b)))
      continue;
    std::string at;
    int64_t rest = i;
    for (const NamedSize &dim : llvm::reverse(want.getDims())) {
      at = dim.name + " = " + std::to_string(rest % dim.size) + (at.empty() ? "" : ", ") + at;
      rest /= dim.size;
    }
    return llvm::formatv("{0}{1}{2}, not {3}", at.empty() ? "" : "[" + at + "]", at.empty() ? "" : " is ",
                         llvm::formatv("{0:f6}", a).str(), llvm::formatv("{0:f6}", b).str());
  }
  return "";
}

bool quern::tools::isFinite(const Array &array) {
  for (int64_t i = 0; i < array.getCount(); ++i)
    if (!std::isfinite(array.number(i)))
      return false;
  return true;
}

// ---- running

Trace quern::tools::traceOf(ModuleOp module, const InterpretOptions &files, bool all) {
  Trace trace;
  InterpretOptions options = files;
  options.output.clear();
  options.quiet = true;
  options.results = &trace.results;
  size_t pending = 0; // the first step of a kernel whose launch is still to come
  if (all)
    options.observer = [&](Operation *op, ArrayRef<Array> operands, ArrayRef<Array> results,
                           const Interpreter &interpreter) {
      Step step{op, nullptr, interpreter.getIteration(), results.vec(), llvm::all_of(operands, isFinite)};
      bool inside = op->getParentOfType<KernelOp>() != nullptr;
      if (isa<LaunchOp>(op))
        for (size_t i = pending; i < trace.steps.size(); ++i)
          trace.steps[i].launch = op;
      trace.steps.push_back(std::move(step));
      if (!inside)
        pending = trace.steps.size();
    };
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    trace.error += (trace.error.empty() ? "" : "; ") + placeOf(diagnostic.getLocation()) + ": " + diagnostic.str();
  });
  if (interpretMain(module, options) && trace.error.empty())
    trace.error = "the interpreter fails";
  return trace;
}

// ---- naming

std::string quern::tools::placeOf(Location location) {
  SmallVector<FileLineColLoc> lines = sourceLines(location, LineOrder::CallerFirst);
  if (lines.empty())
    return "?";
  std::string outer = textOf(lines.front(), /*folder=*/false), inner = textOf(lines.back(), /*folder=*/false);
  return inner == outer ? outer : outer + " (" + inner + ")";
}

std::string quern::tools::layerOf(Operation *op, int64_t iteration) {
  auto repeat = op->getParentOfType<RepeatOp>();
  if (!repeat)
    return "";
  std::optional<std::string> common;
  repeat->walk([&](ParamOp param) {
    if (param->getParentOfType<RepeatOp>() != repeat || static_cast<int64_t>(param.getIterations()) <= iteration)
      return;
    auto path =
        cast<StringAttr>(cast<ArrayAttr>(param.getPaths()[param.getIterations() == 1 ? 0 : iteration])[0]).getValue();
    if (!common) {
      common = path.str();
      return;
    }
    size_t same = 0;
    while (same < common->size() && same < path.size() && (*common)[same] == path[same])
      ++same;
    // Whole words between dots.
    if (!((same == common->size() || (*common)[same] == '.') && (same == path.size() || path[same] == '.')))
      same = path.substr(0, same).rfind('.') == StringRef::npos ? 0 : path.substr(0, same).rfind('.');
    common->resize(same);
  });
  return common && !common->empty()
             ? *common
             : "iteration " + std::to_string(iteration) + " of the loop at " + placeOf(repeat.getLoc());
}
