// Takes: a value of a module that is trained with bf16 in memory. Gives: whether it will be kept in two bytes.
// Why apart from the pass: what a gradient saves is chosen before it, by what saving costs.
#include "passes/weights/NarrowStorage.h"

#include "ir/analysis/Operations.h"
#include "ir/analysis/Weights.h"

using namespace mlir;
using namespace quern::ir;

namespace quern::passes {

bool storesNarrow(ModuleOp module) {
  auto precision = module->getAttrOfType<StringAttr>(precisionAttr);
  return module->hasAttr("quern.train") && precision && precision.getValue() == "bf16";
}

bool movesNarrow(Operation *op) {
  return op && (isViewLike(op) || isa<ConcatOp, ExpandOp>(op));
}

bool isMatrixProduct(ContractOp op) {
  if (pickedWeight(op.getA()) || pickedWeight(op.getB()))
    return true;
  NamedTensorType a = typeOf(op.getA()), c = typeOf(op.getB());
  auto own = [](NamedTensorType of, NamedTensorType other) {
    return llvm::any_of(of.getDims(), [&](DimAttr dim) { return !other.has(dim.getName()); });
  };
  return own(a, c) && own(c, a);
}

bool isMatrixOf(OpOperand &use) {
  auto attention = dyn_cast<AttentionOp>(use.getOwner());
  return attention && use.getOperandNumber() <= 2 * attention.getQueries().size();
}

bool isStatistic(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<ReduceOp, ConstOp, SizeOp>(op))
    return true;
  if (isa<AttentionOp>(op)) // of its softmax
    return cast<OpResult>(value).getResultNumber() > 0;
  if (auto loop = dyn_cast<RepeatOp>(op)) { // a stack of them
    unsigned result = cast<OpResult>(value).getResultNumber();
    return !loop.isCarried(result) && isStatistic(loop.getYield().getValues()[result]);
  }
  return (isElementwise(op) || movesNarrow(op)) && op->getNumOperands() && llvm::all_of(op->getOperands(), isStatistic);
}

bool isKeptNarrow(Value value, Kept kept) {
  if (!typeOf(value).isReal() || isStatistic(value))
    return false;
  return kept == Kept::OnStack || llvm::any_of(value.getUses(), [](OpOperand &use) {
           auto contract = dyn_cast<ContractOp>(use.getOwner());
           return (contract && isMatrixProduct(contract)) || isMatrixOf(use);
         });
}

} // namespace quern::passes
