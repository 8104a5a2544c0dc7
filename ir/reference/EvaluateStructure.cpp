// Takes: parameters, loops, kernels. Gives: their values, by way of the interpreter, which has the state they need.
#include "ir/reference/Interpreter.h"

using namespace mlir;
using namespace quern::ir;

using Arrays = std::vector<Array>;

#define QUERN_EVALUATE(OP)                                                                                             \
  LogicalResult OP::evaluate([[maybe_unused]] ArrayRef<Array> operands, [[maybe_unused]] Interpreter &interpreter,     \
                             [[maybe_unused]] Arrays &results)

QUERN_EVALUATE(ParamOp) {
  return interpreter.lookupParameter(*this, results);
}
QUERN_EVALUATE(RepeatOp) {
  return interpreter.runRepeat(*this, operands, results);
}
QUERN_EVALUATE(LaunchOp) {
  return interpreter.runLaunch(*this, operands, results);
}

static bool sameSet(const std::vector<NamedSize> &a, const std::vector<NamedSize> &b) {
  return a.size() == b.size() && llvm::all_of(a, [&](const NamedSize &dim) { return llvm::is_contained(b, dim); });
}

QUERN_EVALUATE(RecallOp) {
  Array zeros = interpreter.make(getResult().getType());
  const Array *kept = interpreter.recall(getState());
  if (kept && (kept->getKind() != zeros.getKind() || !sameSet(kept->getDims(), zeros.getDims())))
    return emitError("the state ") << getState() << " is " << describe(kept->getDims()) << ", not "
                                   << describe(zeros.getDims());
  results.push_back(kept ? kept->aligned(zeros.getDims()) : zeros);
  return success();
}

QUERN_EVALUATE(StoreOp) {
  interpreter.keep(getState(), operands[0]);
  return success();
}

// Declarations do nothing where they stand, and who runs a body takes the terminator's operands itself.
QUERN_EVALUATE(StateOp) {
  return success();
}
QUERN_EVALUATE(KernelOp) {
  return success();
}
QUERN_EVALUATE(YieldOp) {
  return success();
}
