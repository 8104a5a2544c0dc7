// Takes: a model and a text. Gives: the mean square of each input of each product with a weight.
// Why the interpreter: it shows every operand of every operation, and no program needs a way to do so.
#include "tools/quantize/Importance.h"

#include "ir/analysis/Weights.h"
#include "runtime/files/Safetensors.h"
#include "support/Error.h"
#include "tools/interpret/Interpret.h"

#include <algorithm>

using namespace mlir;
using namespace quern::ir;

namespace quern::tools {
namespace {

struct Squares {
  std::vector<double> sums;
  int64_t rows = 0;
};

/// Adds the squares of `x`, whose product with `weight` is summed over `dims`.
void add(Squares &squares, const Array &x, const Array &weight, ArrayAttr dims) {
  std::vector<NamedSize> order, inner; // as the weight has them
  for (const NamedSize &dim : weight.getDims())
    if (llvm::is_contained(names(dims), StringRef(dim.name)))
      inner.push_back(dim);
  for (const NamedSize &dim : x.getDims())
    if (llvm::none_of(inner, [&](const NamedSize &one) { return one.name == dim.name; }))
      order.push_back(dim);
  order.insert(order.end(), inner.begin(), inner.end());
  Array aligned = x.asReal().aligned(order);
  const int64_t length = countOf(inner), rows = aligned.getCount() / length;
  if (squares.sums.empty())
    squares.sums.resize(size_t(length));
  if (int64_t(squares.sums.size()) != length) // another product sums over its other dimension
    return;
  for (int64_t i = 0; i < rows * length; ++i)
    squares.sums[size_t(i % length)] += aligned.reals()[i] * aligned.reals()[i];
  squares.rows += rows;
}

} // namespace

Importance importanceOf(ModuleOp resolved, const std::string &weights, const TextRows &rows) {
  std::map<std::string, Squares> squares;
  support::TemporaryFolder work;
  InterpretOptions options;
  options.weights = weights;
  options.input = work.path() + "/tokens";
  options.function = "forward";
  options.observer = [&](Operation *op, ArrayRef<Array> operands, ArrayRef<Array>, const Interpreter &interpreter) {
    auto contract = dyn_cast<ContractOp>(op);
    for (unsigned side = 0; contract && side < 2; ++side) {
      ParamOp param = parameterOf(contract->getOperand(side));
      if (!param || !param.getStacked().empty())
        continue;
      ArrayAttr paths = param.getPaths();
      auto names = cast<ArrayAttr>(paths[paths.size() == 1 ? 0 : unsigned(interpreter.getIteration())]);
      for (Attribute name : names)
        add(squares[cast<StringAttr>(name).getValue().str()], operands[1 - side], operands[side], contract.getDims());
    }
  };
  for (const std::vector<int> &row : rows.rows) {
    std::vector<int32_t> tokens(row.begin(), row.end());
    runtime::writeSafetensors(options.input,
                              {{"tokens", runtime::Dtype::I32, {1, int64_t(tokens.size())}, tokens.data()}});
    if (interpretMain(resolved, options))
      throw support::UserError("the interpreter cannot read the text of --importance with this model");
  }
  Importance result;
  for (const auto &[name, one] : squares) {
    std::vector<float> &means = result[name];
    for (double sum : one.sums)
      means.push_back(float(sum / double(std::max<int64_t>(1, one.rows))));
  }
  return result;
}

} // namespace quern::tools
