// Takes: a function of the dialect, inputs by name, parameters by callback. Gives: its results in double precision.
// Why it follows the IR so literally: it judges passes and kernels, so it must have no cleverness of its own. It only
// drops values after their last use, or whole models would not fit.
#include "ir/reference/Interpreter.h"

#include "ir/Chunk.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace quern::ir;

FailureOr<std::vector<Array>> Interpreter::run(func::FuncOp function, const Inputs &inputs) {
  values.clear();
  lastUses.clear(); // passes may have changed the module since the last run
  iteration = 0;
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
    observer(&op, operands, results);
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

/// The part of a stack that begins at `start` in its first dimension, `count` long there; without that dimension if it
/// counts iterations.
static Array takeFrom(const Array &stack, int64_t start, std::vector<NamedSize> dims) {
  int64_t count = 1;
  for (const NamedSize &dim : dims)
    count *= dim.size;
  if (stack.isReal()) {
    Array part(stack.getKind(), std::move(dims));
    std::copy_n(stack.reals() + start, count, part.writeReals());
    return part;
  }
  return Array(stack.getKind(), std::move(dims),
               std::vector<int64_t>(stack.ints() + start, stack.ints() + start + count));
}

/// Puts one iteration's part (in the stack's order) where it belongs.
static void putOnStack(Array &stack, int64_t start, const Array &part) {
  if (stack.isReal())
    std::copy_n(part.reals(), part.getCount(), stack.writeReals() + start);
  else
    std::copy_n(part.ints(), part.getCount(), stack.writeInts() + start);
}

LogicalResult Interpreter::runRepeat(RepeatOp op, ArrayRef<Array> operands, std::vector<Array> &results) {
  std::optional<Chunk> chunk = chunkOf(op);
  int64_t outer = iteration, rows = chunk ? valueOf(chunk->rows) : 0,
          iterations = chunk ? chunk->iterations(rows) : static_cast<int64_t>(op.getIterations());
  unsigned carriedCount = op.getCarriedCount();
  llvm::scope_exit restore([&] { iteration = outer; });
  // Values keep their set of dimensions; the order of storage follows each place's type.
  auto inOrderOf = [&](TypeRange types, std::vector<Array> arrays) {
    for (auto [array, type] : llvm::zip(arrays, types))
      array = array.aligned(sizesOf(cast<NamedTensorType>(type)));
    return arrays;
  };
  auto partSizes = [&](Type stack) { return sizesOf(partOfStack(op, cast<NamedTensorType>(stack))); };
  auto start = [&](Type stack, int64_t number) {
    return number * valueOf(iterationStride(op, cast<NamedTensorType>(stack)));
  };
  std::vector<Array> carried(operands.begin(), operands.begin() + carriedCount), given;
  TypeRange resultTypes = op.getResultTypes(), stackTypes = op.getStacks().getTypes(),
            givenTypes = resultTypes.drop_front(carriedCount);
  for (Type type : givenTypes)
    given.push_back(make(cast<NamedTensorType>(type)));
  for (int64_t i = 0; i < iterations; ++i) {
    int64_t number = op.getReversed() ? iterations - 1 - i : i;
    if (chunk) // parameters are not of an iteration
      symbols[chunkLength(chunk->most, chunk->rows)->str()] = std::min(chunk->most, rows - i * chunk->most);
    else
      iteration = outer * iterations + number;
    std::vector<Array> arguments = std::move(carried), next;
    for (auto [stack, type] : llvm::zip(operands.drop_front(carriedCount), stackTypes))
      arguments.push_back(takeFrom(stack, start(type, number), partSizes(type)));
    if (failed(runBlock(op.getBlock(), inOrderOf(op.getBlock().getArgumentTypes(), std::move(arguments)), next)))
      return failure();
    for (auto [stack, part, type] : llvm::zip(given, ArrayRef<Array>(next).drop_front(carriedCount), givenTypes))
      putOnStack(stack, start(type, number), part.aligned(partSizes(type)));
    next.resize(carriedCount);
    carried = std::move(next);
  }
  results = inOrderOf(resultTypes.take_front(carriedCount), std::move(carried));
  llvm::append_range(results, given);
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
    if (auto made = onceResults.find({op, iteration}); made != onceResults.end()) {
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
    onceResults[{op, iteration}] = results;
  return success();
}

const Array *Interpreter::recall(StringRef state) const {
  if (past == 0)
    return nullptr;
  auto kept = memory.find({state.str(), iteration});
  return kept == memory.end() ? nullptr : &kept->second;
}
