// Takes: scans. Gives: bodies without what no state reaches: that is computed for all positions at once, before the scan.
// Why: the loop over positions is sequential, and a projection of its input is one matrix product over all of them.
//
//   scan T: %y = contract %x, %w           =>   %y = contract %xs, %w          (over T, outside)
//           %h' = add (mul %a, %h), %y          scan T: %h' = add (mul %a, %h), %y
//
// What is elementwise and larger than what it is made of stays: exp(rate * step) of Mamba has a number for each
// position, channel and component of the state, and is made where it is used.
#include "ir/Scan.h"
#include "ir/analysis/AssumedLengths.h"
#include "ir/analysis/Operations.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::ir;

namespace {

class Hoister {
public:
  explicit Hoister(ScanOp scan) : scan(scan), builder(scan) {
    for (unsigned i = 0; i < scan.getSlices().size(); ++i)
      outside[scan.getSlice(i)] = scan.getSlices()[i];
    for (unsigned i = 0; i < scan.getInputs().size(); ++i)
      outside[scan.getInput(i)] = scan.getInputs()[i];
  }

  void run() {
    for (Operation &op : scan.getBlock().without_terminator())
      if (canLeave(&op))
        leave(&op);
    if (moved.empty())
      return;
    for (Operation *op : moved)
      for (Value result : op->getResults())
        bring(result);
    for (Operation *op : llvm::reverse(moved))
      if (op->use_empty())
        op->erase();
    IRRewriter rewriter(scan.getContext());
    for (ScanOp next; (next = prune(scan, rewriter)) != scan;)
      scan = next;
  }

private:
  ScanOp scan;
  OpBuilder builder;
  llvm::DenseMap<Value, Value> outside; // a value of the body -> the same for all positions
  SmallVector<Operation *> moved;

  bool hasDim(Value value) { return typeOf(value).has(scan.getDim().getName()); }

  /// Whether it is the same for all positions at once as one after the other, and worth storing.
  bool canLeave(Operation *op) {
    if (op->getNumRegions() || !isa<InferTypeOpInterface>(op) || op->getNumOperands() == 0)
      return false;
    if (!llvm::all_of(op->getOperands(), [&](Value x) { return outside.count(x) || isNumber(x); }))
      return false;
    if (llvm::none_of(op->getOperands(), [&](Value x) { return outside.count(x); }))
      return false; // of numbers alone
    bool same = llvm::none_of(op->getOperands(), [&](Value x) { return outside.count(x) && hasDim(outside[x]); });
    if (same || (!isElementwise(op) && !isa<ExpandOp>(op)))
      return true;
    int64_t most = 0;
    for (Value x : op->getOperands())
      if (outside.count(x))
        most = std::max(most, atAssumedLengths(typeOf(outside[x]).elements()));
    return atAssumedLengths(typeOf(op->getResult(0)).elements() * scan.getDim().getSize()) <= most;
  }

  static bool isNumber(Value x) {
    Operation *op = x.getDefiningOp();
    return op && isa<ConstOp, SizeOp>(op);
  }

  void leave(Operation *op) {
    IRMapping mapping;
    for (Value x : op->getOperands())
      mapping.map(x, outside.count(x) ? outside[x] : builder.clone(*x.getDefiningOp())->getResult(0));
    Operation *copy = builder.clone(*op, mapping);
    SmallVector<Type> types;
    auto infer = cast<InferTypeOpInterface>(copy);
    if (isa<ExpandOp, PermuteOp>(copy)) {
      for (Value result : copy->getResults())
        if (hasDim(copy->getOperand(0)))
          types.push_back(stackedAlong(typeOf(result), scan.getDim()));
        else
          types.push_back(result.getType());
    } else if (failed(infer.inferReturnTypes(op->getContext(), op->getLoc(), copy->getOperands(),
                                             copy->getDiscardableAttrDictionary(), copy->getPropertiesStorage(),
                                             copy->getRegions(), types))) {
      copy->erase();
      return;
    }
    for (auto [result, type, inside] : llvm::zip(copy->getResults(), types, op->getResults())) {
      result.setType(cast<NamedTensorType>(type));
      outside[inside] = result;
    }
    moved.push_back(op);
  }

  /// Those who stay read it by positions.
  void bring(Value inside) {
    auto stays = [&](OpOperand &use) { return !llvm::is_contained(moved, use.getOwner()); };
    if (llvm::none_of(inside.getUses(), stays))
      return;
    Value all = outside[inside];
    unsigned at = scan.getCarriedCount() + scan.getSlices().size();
    bool slice = hasDim(all);
    if (slice)
      scan.getSlicesMutable().append(all);
    else
      scan.getInputsMutable().append(all);
    Type type = slice ? sliceOf(typeOf(all), scan.getDim().getName()) : typeOf(all);
    Block &block = scan.getBlock();
    Value argument = slice ? block.insertArgument(at, type, scan.getLoc()) : block.addArgument(type, scan.getLoc());
    inside.replaceUsesWithIf(argument, stays);
  }
};

struct HoistScansPass : PassWrapper<HoistScansPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(HoistScansPass)
  StringRef getArgument() const override { return "hoist-scans"; }
  StringRef getDescription() const override { return "compute what no state reaches for all positions at once"; }

  void runOnOperation() override {
    SmallVector<ScanOp> scans; // inner ones first
    getOperation().walk([&](ScanOp scan) { scans.push_back(scan); });
    for (ScanOp scan : scans)
      Hoister(scan).run();
  }
};

} // namespace

std::unique_ptr<Pass> quern::passes::createHoistScansPass() {
  return std::make_unique<HoistScansPass>();
}
