// Takes: a module, files of weights and inputs. Gives: a file of results, computed by the reference interpreter.
#include "tools/interpret/Interpret.h"

#include "ir/Attributes.h"
#include "ir/reference/Interpreter.h"
#include "runtime/weights/Adapter.h"
#include "support/Error.h"
#include "tools/interpret/InitialValues.h"
#include "tools/interpret/InterpretDiagnostics.h"
#include "tools/interpret/InterpretSafetensors.h"
#include "tools/interpret/TensorText.h"
#include "tools/interpret/Training.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cstring>
#include <iostream>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;

namespace {

/// "[2, 5]"
std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// The run of one or two functions: what is read, what each gives, what is written.
class Run {
public:
  Run(ModuleOp module, const InterpretOptions &options) : module(module), options(options), interpreter(module) {}
  /// Throws support::UserError; failure after a diagnostic.
  LogicalResult run();

private:
  FailureOr<SmallVector<func::FuncOp>> chooseFunctions();
  LogicalResult checkInputNames(ArrayRef<func::FuncOp> functions);
  LogicalResult checkParameters(func::FuncOp function);
  LogicalResult inputsOf(func::FuncOp function, Interpreter::Inputs &inputs);
  LogicalResult runFunction(func::FuncOp function);
  const StoredTensor *stored(ArrayRef<std::string> names, std::string &found);
  void keepResult(StringRef name, const Array &array);

