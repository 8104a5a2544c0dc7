// Takes: arrays by name, stored tensors by callback. Gives: the values of a function's arguments and parameters, and
// the run-time lengths that follow from them.
#include "ir/reference/Interpreter.h"
#include "support/numbers/SmallFloats.h"

#include "ir/Chunk.h"
#include "ir/analysis/Window.h"

using namespace mlir;
using namespace quern::ir;

// ---- symbols and inputs

int64_t Interpreter::valueOf(const Size &size) const {
  return size.evaluate([&](const std::string &symbol) {
    if (std::optional<int64_t> window = windowOf(symbol))
      return std::min(past, *window);
    return symbols.at(symbol);
  });
}

std::vector<NamedSize> Interpreter::sizesOf(NamedTensorType type) const {
  std::vector<NamedSize> sizes;
  for (DimAttr dim : type.getDims())
    sizes.push_back({dim.getName().str(), valueOf(dim.getSize())});
  return sizes;
}

/// Symbols take the sizes of the inputs whose dimension is just that symbol; `past` is 0 and `cap` ample if not bound.
LogicalResult Interpreter::bindInputs(func::FuncOp function, const Inputs &inputs) {
  symbols = bound;
  std::string expected;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    expected += (i ? ", " : "") + argumentName(function, i).str();
  for (const auto &[name, array] : inputs) {
    int64_t index = -1;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (argumentName(function, i) == name)
        index = i;
    if (index < 0)
      return function.emitError("unknown input '") << name << "'; the function takes " << expected;
    auto type = typeOf(function.getArgument(index));
    if (array.getKind() != type.getKind())
      return function.emitError("input '")
             << name << "' is " << kindName(array.getKind()) << ", not " << kindName(type.getKind());
    if (array.getDims().size() != type.getRank() ||
        !llvm::all_of(type.getDims(), [&](DimAttr dim) { return array.find(dim.getName()) >= 0; }))
      return function.emitError("input '") << name << "' is " << describe(array.getDims()) << ", not " << type;
    for (DimAttr dim : type.getDims())
      if (auto symbol = dim.getSize().asSymbol())
        symbols.try_emplace(*symbol, array.sizeOf(dim.getName()));
  }
  // Reported before the lengths, which are unknown because of it.
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (StringRef name = argumentName(function, i); !inputs.count(name.str()) && !defaultOf(function, i))
      return function.emitError("input '") << name << "' is missing";
  past = symbols.try_emplace("past", 0).first->second;
  int64_t largest = 0;
  for (const auto &[symbol, value] : symbols)
    largest = std::max(largest, value);
  symbols.try_emplace("cap", past + largest);
  if (failed(checkSymbols(function)))
    return failure();
  for (const auto &[name, array] : inputs)
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (argumentName(function, i) == name)
        for (const NamedSize &dim : sizesOf(typeOf(function.getArgument(i))))
          if (array.sizeOf(dim.name) != dim.size)
            return function.emitError("input '")
                   << name << "' is " << array.sizeOf(dim.name) << " long along " << dim.name << ", not " << dim.size;
  return success();
}

/// An error unless every symbol that `root` mentions has a value.
LogicalResult Interpreter::checkSymbols(Operation *root) {
  auto known = [&](Operation *op, const Size &size) -> LogicalResult {
    for (const std::string &symbol : size.symbols())
      if (!symbols.count(symbol) && !windowOf(symbol) && !chunkOf(symbol))
        return op->emitError("the run-time length ") << symbol << " follows from no input";
    return success();
  };
  auto knownTypes = [&](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types)
      if (auto tensor = dyn_cast<NamedTensorType>(type))
        for (DimAttr dim : tensor.getDims())
          if (failed(known(op, dim.getSize())))
            return failure();
    return success();
  };
  WalkResult result = root->walk([&](Operation *op) -> WalkResult {
    if (auto function = dyn_cast<func::FuncOp>(op))
      if (failed(knownTypes(op, function.getArgumentTypes())))
        return failure();
    if (auto size = dyn_cast<SizeOp>(op))
      if (failed(known(op, size.getPolynomial())))
        return failure();
    if (auto cut = dyn_cast<CutOp>(op))
      if (failed(known(op, cut.getOffsetSize())))
        return failure();
    if (auto gradient = dyn_cast<AttentionGradientOp>(op); gradient && gradient.isAlongDistance())
      if (failed(known(op, gradient.getOffsetSize())))
        return failure();
    return knownTypes(op, op->getResultTypes());
  });
  return failure(result.wasInterrupted());
}

