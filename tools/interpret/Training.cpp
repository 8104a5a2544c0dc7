// Takes: inputs and results of @loss.grad. Gives: the inputs as the loss wants them, the results by stored tensor.
#include "tools/interpret/Training.h"

#include "ir/Attributes.h"
#include <random>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;

/// Columns `from`, `from` + 1 ... of the last dimension, one fewer than there are.
static Array shortened(const Array &x, int64_t from) {
  std::vector<NamedSize> dims = x.getDims();
  int64_t width = dims.back().size--, rows = x.getCount() / width;
  auto pick = [&](const auto *in, auto out) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i + 1 < width; ++i)
        out.push_back(in[r * width + from + i]);
    return out;
  };
  if (x.isReal())
    return Array(dims, pick(x.reals(), std::vector<double>()));
  return Array(x.getKind(), dims, pick(x.ints(), std::vector<int64_t>()));
}

LogicalResult quern::tools::shiftToNextToken(func::FuncOp loss, Interpreter::Inputs &inputs) {
  if (!loss->hasAttr(nextTokenAttr) || inputs.count("labels"))
    return success();
  std::string text = argumentName(loss, 0).str();
  auto tokens = inputs.find(text);
  if (tokens == inputs.end())
    return success(); // the interpreter reports what is missing
  inputs["labels"] = tokens->second;
  NamedSize time = tokens->second.getDims().back();
  if (time.size < 2)
    return loss.emitError("a row of '") << text << "' needs two tokens: one to see and one to predict";
  for (auto &[name, array] : inputs)
    if (!array.getDims().empty() && array.getDims().back() == time)
      array = shortened(array, name == "labels");
  return success();
}

std::vector<StoredGradient> quern::tools::storedGradients(func::FuncOp function, ArrayRef<Array> results) {
  std::vector<StoredGradient> gradients;
  for (auto [i, array] : llvm::enumerate(results)) {
    auto paths = function.getResultAttrOfType<ArrayAttr>(i, gradientAttr);
    if (!paths)
      continue;
    // In front of the parameter's own dimensions stand those of the loops: row-major, as the iterations are counted.
    auto type = cast<NamedTensorType>(function.getResultTypes()[i]);
    int64_t iterations = paths.size();
    ArrayRef<DimAttr> dims = type.getDims();
    for (int64_t rest = iterations; rest > 1; dims = dims.drop_front())
      rest /= *dims.front().getStatic();
    int64_t at = 0;
    OpBuilder builder(function.getContext());
    OwningOpRef<ParamOp> like = ParamOp::create(builder, function.getLoc(), type.withDims(dims), paths, InitAttr());
    for (int64_t iteration = 0; iteration < iterations; ++iteration)
      forEachStored(*like, iteration, [&](ArrayRef<std::string> names, ArrayRef<int64_t> shape) {
        int64_t count = 1;
        for (int64_t size : shape)
          count *= size;
        gradients.push_back({names.vec(), shape.vec(), {array.reals() + at, array.reals() + at + count}});
        at += count;
      });
  }
  return gradients;
}

int64_t quern::tools::positionsBelow(func::FuncOp function, BlockArgument argument) {
  int64_t below = 16;
  llvm::DenseSet<Value> made = {argument};
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto gather = dyn_cast<GatherOp>(op); gather && made.contains(gather.getPositions())) {
      if (std::optional<int64_t> size = typeOf(gather.getX()).dim(gather.getDim()).getStatic())
        below = std::min(below, *size);
    } else if (llvm::any_of(op->getOperands(), [&](Value operand) { return made.contains(operand); })) {
      made.insert_range(op->getResults());
      if (auto repeat = dyn_cast<RepeatOp>(op)) // what it takes apart, it looks up inside
        for (auto [operand, inner] : llvm::zip(repeat->getOperands(), repeat.getBlock().getArguments()))
          if (made.contains(operand))
            made.insert(inner);
    }
  });
  return below;
}

Interpreter::Inputs quern::tools::madeUpInputs(func::FuncOp function, Interpreter::Inputs inputs, int64_t batch,
                                               int64_t length) {
  std::mt19937_64 generator(7);
  for (BlockArgument argument : function.getArguments()) {
    std::string name = argumentName(function, argument.getArgNumber()).str();
    if (inputs.count(name) || defaultOf(function, argument.getArgNumber()))
      continue;
    std::vector<NamedSize> dims;
    for (auto [i, dim] : llvm::enumerate(typeOf(argument).getDims()))
      dims.push_back({dim.getName().str(), dim.getStatic().value_or(i == 0 ? batch : length)});
    int64_t count = countOf(dims), below = positionsBelow(function, argument);
    if (typeOf(argument).isReal()) {
      std::vector<double> numbers(count);
      for (double &number : numbers)
        number = std::normal_distribution<double>()(generator);
      inputs[name] = Array(dims, std::move(numbers));
      continue;
    }
    std::vector<int64_t> numbers(count);
    for (int64_t &number : numbers)
      number = typeOf(argument).isBool() ? 1 : static_cast<int64_t>(generator() % below);
    inputs[name] = Array(typeOf(argument).getKind(), dims, std::move(numbers));
  }
  return inputs;
}