  ModuleOp module;
  const InterpretOptions &options;
  Interpreter interpreter;
  std::unique_ptr<SafetensorsFiles> weights, adapter, inputs;
  std::map<std::string, Array> made; // results so far, by name
  std::map<std::string, std::vector<double>> initial;
  std::map<std::string, OutputTensor> outputs;
};

LogicalResult fail(const Twine &message) {
  llvm::errs() << "error: " << quern::support::printableLines(message.str()) << "\n";
  return failure();
}

FailureOr<SmallVector<func::FuncOp>> Run::chooseFunctions() {
  auto get = [&](StringRef name) { return module.lookupSymbol<func::FuncOp>(name); };
  auto encode = get("encode"), decode = get("decode");
  SmallVector<func::FuncOp> functions;
  if (!options.function.empty()) {
    func::FuncOp function = get(options.function);
    if (!function) {
      std::string known;
      for (auto other : module.getOps<func::FuncOp>())
        known += (known.empty() ? "" : ", ") + other.getName().str();
      return fail("the model has no function '" + options.function + "'; it has " + known);
    }
    functions.push_back(function);
  } else if (func::FuncOp forward = get("forward")) {
    functions.push_back(forward);
  } else if (encode && decode) {
    functions = {encode, decode};
  } else {
    return fail("the model has neither forward nor encode and decode; name a function with --function");
  }
  // A decoder alone needs what an encoder gives: from the input, or from the encoder.
  auto isEncoded = [&](StringRef name) {
    for (unsigned i = 0; i < encode.getNumResults(); ++i)
      if (resultName(encode, i) == name)
        return true;
    return name == "memory";
  };
  if (functions.size() == 1 && encode && functions[0] != encode)
    for (unsigned i = 0; i < functions[0].getNumArguments(); ++i)
      if (StringRef name = argumentName(functions[0], i); isEncoded(name) && !(inputs && inputs->find(name.str()))) {
        functions.insert(functions.begin(), encode);
        break;
      }
  return functions;
}

LogicalResult Run::checkInputNames(ArrayRef<func::FuncOp> functions) {
  if (!inputs)
    return success();
  llvm::StringSet<> known;
  std::string list;
  for (func::FuncOp function : functions)
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (StringRef name = argumentName(function, i); known.insert(name).second)
        list += (list.empty() ? "" : ", ") + name.str();
  LogicalResult status = success();
  for (const auto &[name, tensor] : inputs->getTensors())
    if (!known.contains(name))
      status = fail(options.input + ": unknown input '" + name + "'; expected are " + list);
  return status;
}

// ---- parameters

const StoredTensor *Run::stored(ArrayRef<std::string> names, std::string &found) {
  for (const std::string &name : names)
    if (const StoredTensor *tensor = weights ? weights->find(name) : nullptr)
      return found = name, tensor;
  for (const std::string &name : names)
    if (const StoredTensor *tensor = adapter ? adapter->find(quern::runtime::adapterPrefix + name) : nullptr)
      return found = name, tensor;
  return nullptr;
}

/// Q042 for each parameter of the function that the checkpoint lacks or has in another shape.
LogicalResult Run::checkParameters(func::FuncOp function) {
  LogicalResult status = success();
  if (!weights && options.seed)
    return initial.merge(initialValues(function, *options.seed)), success();
  function.walk([&](ParamOp op) {
    auto check = [&](ArrayRef<std::string> names, ArrayRef<int64_t> shape) {
      std::string found;
      const StoredTensor *tensor = stored(names, found);
      if (InitAttr init = op.getInitAttr(); !tensor && init && init.getIfAbsent())
        initial[names.front()] = initialNumbers(op, names.front(), shape, 0);
      else if (!tensor && op->hasAttr(adapterAttr))
        initial[names.front()] = std::vector<double>(size_t(llvm::product_of(shape)));
      else if (!tensor)
        status = op.emitError("Q042: the weights have no '") << llvm::join(names, "' or '") << "'";
      else if (ArrayRef<int64_t>(tensor->shape) != shape)
        status = op.emitError("Q042: '") << found << "' is " << shapeText(tensor->shape) << " in the weights, but "
                                         << shapeText(shape) << " here";
      else if (!tensor->isFloat())
        status = op.emitError("Q042: '") << found << "' is of type " << tensor->dtype << ", not real";
    };
    for (unsigned iteration = 0; iteration < op.getIterations(); ++iteration)
      forEachStored(op, iteration, check);
  });
  return status;
}

// ---- inputs and results

LogicalResult Run::inputsOf(func::FuncOp function, Interpreter::Inputs &given) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::string name = argumentName(function, i).str();
    const StoredTensor *tensor = inputs ? inputs->find(name) : nullptr;
    NamedTensorType type = typeOf(function.getArgument(i));
    if (!tensor) {
      // The encoder's memory is [B, T, D] where it is made and [B, S, D] where it is read.
      if (auto result = made.find(name); result != made.end() && result->second.getDims().size() == type.getRank()) {
        std::vector<NamedSize> dims = result->second.getDims();
        for (auto [dim, own] : llvm::zip(dims, type.getDims()))
          dim.name = own.getName().str();
        given[name] = result->second.relabelled(dims);
      }
      continue; // absent: the interpreter takes the default or reports that it is missing
    }
    if (tensor->shape.size() != type.getRank())
      return fail(options.input + ": '" + name + "' is " + shapeText(tensor->shape) + ", but has " +
                  Twine(type.getRank()) + " dimensions");
    std::vector<NamedSize> dims;
    for (auto [dim, size] : llvm::zip(type.getDims(), tensor->shape))
      dims.push_back({dim.getName().str(), size});
    if (type.isReal()) {
      given[name] = Array(dims, tensor->asDoubles());
      continue;
    }
    if (tensor->isFloat())
      return fail(options.input + ": '" + name + "' is of type " + tensor->dtype + ", not " +
                  quern::support::kindName(type.getKind()));
    std::vector<int64_t> numbers = tensor->asInts();
    if (type.isBool())
      for (int64_t &number : numbers)
        number = number != 0;
    given[name] = Array(type.getKind(), dims, std::move(numbers));
  }
  return success();
}

