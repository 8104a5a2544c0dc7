// Takes: a function in which experts are computed for all and then the chosen ones are picked. Gives: the same, where the
// weights are picked and only the chosen experts are computed. Why: a step of one token then reads 2 experts of 8.
//
//   %h = quern.contract %x, %w over ["D"]   : [B, T, E, F]      %u = quern.gather %w["E" = %chosen]  : [B, T, C, F, D]
//   %a = quern.tanh %h                                     =>   %h = quern.contract %x, %u over ["D"] : [B, T, C, F]
//   %y = quern.gather %a["E" = %chosen]     : [B, T, C, F]      %y = quern.tanh %h
//
// Backwards from the gather along E = p, as long as operations treat E and the dimensions of p position by position, and
// nothing else uses what they make; down to parameters. Only where a contraction lies between: else nothing is saved.
#include "passes/SinkGathers.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Pass/Pass.h"
#include "passes/Incremental.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

Operation *quern::passes::cloneOn(OpBuilder &builder, Operation *op, ValueRange operands) {
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  SmallVector<Type> types;
  LogicalResult inferred = cast<InferTypeOpInterface>(copy).inferReturnTypes(
      op->getContext(), op->getLoc(), operands, copy->getDiscardableAttrDictionary(), copy->getPropertiesStorage(),
      copy->getRegions(), types);
  assert(succeeded(inferred) && "operands that gain dimensions still fit");
  (void)inferred;
  for (auto [result, type] : llvm::zip(copy->getResults(), types))
    result.setType(type);
  return copy;
}

namespace {

class Sink {
public:
  explicit Sink(GatherOp gather) : gather(gather), along(gather.getDim()) {
    for (DimAttr dim : typeOf(gather.getPositions()).getDims())
      own.push_back(dim.getName());
  }

  bool pays() {
    Value y = gather.getX();
    return y.getDefiningOp() && !isa<ParamOp>(y.getDefiningOp()) && isWithin(y) && isClosed() && contractions > 0;
  }

  void run() {
    Value chosen = rebuilt(gather.getX());
    chosen.setType(gather.getType()); // the order of dimensions that users expect
    gather.replaceAllUsesWith(chosen);
  }

private:
  GatherOp gather;
  StringRef along;
  SmallVector<StringRef> own; // dimensions of the positions
  unsigned contractions = 0;
  llvm::SetVector<Operation *> walk; // operations between
  llvm::DenseMap<Value, Value> known;

  /// Collects what makes `value`; false where an operation needs more of it than the chosen positions.
  bool isWithin(Value value) {
    Operation *op = value.getDefiningOp();
    if (!typeOf(value).has(along) || (op && (isa<ParamOp>(op) || walk.contains(op))))
      return true;
    if (!op || op->getBlock() != gather->getBlock() || op->getNumResults() != 1 || !isPointwise(op) ||
        !isa<InferTypeOpInterface>(op) || touches(op, along))
      return false;
    if (llvm::any_of(own, [&](StringRef dim) { return touchesHere(op, dim); }))
      return false;
    walk.insert(op);
    contractions += isa<ContractOp>(op);
    return llvm::all_of(op->getOperands(), [&](Value x) { return isWithin(x); });
  }

  /// Whether nothing else uses what was collected: the router's scores also decide which are chosen.
  bool isClosed() {
    return llvm::all_of(walk, [&](Operation *op) {
      return llvm::all_of(op->getUsers(), [&](Operation *user) { return user == gather || walk.contains(user); });
    });
  }

  /// As `touches`, but a dimension that neither operands nor result have is of no concern.
  static bool touchesHere(Operation *op, StringRef dim) {
    bool has = llvm::any_of(op->getOperands(), [&](Value x) { return typeOf(x).has(dim); }) ||
               llvm::any_of(op->getResults(), [&](Value x) { return typeOf(x).has(dim); });
    return has ? touches(op, dim) : llvm::is_contained(cast<TimeOpInterface>(op).getTouchedDims(), dim);
  }

  Value rebuilt(Value value) {
    if (!typeOf(value).has(along))
      return value;
    if (Value made = known.lookup(value))
      return made;
    OpBuilder builder(gather);
    Operation *op = value.getDefiningOp();
    if (isa<ParamOp>(op))
      return known[value] = GatherOp::create(builder, gather.getLoc(), value, gather.getPositions(), along);
    SmallVector<Value> operands;
    for (Value x : op->getOperands())
      operands.push_back(rebuilt(x));
    return known[value] = cloneOn(builder, op, operands)->getResult(0);
  }
};

struct SinkGathersPass : PassWrapper<SinkGathersPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SinkGathersPass)
  explicit SinkGathersPass(bool everywhere) : everywhere(everywhere) {}
  StringRef getArgument() const override { return "sink-gathers"; }
  StringRef getDescription() const override { return "compute only the experts that are chosen"; }
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (everywhere || function->hasAttr(fewRows))
        sinkGathers(function);
  }
  bool everywhere;
};

} // namespace

static SmallVector<GatherOp> gathersOf(func::FuncOp function) {
  SmallVector<GatherOp> gathers;
  function.walk([&](GatherOp op) { gathers.push_back(op); });
  return gathers;
}

int64_t quern::passes::rowsWhereSinkingPays(func::FuncOp function) {
  int64_t rows = 0;
  for (GatherOp gather : gathersOf(function)) {
    if (!Sink(gather).pays())
      continue;
    // Each row reads as many experts as it chose; computed for all rows at once, every expert is read once.
    int64_t all = typeOf(gather.getX()).dim(gather.getDim()).getStatic().value_or(1), chosen = 1;
    for (DimAttr dim : typeOf(gather.getPositions()).getDims())
      if (!typeOf(gather.getX()).has(dim.getName()))
        chosen *= dim.getStatic().value_or(1);
    rows = std::max(rows, all / std::max<int64_t>(chosen, 1));
  }
  return rows;
}

void quern::passes::sinkGathers(func::FuncOp function) {
  for (GatherOp gather : gathersOf(function))
    if (Sink sink(gather); sink.pays())
      sink.run();
  eraseDead(function);
}

std::unique_ptr<Pass> quern::passes::createSinkGathersPass(bool everywhere) {
  return std::make_unique<SinkGathersPass>(everywhere);
}
