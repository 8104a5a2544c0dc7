// Takes: a value of a module that is trained with bf16 in memory. Gives: whether it will be kept in two bytes.
// Why apart from the pass: what a gradient saves is chosen before it, by what saving costs.
#include "passes/weights/NarrowStorage.h"

#include "ir/analysis/Operations.h"
#include "ir/analysis/Weights.h"

using namespace mlir;
using namespace quern::ir;

namespace quern::passes {

bool movesNarrow(Operation *op) {
  return op && (isViewLike(op) || isa<ConcatOp, ExpandOp>(op));
}

Value withoutMoves(Value value) {
  while (movesNarrow(value.getDefiningOp()) && value.getDefiningOp()->getNumOperands() == 1)
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

Value roundedToBF16(OpBuilder &builder, Location loc, Value value) {
  builder.setInsertionPointAfterValue(value);
  auto narrow = NarrowOp::create(builder, loc, typeOf(value).withStorage(Storage::BF16), value);
  return WidenOp::create(builder, loc, value.getType(), narrow);
}

Value copyStoredIn(Storage storage, OpBuilder &builder, Operation *op, ArrayRef<Value> operands) {
  builder.setInsertionPointAfter(op);
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  copy->getResult(0).setType(typeOf(op->getResult(0)).withStorage(storage));
  return copy->getResult(0);
}

bool isMatrixProduct(ContractOp op) {
  if (routedWeight(op.getA()) || routedWeight(op.getB()))
    return true;
  NamedTensorType a = typeOf(op.getA()), c = typeOf(op.getB());
  auto own = [](NamedTensorType of, NamedTensorType other) {
    return llvm::any_of(of.getDims(), [&](DimAttr dim) { return !other.has(dim.getName()); });
  };
  return own(a, c) && own(c, a);
}

bool isStatistic(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<ReduceOp, ConstOp, SizeOp>(op))
    return true;
  if (auto attention = dyn_cast<AttentionOp>(op))
    return value != attention.getAttended();
  if (auto loop = dyn_cast<RepeatOp>(op)) { // a stack of them
    unsigned result = cast<OpResult>(value).getResultNumber();
    return !loop.isCarried(result) && isStatistic(loop.getYield().getValues()[result]);
  }
  return (isElementwise(op) || movesNarrow(op)) && op->getNumOperands() && llvm::all_of(op->getOperands(), isStatistic);
}

SmallVector<OpOperand *> productOperands(Operation *op) {
  size_t count = 0; // they are the first operands of each
  if (auto contract = dyn_cast<ContractOp>(op); contract && isMatrixProduct(contract))
    count = 2;
  else if (auto attention = dyn_cast<AttentionOp>(op))
    count = 2 * attention.getQueries().size() + 1;
  else if (auto gradient = dyn_cast<AttentionGradientOp>(op))
    count = 2 * gradient.getRows().size() + gradient.getValues().size();
  return llvm::map_to_vector(op->getOpOperands().take_front(count), [](OpOperand &operand) { return &operand; });
}

bool isKeptNarrow(Value value, Kept kept) {
  if (!typeOf(value).isF32() || isStatistic(value))
    return false;
  return kept == Kept::OnStack || llvm::any_of(value.getUses(), [](OpOperand &use) {
           return llvm::is_contained(productOperands(use.getOwner()), &use);
         });
}

} // namespace quern::passes