void Run::keepResult(StringRef name, const Array &array) {
  OutputTensor tensor;
  for (const NamedSize &dim : array.getDims())
    tensor.shape.push_back(dim.size);
  int64_t count = array.getCount();
  if (array.isReal()) {
    tensor.dtype = "F64";
    tensor.bytes.assign(reinterpret_cast<const char *>(array.reals()), count * sizeof(double));
  } else if (array.getKind() == Kind::Int) {
    tensor.dtype = "I64";
    tensor.bytes.assign(reinterpret_cast<const char *>(array.ints()), count * sizeof(int64_t));
  } else {
    tensor.dtype = "BOOL";
    tensor.bytes.assign(array.ints(), array.ints() + count);
  }
  outputs[name.str()] = std::move(tensor);
  if (options.print)
    std::cout << tensorText(name.str(), array);
  made[name.str()] = array;
}

LogicalResult Run::runFunction(func::FuncOp function) {
  Interpreter::Inputs given;
  if (failed(inputsOf(function, given)) || failed(shiftToNextToken(function, given)))
    return failure();
  FailureOr<std::vector<Array>> results = interpreter.run(function, given);
  if (failed(results))
    return failure();
  for (StoredGradient &gradient : storedGradients(function, *results)) {
    std::vector<NamedSize> dims;
    for (int64_t size : gradient.shape)
      dims.push_back({"", size});
    std::string found = gradient.names.front();
    stored(gradient.names, found);
    keepResult("grad." + found, Array(std::move(dims), std::move(gradient.numbers)));
  }
  for (auto [i, array] : llvm::enumerate(*results)) {
    if (function.getResultAttr(i, gradientAttr))
      continue;
    std::string name = resultName(function, i).str();
    if (name.empty()) // the names that `eval` gives
      name = function.getName() == "encode" ? "memory" : "logits";
    keepResult(name, array);
  }
  return success();
}

LogicalResult Run::run() {
  if (!options.input.empty())
    inputs = std::make_unique<SafetensorsFiles>(options.input);
  FailureOr<SmallVector<func::FuncOp>> functions = chooseFunctions();
  if (failed(functions) || failed(checkInputNames(*functions)))
    return failure();
  if (!options.weights.empty())
    weights = std::make_unique<SafetensorsFiles>(options.weights);
  if (!options.adapter.empty())
    adapter = std::make_unique<SafetensorsFiles>(options.adapter);
  LogicalResult status = success();
  for (func::FuncOp function : *functions)
    if (failed(checkParameters(function)))
      status = failure();
  if (failed(status))
    return failure();
  interpreter.setParameters([&](ArrayRef<std::string> names, ArrayRef<int64_t>) -> std::optional<std::vector<double>> {
    std::string found;
    if (const StoredTensor *tensor = stored(names, found))
      return tensor->asDoubles();
    auto made = initial.find(names.front());
    return made == initial.end() ? std::nullopt : std::optional(made->second);
  });
  for (const auto &[symbol, value] : options.symbols)
    interpreter.bind(symbol, value);
  if (options.observer || !options.named.empty())
    interpreter.setObserver([&](Operation *op, ArrayRef<Array> operands, ArrayRef<Array> results) {
      if (options.observer)
        options.observer(op, operands, results, interpreter);
      if (!options.named.empty())
        for (auto [value, array] : llvm::zip(op->getResults(), results))
          if (auto named = options.named.find(value); named != options.named.end())
            for (const std::string &name : named->second)
              std::cout << tensorText(name, array);
    });
  for (func::FuncOp function : *functions)
    if (failed(runFunction(function)))
      return failure();
  if (options.results)
    *options.results = made;
  if (!options.output.empty())
    writeSafetensors(options.output, outputs);
  return success();
}

} // namespace

int quern::tools::interpretMain(ModuleOp module, const InterpretOptions &options) {
  std::optional<SpecDiagnostics> diagnostics;
  if (!options.quiet)
    diagnostics.emplace(module.getContext());
  try {
    return failed(Run(module, options).run());
  } catch (const quern::support::UserError &error) {
    if (options.quiet)
      throw std::runtime_error(error.what());
    llvm::errs() << "error: " << quern::support::printableLines(error.what()) << "\n";
    return 1;
  }
}
