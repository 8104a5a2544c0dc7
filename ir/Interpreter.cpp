// Takes: a function of the dialect, inputs by name, parameters by callback. Gives: its results in double precision.
// Why it follows the IR so literally: it judges passes and kernels, so it must have no cleverness of its own. It only
// drops values after their last use, or whole models would not fit.
#include "ir/Interpreter.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace quern::ir;

StringRef quern::ir::argumentName(func::FuncOp function, unsigned index) {
  auto name = function.getArgAttrOfType<StringAttr>(index, "quern.name");
  return name ? name.getValue() : StringRef();
}

StringRef quern::ir::resultName(func::FuncOp function, unsigned index) {
  auto name = function.getResultAttrOfType<StringAttr>(index, "quern.name");
  return name ? name.getValue() : StringRef();
}

func::FuncOp quern::ir::defaultOf(func::FuncOp function, unsigned index) {
  if (auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(index, "quern.default"))
    return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(function, symbol);
  std::string name = (function.getName() + ".default." + argumentName(function, index)).str();
  return function->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(name);
}

// ---- symbols and inputs

int64_t Interpreter::valueOf(const Size &size) const {
  return size.evaluate([&](const std::string &symbol) { return symbols.at(symbol); });
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
      return function.emitError("input '") << name << "' is " << stringifyKind(array.getKind()) << ", not "
                                           << stringifyKind(type.getKind());
    if (array.getDims().size() != type.getRank() ||
        !llvm::all_of(type.getDims(), [&](DimAttr dim) { return array.find(dim.getName()) >= 0; }))
      return function.emitError("input '") << name << "' is " << describe(array.getDims()) << ", not " << type;
    for (DimAttr dim : type.getDims())
      if (auto symbol = dim.getSize().asSymbol())
        symbols.try_emplace(*symbol, array.sizeOf(dim.getName()));
  }
  // Told before the lengths, which are unknown because of it.
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
            return function.emitError("input '") << name << "' is " << array.sizeOf(dim.name) << " long along "
                                                 << dim.name << ", not " << dim.size;
  return success();
}

/// An error unless every symbol that `root` mentions has a value.
LogicalResult Interpreter::checkSymbols(Operation *root) {
  auto known = [&](Operation *op, const Size &size) -> LogicalResult {
    for (const std::string &symbol : size.symbols())
      if (!symbols.count(symbol))
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

FailureOr<std::vector<Array>> Interpreter::run(func::FuncOp function, const Inputs &inputs) {
  values.clear();
  lastUses.clear(); // passes may have changed the module since the last run
  turn = 0;
  if (failed(bindInputs(function, inputs)))
    return failure();
  std::vector<Array> arguments, results;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    FailureOr<Array> argument = inputFor(function, i, inputs);
    if (failed(argument))
      return failure();
    arguments.push_back(std::move(*argument));
  }
  if (failed(runBlock(function.getBody().front(), arguments, results)))
    return failure();
  return results;
}

// ---- blocks

/// Finds, for each operation of the block, the block's own values that nothing later needs, and drops them.
void Interpreter::release(Block &block, Operation &op) {
  auto [entry, fresh] = lastUses.try_emplace(&block);
  if (fresh) {
    llvm::DenseMap<Value, Operation *> last;
    for (Operation &user : block)
      user.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (operand.getParentBlock() == &block)
            last[operand] = &user;
      });
    for (auto [value, user] : last)
      entry->second[user].push_back(value);
  }
  if (auto dead = entry->second.find(&op); dead != entry->second.end())
    for (Value value : dead->second)
      values.erase(value);
}

LogicalResult Interpreter::runOp(Operation &op) {
  auto reference = dyn_cast<ReferenceOpInterface>(op);
  if (!reference)
    return op.emitError("has no reference evaluation");
  std::vector<Array> operands, results;
  for (Value operand : op.getOperands())
    operands.push_back(values.at(operand));
  if (failed(reference.evaluate(operands, *this, results)))
    return failure();
  assert(results.size() == op.getNumResults() && "one array for each result");
  for (auto [value, array] : llvm::zip(op.getResults(), results)) {
    assert(array.getDims() == sizesOf(typeOf(value)) && array.getKind() == typeOf(value).getKind() &&
           "a result is as its type says");
    if (!value.use_empty())
      values[value] = array;
  }
  if (observer)
    observer(&op, results);
  return success();
}

LogicalResult Interpreter::runBlock(Block &block, ArrayRef<Array> arguments, std::vector<Array> &results) {
  for (auto [argument, array] : llvm::zip(block.getArguments(), arguments))
    values[argument] = array;
  for (Operation &op : block.without_terminator()) {
    if (failed(runOp(op)))
      return failure();
    release(block, op);
  }
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(values.at(value));
  release(block, *block.getTerminator());
  return success();
}

