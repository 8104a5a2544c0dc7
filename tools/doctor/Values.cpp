// Takes: a spec with numbers in it. Gives: the shape of each value that the spec names, the first operation whose
// result is no number, and what is wrong with rows of attention: those that see nothing, and weights of a sum that do
// not add up to 1.
//
//   softmax[T](score)                   weights of a sum over S are normalised over T
//   where(mask, softmax[S](score), 0)   masked after the softmax: what is left adds up to less
#include "passes/time/TimeAnalysis.h"
#include "tools/doctor/Doctor.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;

static constexpr double tolerance = 1e-9;

/// NaN, or beyond 32 bits; masks are made of -infinity, so that alone breaks nothing.
static bool isBroken(const Array &array) {
  if (!array.isReal())
    return false;
  return std::any_of(array.reals(), array.reals() + array.getCount(), [](double x) {
    return std::isnan(x) || (std::fabs(x) > std::numeric_limits<float>::max() && x != -INFINITY);
  });
}

static bool holdsOnly(const Array &array, double a, double b) {
  for (int64_t i = 0; i < array.getCount(); ++i)
    if (array.number(i) != a && array.number(i) != b)
      return false;
  return true;
}

/// Sums of an array over some of its dimensions, one for each place of the others.
static std::vector<double> sumsOver(const Array &array, ArrayRef<std::string> dims) {
  std::vector<NamedSize> kept;
  for (const NamedSize &dim : array.getDims())
    if (!llvm::is_contained(dims, dim.name))
      kept.push_back(dim);
  std::vector<NamedSize> order = kept;
  for (const NamedSize &dim : array.getDims())
    if (llvm::is_contained(dims, dim.name))
      order.push_back(dim);
  Array aligned = array.aligned(order);
  int64_t rows = countOf(kept), width = rows ? aligned.getCount() / rows : 0;
  std::vector<double> sums(rows, 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < width; ++i)
      sums[r] += aligned.number(r * width + i);
  return sums;
}

/// As the spec writes it: a label that several functions have is numbered in the module.
static std::string shown(const Array &array) {
  std::vector<NamedSize> dims = array.getDims();
  for (NamedSize &dim : dims)
    dim.name = dim.name.substr(0, dim.name.find('.'));
  return describe(dims);
}

static SmallVector<std::string> labelsOf(ArrayAttr names) {
  return llvm::map_to_vector(quern::ir::names(names), [](StringRef name) { return name.str(); });
}

namespace {

/// Follows one run.
class Watch {
public:
  explicit Watch(const Patient &patient) {
    for (const quern::frontend::NamedValue &named : patient.names)
      named_[named.value].push_back(&named);
  }
  void see(Operation *op, ArrayRef<Array> operands, ArrayRef<Array> results);
  Findings findings() const;

private:
  /// A value that came out of a softmax, perhaps masked or with a part cut off.
  struct Weights {
    SoftmaxOp softmax;
    bool part; ///< the rest of a row (a sink) was cut off
  };
  void keepShape(Operation *op, ArrayRef<Array> results);
  void seeSoftmax(SoftmaxOp op, const Array &weights);
  void seeContract(ContractOp op, ArrayRef<Array> operands);
  void passOn(Operation *op, ArrayRef<Array> operands);

  DenseMap<Value, std::vector<const quern::frontend::NamedValue *>> named_;
  std::vector<std::string> shapes;
  std::map<std::string, size_t> shapeLines; // by place: the line
  std::set<std::string> reported;
  DenseMap<Value, Weights> weights;
  size_t namedCount = 0, softmaxes = 0, rows = 0;
  double worst = 0;
  std::string broken;
  Findings wrong;
};

} // namespace

void Watch::keepShape(Operation *op, ArrayRef<Array> results) {
  for (auto [value, array] : llvm::zip(op->getResults(), results))
    if (auto found = named_.find(value); found != named_.end())
      for (const quern::frontend::NamedValue *named : found->second) {
        auto [place, library] = quern::ir::linesOf(named->where);
        if (!library.empty()) // a name of the library's
          continue;
        ++namedCount;
        std::string line =
            llvm::formatv("{0}: {1} {2}", named->name, quern::support::kindName(array.getKind()), shown(array)).str();
        if (shapeLines.try_emplace(place + named->name, shapes.size()).second)
          shapes.push_back(
              llvm::formatv("    {0,-52} line {1}", line, StringRef(place).rsplit(':').first.rsplit(':').second).str());
      }
}

void Watch::seeSoftmax(SoftmaxOp op, const Array &result) {
  weights[op.getResult()] = {op, false};
  ++softmaxes;
  size_t blind = 0;
  std::vector<double> sums = sumsOver(result, labelsOf(op.getDims()));
  for (double sum : sums) {
    blind += sum == 0;
    if (sum != 0)
      worst = std::max(worst, std::fabs(sum - 1));
  }
  rows += sums.size();
  std::string place = quern::ir::linesOf(op.getLoc()).first;
  if (blind && reported.insert(place).second)
    wrong.push_back(
        {Finding::Grade::Wrong, "attention rows",
         wrongAt(
             op.getLoc(),
             llvm::formatv(
                 "{0} of {1} rows of this softmax see nothing: all their scores are masked, and their weights are 0",
                 blind, sums.size())
                 .str(),
             "let each position see at least itself: index(S) <= index(T), not <"),
         ""});
}

