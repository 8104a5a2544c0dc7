// Takes: a function in which experts are computed for all and then the chosen ones are gathered. Gives: the same, where
// the weights are gathered and only the chosen experts are computed. Why: a step of one token then reads 2 experts of 8.
//
//   %h = quern.contract %x, %w over ["D"]   : [B, T, E, F]      %u = quern.gather %w["E" = %chosen]  : [B, T, C, F, D]
//   %a = quern.tanh %h                                     =>   %h = quern.contract %x, %u over ["D"] : [B, T, C, F]
//   %y = quern.gather %a["E" = %chosen]     : [B, T, C, F]      %y = quern.tanh %h
//
// Backwards from the gather along E = p, as long as operations treat E and the dimensions of p position by position,
// and nothing else uses what they make; down to what has no row of p: parameters, and what is made of them alone. Only
// where a contraction is between: else nothing is saved. Kernels sort rows by expert (codegen's GroupedContraction),
// so this is right for any number of rows. In a loss it runs before differentiation (`sink-loss-gathers`): the gradient
// of routed weights is then a sum for each expert over the rows that chose it, and other experts have none.
#include "ir/Attributes.h"
#include "ir/analysis/Options.h"
#include "ir/analysis/Weights.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Pass/Pass.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

class Sink {
public:
  explicit Sink(GatherOp gather) : gather(gather), along(gather.getDim()) {
    for (DimAttr dim : typeOf(gather.getPositions()).getDims())
      own.push_back(dim.getName());
  }

  bool pays() {
    Value y = gather.getX();
    return !isLeaf(y) && isWithin(y) && isClosed() && contractions > 0;
  }

  /// What was done, or why not where an expert is more than a row of the router's matrix.
  void say(bool paid) {
    if (!gather.getContext()->getRemarkEngine())
      return;
    auto options = remark::RemarkOpts::name("experts").category("experts");
    if (paid) {
      int64_t all = typeOf(gather.getX()).dim(along).getStatic().value_or(0);
      remark::passed(gather.getLoc(), options)
          << "only the chosen of " << std::to_string(all) << " are computed, in " << std::to_string(contractions)
          << " contractions, rows sorted by what they chose";
    } else if (!reason.empty() && hasExperts(gather.getX()))
      remark::missed(gather.getLoc(), options)
          << "all positions of " << along << " are computed and then gathered from: " << reason;
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

  std::string reason; // why not

  /// No row in it: the same for all positions, gathered from as it is.
  bool isLeaf(Value value) {
    return !typeOf(value).has(along) || isa_and_nonnull<ParamOp>(value.getDefiningOp()) ||
           llvm::none_of(own, [&](StringRef dim) { return typeOf(value).has(dim); });
  }

  bool refuse(Operation *op, const Twine &what) {
    reason = (op ? "'" + op->getName().stripDialect() + "' " : Twine()).str() + what.str();
    return false;
  }

  /// Collects what makes `value`; false where an operation needs more of it than the chosen positions.
  bool isWithin(Value value) {
    Operation *op = value.getDefiningOp();
    if (isLeaf(value) || walk.contains(op))
      return true;
    if (!op || op->getBlock() != gather->getBlock())
      return refuse(nullptr, "they are computed outside of the loop, or given");
    if (op->getNumResults() != 1 || !isPointwise(op) || !isa<InferTypeOpInterface>(op) || touches(op, along))
      return refuse(op, "treats positions of " + along + " otherwise than one by one");
    for (StringRef dim : own)
      if (touchesHere(op, dim))
        return refuse(op, "treats positions of " + dim + " otherwise than one by one");
    walk.insert(op);
    contractions += isa<ContractOp>(op);
    return llvm::all_of(op->getOperands(), [&](Value x) { return isWithin(x); });
  }

  /// Whether nothing else uses what was collected: the router's scores also decide which are chosen.
  bool isClosed() {
    for (Operation *op : walk)
      for (Operation *user : op->getUsers())
        if (user != gather && !walk.contains(user))
          return refuse(user, "uses all of them");
    return true;
  }

  /// Whether a contraction with a matrix for each position is before `value`.
  bool hasExperts(Value value) {
    llvm::SetVector<Operation *> before;
    auto add = [&](Value x) {
      Operation *op = x.getDefiningOp();
      if (op && typeOf(x).has(along) && !isLeaf(x))
        before.insert(op);
    };
    add(value);
    for (size_t i = 0; i < before.size(); ++i)
      for (Value x : before[i]->getOperands()) {
        if (isa<ContractOp>(before[i]) && isLeaf(x) && typeOf(x).has(along) && typeOf(x).getRank() > 2)
          return true;
        add(x);
      }
    return false;
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
    if (isLeaf(value))
      return known[value] = GatherOp::create(builder, gather.getLoc(), value, gather.getPositions(), along);
    SmallVector<Value> operands;
    for (Value x : op->getOperands())
      operands.push_back(rebuilt(x));
    return known[value] = cloneOn(builder, op, operands)->getResult(0);
  }
};

struct SinkGathersPass : PassWrapper<SinkGathersPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SinkGathersPass)
  explicit SinkGathersPass(bool ofLoss) : ofLoss(ofLoss) {}
  StringRef getArgument() const override { return ofLoss ? "sink-loss-gathers" : "sink-gathers"; }
  StringRef getDescription() const override { return "compute only the experts that are chosen"; }
  void runOnOperation() override {
    bool trained = optionsOf(getOperation()).train;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (ofLoss ? trained && function.getName() == "loss" : !function->hasAttr(changingAttr))
        sinkGathers(function);
  }

  static void sinkGathers(func::FuncOp function) {
    SmallVector<GatherOp> gathers;
    bool any = false;
    function.walk([&](GatherOp op) { gathers.push_back(op); });
    for (GatherOp gather : gathers) {
      Sink sink(gather);
      bool pays = sink.pays();
      sink.say(pays);
      if (pays)
        sink.run();
      any |= pays;
    }
    if (any)
      eraseDead(function);
    function.walk([&](ParamOp param) {
      if (double share = routedShare(param); share < 1)
        param->setAttr(routedShareAttr, Builder(param).getF64FloatAttr(share));
    });
  }

  /// Of a parameter's matrices, how many a position uses.
  static double routedShare(ParamOp param) {
    double share = param->use_empty() ? 1 : 0;
    for (Operation *user : param->getUsers()) {
      auto gather = dyn_cast<GatherOp>(user);
      if (!gather || gather.getX() != param.getResult() || !routedWeight(gather))
        return 1;
      double picks = 1;
      for (DimAttr dim : typeOf(gather.getPositions()).getDims())
        picks *= static_cast<double>(dim.getStatic().value_or(1));
      share += picks / static_cast<double>(*typeOf(param.getResult()).dim(gather.getDim()).getStatic());
    }
    return share;
  }

  bool ofLoss;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createSinkGathersPass(bool ofLoss) {
  return std::make_unique<SinkGathersPass>(ofLoss);
}