FailureOr<Array> Interpreter::inputFor(func::FuncOp function, unsigned index, const Inputs &inputs) {
  std::vector<NamedSize> sizes = sizesOf(typeOf(function.getArgument(index)));
  StringRef name = argumentName(function, index);
  if (auto given = inputs.find(name.str()); given != inputs.end())
    return given->second.aligned(sizes);
  func::FuncOp fallback = defaultOf(function, index); // bindInputs saw to it that there is one
  std::vector<Array> value;
  if (failed(checkSymbols(fallback)) || failed(runBlock(fallback.getBody().front(), {}, value)))
    return failure();
  return value.at(0).aligned(sizes);
}

// ---- parameters

/// `name` with `{E}` replaced by the position along E.
static std::string nameAt(StringRef name, const std::map<std::string, int64_t> &positions) {
  std::string text = name.str();
  for (const auto &[label, position] : positions)
    for (size_t at; (at = text.find("{" + label + "}")) != std::string::npos;)
      text.replace(at, label.size() + 2, std::to_string(position));
  return text;
}

void quern::ir::forEachStored(ParamOp op, unsigned iteration,
                              llvm::function_ref<void(ArrayRef<std::string>, ArrayRef<int64_t>)> use) {
  SmallVector<StringRef> alternatives = names(cast<ArrayAttr>(op.getPaths()[iteration]));
  std::vector<NamedSize> stacked;
  SmallVector<int64_t> shape;
  size_t leading = op.getStacked().size();
  for (auto [i, dim] : llvm::enumerate(op.getResult().getType().getDims())) // all static: param_c2
    if (i < leading)
      stacked.push_back({dim.getName().str(), *dim.getStatic()});
    else
      shape.push_back(*dim.getStatic());
  for (int64_t i = 0, parts = countOf(stacked); i < parts; ++i) {
    std::map<std::string, int64_t> positions;
    int64_t rest = i;
    for (const NamedSize &dim : llvm::reverse(stacked)) {
      positions[dim.name] = rest % dim.size;
      rest /= dim.size;
    }
    SmallVector<std::string> full;
    for (StringRef name : alternatives)
      full.push_back(nameAt(name, positions));
    use(full, shape);
  }
}

LogicalResult Interpreter::lookupParameter(ParamOp op, std::vector<Array> &results) {
  if (!parameters)
    return op.emitError("the interpreter was given no parameters");
  unsigned count = op.getIterations();
  if (count != 1 && iteration >= count)
    return op.emitError("names for ") << count << " iterations, but this is iteration " << iteration + 1;
  std::vector<NamedSize> dims = sizesOf(op.getResult().getType());
  std::vector<double> numbers;
  LogicalResult status = success();
  forEachStored(op, count == 1 ? 0 : iteration, [&](ArrayRef<std::string> names, ArrayRef<int64_t> shape) {
    std::optional<std::vector<double>> part = parameters(names, shape);
    if (!part)
      status = op.emitError("Q042: the parameters have no '") << names.front() << "' of this shape";
    else if (numbers.empty())
      numbers = std::move(*part);
    else
      numbers.insert(numbers.end(), part->begin(), part->end());
  });
  if (failed(status))
    return failure();
  if (static_cast<int64_t>(numbers.size()) != countOf(dims))
    return op.emitError("Q042: the parameter has ") << numbers.size() << " numbers, not " << countOf(dims);
  if (NamedTensorType type = op.getResult().getType(); type.isNarrow()) { // the copy that kernels read
    Array narrow(Kind::Real, std::move(dims));
    bool half = type.getStorage() == Storage::F16;
    llvm::transform(numbers, narrow.writeReals(), [&](double x) {
      float number = static_cast<float>(x);
      using namespace quern::support;
      return half ? halfToFloat(floatToHalf(number)) : bf16ToFloat(floatToBF16(number));
    });
    results.push_back(std::move(narrow));
    return success();
  }
  results.emplace_back(std::move(dims), std::move(numbers));
  return success();
}