LogicalResult Interpreter::runRepeat(RepeatOp op, ArrayRef<Array> inits, std::vector<Array> &results) {
  int64_t outer = turn, turns = op.getTurns();
  llvm::scope_exit restore([&] { turn = outer; });
  // Carried values keep their set of dimensions; the order of storage follows each place's type.
  auto inOrderOf = [&](TypeRange types, std::vector<Array> arrays) {
    for (auto [array, type] : llvm::zip(arrays, types))
      array = array.aligned(sizesOf(cast<NamedTensorType>(type)));
    return arrays;
  };
  std::vector<Array> carried(inits.begin(), inits.end());
  for (int64_t i = 0; i < turns; ++i) {
    turn = outer * turns + i;
    std::vector<Array> next;
    if (failed(runBlock(op.getBlock(), inOrderOf(op.getBlock().getArgumentTypes(), std::move(carried)), next)))
      return failure();
    carried = std::move(next);
  }
  results = inOrderOf(op.getResultTypes(), std::move(carried));
  return success();
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

void quern::ir::forEachStored(ParamOp op, unsigned turn,
                              llvm::function_ref<void(ArrayRef<std::string>, ArrayRef<int64_t>)> use) {
  SmallVector<StringRef> alternatives = names(cast<ArrayAttr>(op.getPaths()[turn]));
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
  unsigned count = op.getTurns();
  if (count != 1 && turn >= count)
    return op.emitError("names for ") << count << " turns, but this is turn " << turn + 1;
  std::vector<NamedSize> dims = sizesOf(op.getResult().getType());
  std::vector<double> numbers;
  LogicalResult status = success();
  forEachStored(op, count == 1 ? 0 : turn, [&](ArrayRef<std::string> names, ArrayRef<int64_t> shape) {
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
  results.emplace_back(std::move(dims), std::move(numbers));
  return success();
}

// ---- kernels and memory

/// At the border of a kernel names change; sizes and the order of storage do not.
LogicalResult Interpreter::relabel(LaunchOp op, std::vector<Array> &arrays, TypeRange types) {
  if (arrays.size() != types.size())
    return op.emitError("the kernel takes or gives ") << types.size() << " values, the launch " << arrays.size();
  for (auto [array, type] : llvm::zip(arrays, types)) {
    std::vector<NamedSize> inside = sizesOf(cast<NamedTensorType>(type));
    if (!llvm::equal(array.getDims(), inside, [](const auto &a, const auto &b) { return a.size == b.size; }) ||
        array.getKind() != cast<NamedTensorType>(type).getKind())
      return op.emitError("the kernel's ") << describe(inside) << " meets the launch's " << describe(array.getDims());
    array = array.relabelled(inside);
  }
  return success();
}

LogicalResult Interpreter::runLaunch(LaunchOp op, ArrayRef<Array> inputs, std::vector<Array> &results) {
  // `once`: what the first call of a request made serves the following ones.
  if (op.getOnce() && past > 0)
    if (auto made = onceResults.find({op, turn}); made != onceResults.end()) {
      results = made->second;
      return success();
    }
  auto kernel = symbolTables.lookupNearestSymbolFrom<KernelOp>(op, op.getKernelAttr());
  if (!kernel)
    return op.emitError("there is no kernel ") << op.getKernel();
  // Inside only the kernel's own symbols are known.
  SmallVector<std::string> inner = kernel.getSymbols();
  SmallVector<StringRef> sizes = names(op.getSymbols());
  if (inner.size() != sizes.size())
    return op.emitError("the kernel has ") << inner.size() << " run-time symbols, the launch gives " << sizes.size();
  std::map<std::string, int64_t> scope;
  for (auto [symbol, text] : llvm::zip(inner, sizes))
    scope[symbol] = valueOf(*Size::parse(text));
  std::swap(scope, symbols);
  std::vector<Array> arguments(inputs.begin(), inputs.end()), made;
  LogicalResult status = success(succeeded(relabel(op, arguments, kernel.getBlock().getArgumentTypes())) &&
                                 succeeded(runBlock(kernel.getBlock(), arguments, made)));
  std::swap(scope, symbols);
  if (failed(status) || failed(relabel(op, made, op.getResultTypes())))
    return failure();
  results = std::move(made);
  if (op.getOnce())
    onceResults[{op, turn}] = results;
  return success();
}

const Array *Interpreter::recall(StringRef state) const {
  if (past == 0)
    return nullptr;
  auto kept = memory.find({state.str(), turn});
  return kept == memory.end() ? nullptr : &kept->second;
}
