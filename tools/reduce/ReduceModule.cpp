// Takes: a module as text. Gives: a smaller one that is as interesting.
// How: one kind of change at a time, on halves of all places, then quarters, down to single ones; what nothing uses any
// more is dropped before each look, so that one change takes its whole tail along.
#include "tools/reduce/Reduce.h"

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/RegionUtils.h"

#include <stdexcept>

using namespace mlir;
using namespace quern::ir;

namespace {

/// Changes an operation, if this kind of change can; true if it did.
using Change = llvm::function_ref<bool(Operation *)>;

class Reducer {
public:
  Reducer(const std::string &text, const quern::tools::Interesting &interesting)
      : context(DialectRegistry(), MLIRContext::Threading::DISABLED), quiet(&context, [](Diagnostic &) {}),
        interesting(interesting), text(text) {
    context.loadDialect<QuernDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      throw std::runtime_error("the module cannot be read");
  }
  std::string run();

private:
  bool attempt(Change change, size_t begin, size_t end);
  bool reduceBy(Change change);

  MLIRContext context;
  ScopedDiagnosticHandler quiet; // candidates that do not verify are no news
  const quern::tools::Interesting &interesting;
  OwningOpRef<ModuleOp> module;
  std::string text;
};

/// All operations below the module, users before what they use.
std::vector<Operation *> operationsOf(ModuleOp module) {
  std::vector<Operation *> operations;
  module.walk([&](Operation *op) {
    if (op != module)
      operations.push_back(op);
  });
  std::reverse(operations.begin(), operations.end());
  return operations;
}

void dropUnused(ModuleOp module) {
  for (bool again = true; again;) {
    again = false;
    for (Operation *op : operationsOf(module)) {
      bool pure = isa<KernelOp>(op) ? SymbolTable::symbolKnownUseEmpty(op, module)
                                    : op->getNumResults() && op->use_empty() && !isa<RememberOp, LaunchOp>(op);
      if (!pure)
        continue;
      op->erase();
      again = true;
      break;
    }
  }
}

/// Applies `change` to places begin .. end - 1 of a copy, and keeps the copy if it is well-formed and interesting.
bool Reducer::attempt(Change change, size_t begin, size_t end) {
  OwningOpRef<ModuleOp> copy = module->clone();
  std::vector<Operation *> operations = operationsOf(*copy);
  llvm::DenseSet<Operation *> erased; // with what held them
  bool any = false;
  for (size_t i = begin; i < std::min(end, operations.size()); ++i) {
    bool gone = false;
    for (Operation *erasedOp : erased)
      gone |= erasedOp == operations[i];
    if (gone)
      continue;
    SmallVector<Operation *> inner;
    operations[i]->walk([&](Operation *op) { inner.push_back(op); });
    if (change(operations[i])) {
      any = true;
      erased.insert(inner.begin(), inner.end());
    }
  }
  if (!any)
    return false;
  dropUnused(*copy);
  if (failed(verify(*copy)))
    return false;
  std::string candidate;
  llvm::raw_string_ostream stream(candidate);
  (*copy)->print(stream, OpPrintingFlags().enableDebugInfo());
  candidate += "\n";
  if (!interesting(candidate))
    return false;
  module = std::move(copy);
  text = candidate;
  return true;
}

bool Reducer::reduceBy(Change change) {
  bool any = false;
  for (size_t count = std::max<size_t>(1, operationsOf(*module).size() / 2);; count /= 2) {
    for (size_t i = 0; i < operationsOf(*module).size();)
      if (attempt(change, i, i + count))
        any = true; // other operations stand there now
      else
        i += count;
    if (count <= 1)
      return any;
  }
}

bool replace(Operation *op, llvm::function_ref<Value(Value)> with) {
  if (!op->getNumResults() || op->hasTrait<OpTrait::IsTerminator>())
    return false;
  for (Value result : op->getResults()) {
    Value other = result.use_empty() ? result : with(result);
    if (!other)
      return false;
    if (other != result)
      result.replaceAllUsesWith(other);
  }
  op->erase();
  return true;
}

bool byOperand(Operation *op) {
  return replace(op, [&](Value result) -> Value {
    for (Value operand : op->getOperands())
      if (operand.getType() == result.getType())
        return operand;
    return {};
  });
}

bool byZeros(Operation *op) {
  if (isa<ConstOp>(op) || (isa<ExpandOp>(op) && op->getOperand(0).getDefiningOp<ConstOp>()))
    return false;
  return replace(op, [&](Value result) -> Value {
    auto type = dyn_cast<NamedTensorType>(result.getType());
    if (!type)
      return {};
    OpBuilder builder(op);
    Attribute zero = type.isReal()  ? Attribute(builder.getF64FloatAttr(0))
                     : type.isInt() ? Attribute(builder.getI64IntegerAttr(0))
                                    : Attribute(builder.getBoolAttr(false));
    Value scalar = ConstOp::create(builder, op->getLoc(), type.withDims({}), cast<TypedAttr>(zero)).getResult();
    return type.getRank() ? ExpandOp::create(builder, op->getLoc(), type, scalar).getResult() : scalar;
  });
}

/// The function gives this value alone, so all that comes after is not used any more.
bool byReturning(Operation *op) {
  auto function = dyn_cast<func::FuncOp>(op->getParentOp());
  if (!function || op->getNumResults() != 1 || !isa<NamedTensorType>(op->getResult(0).getType()))
    return false;
  Operation *end = function.front().getTerminator();
  if (end->getNumOperands() == 1 && end->getOperand(0) == op->getResult(0))
    return false;
  end->setOperands(op->getResults());
  DictionaryAttr attributes =
      end->getNumOperands() && function.getNumResults() ? function.getResultAttrDict(0) : DictionaryAttr();
  function.removeResAttrsAttr();
  function.setType(FunctionType::get(op->getContext(), function.getArgumentTypes(), op->getResultTypes()));
  if (attributes)
    function.setResultAttrs(0, attributes);
  return true;
}

/// A loop's first iteration in place of the loop.
bool byOneIteration(Operation *op) {
  auto repeat = dyn_cast<RepeatOp>(op);
  if (!repeat || repeat.getCarriedCount() != repeat->getNumOperands() ||
      repeat.getCarriedCount() != repeat->getNumResults())
    return false; // what goes on stacks has no place outside
  int64_t iterations = repeat.getIterations();
  repeat->walk([&](ParamOp param) {
    ArrayAttr paths = param.getPaths();
    if (iterations > 1 && static_cast<int64_t>(paths.size()) >= iterations)
      param.setPathsAttr(ArrayAttr::get(param.getContext(), paths.getValue().take_front(paths.size() / iterations)));
  });
  Block &body = repeat->getRegion(0).front();
  Operation *yield = body.getTerminator();
  for (auto [argument, init] : llvm::zip(body.getArguments(), repeat->getOperands()))
    argument.replaceAllUsesWith(init);
  SmallVector<Value> results(yield->getOperands());
  yield->erase();
  repeat->getBlock()->getOperations().splice(repeat->getIterator(), body.getOperations());
  repeat->replaceAllUsesWith(results);
  repeat->erase();
  return true;
}

bool byRemoval(Operation *op) {
  if (!isa<func::FuncOp, KernelOp, StateOp, StoreOp>(op))
    return false;
  op->erase();
  return true;
}

std::string Reducer::run() {
  for (bool again = true; again;) {
    again = reduceBy(byRemoval);
    again |= reduceBy(byOneIteration);
    again |= reduceBy(byReturning);
    again |= reduceBy(byOperand);
    again |= reduceBy(byZeros);
  }
  return text;
}

} // namespace

std::string quern::tools::reduceModule(const std::string &text, const Interesting &interesting) {
  return Reducer(text, interesting).run();
}