void Watch::seeContract(ContractOp op, ArrayRef<Array> operands) {
  auto a = weights.find(op.getA()), b = weights.find(op.getB());
  if ((a == weights.end()) == (b == weights.end()))
    return;
  Weights from = a != weights.end() ? a->second : b->second;
  const Array &array = operands[a != weights.end() ? 0 : 1];
  SmallVector<std::string> over = labelsOf(op.getDims()),
                           normalised = labelsOf(from.softmax->getAttrOfType<ArrayAttr>("dims"));
  NamedTensorType type = typeOf(a != weights.end() ? op.getA() : op.getB());
  // Sums over heads or experts may weigh as they like; those over positions take a mean of them.
  bool positions =
      llvm::all_of(over, [&](const std::string &label) { return type.has(label) && !type.dim(label).getStatic(); });
  if (!positions && over != normalised)
    return;
  double least = INFINITY, most = -INFINITY;
  for (double sum : sumsOver(array, over))
    if (sum != 0 || from.part) // rows that see nothing are reported already
      least = std::min(least, sum), most = std::max(most, sum);
  if (least > most || (most < 1 + tolerance && (from.part ? least > -tolerance : least > 1 - tolerance)))
    return;
  if (!reported.insert(quern::ir::linesOf(op.getLoc()).first).second)
    return;
  auto list = [](ArrayRef<std::string> labels) {
    return llvm::join(
        llvm::map_range(labels, [](const std::string &label) { return label.substr(0, label.find('.')); }), ", ");
  };
  bool other = llvm::none_of(over, [&](const std::string &label) { return llvm::is_contained(normalised, label); });
  wrong.push_back(
      {Finding::Grade::Wrong, "attention rows",
       wrongAt(op.getLoc(),
               llvm::formatv("the weights of this sum over {0} add up to between {1:f4} and {2:f4}, not 1", list(over),
                             least, most)
                   .str(),
               other ? llvm::formatv("the softmax at {0} is over {1}: write softmax[{2}]",
                                     quern::ir::linesOf(from.softmax.getLoc()).first, list(normalised), list(over))
                           .str()
                     : "mask the scores with -inf before the softmax, not the weights after it"),
       ""});
}

/// Weights stay weights through renames and masks.
void Watch::passOn(Operation *op, ArrayRef<Array> operands) {
  auto follow = [&](Value from, bool part) {
    if (auto found = weights.find(from); found != weights.end()) {
      Weights next = found->second;
      next.part |= part;
      weights[op->getResult(0)] = next;
    }
  };
  TypeSwitch<Operation *>(op)
      .Case<RenameOp, PermuteOp, ExpandOp, SplitOp, MergeOp, UnitOp, SqueezeOp>(
          [&](auto) { follow(op->getOperand(0), false); })
      .Case([&](CutOp) { follow(op->getOperand(0), true); })
      .Case([&](WhereOp) {
        for (int side : {1, 2})
          if (holdsOnly(operands[3 - side], 0, 0))
            follow(op->getOperand(side), false);
      })
      .Case([&](MulOp) {
        for (int side : {0, 1})
          if (holdsOnly(operands[1 - side], 0, 1))
            follow(op->getOperand(side), false);
      });
}

void Watch::see(Operation *op, ArrayRef<Array> operands, ArrayRef<Array> results) {
  keepShape(op, results);
  if (broken.empty() && llvm::any_of(results, isBroken))
    broken = wrongAt(
        op->getLoc(),
        ("the first operation with a result that is NaN or overflows 32 bits: '" + op->getName().stripDialect() + "'")
            .str(),
        "what it takes is finite: a division by zero, the log or root of what is not positive, exp of what is large?");
  if (auto softmax = dyn_cast<SoftmaxOp>(op))
    seeSoftmax(softmax, results[0]);
  else if (auto contract = dyn_cast<ContractOp>(op))
    seeContract(contract, operands);
  else
    passOn(op, operands);
}

Findings Watch::findings() const {
  Findings all;
  std::string lines;
  for (const std::string &line : shapes)
    lines += line + "\n";
  all.push_back({Finding::Grade::Ok, "shapes",
                 llvm::formatv("{0} named values at {1} locations", namedCount, shapes.size()).str(), lines});
  if (broken.empty())
    all.push_back({Finding::Grade::Ok, "finite", "no value is NaN or overflows 32 bits", ""});
  else
    all.push_back({Finding::Grade::Wrong, "finite", broken, ""});
  all.insert(all.end(), wrong.begin(), wrong.end());
  if (softmaxes && wrong.empty())
    all.push_back(
        {Finding::Grade::Ok, "attention rows",
         llvm::formatv("{0} rows of {1} softmaxes add up to 1 within {2:e0}", rows, softmaxes, std::max(worst, 1e-16))
             .str(),
         ""});
  else if (!softmaxes)
    all.push_back({Finding::Grade::Note, "attention rows", "the spec has no softmax", ""});
  return all;
}

Findings quern::tools::checkValues(const Patient &patient) {
  Watch watch(patient);
  for (func::FuncOp function : patient.functionsToRun())
    if (failed(patient.run(function, patient.inputsOf(function),
                           [&](Operation *op, ArrayRef<Array> operands, ArrayRef<Array> results) {
                             watch.see(op, operands, results);
                           })))
      return {{Finding::Grade::Wrong, "shapes",
               ("@" + function.getName() + " cannot be run on the made-up batch; the message above says why").str(),
               ""}};
  return watch.findings();
}
