// Takes: values made from products of queries and keys. Gives: the operations between, and a region that does the same.
// What does not depend on a product (masks, biases) stays outside and is an input.
#include "passes/ScoreBody.h"

#include "ir/Attributes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

bool quern::passes::isElementByElement(Operation *op) {
  auto time = dyn_cast<TimeOpInterface>(op);
  return time && time.getTimeBehavior() == TimeBehavior::Pointwise;
}

ScoreBody quern::passes::collectBody(ArrayRef<Value> values, Block *block, function_ref<bool(ContractOp)> isProduct) {
  ScoreBody body;
  llvm::SetVector<Operation *> region;
  llvm::SmallPtrSet<Operation *, 16> depends;
  SmallVector<Value> work(values);
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != block)
      continue;
    auto product = dyn_cast<ContractOp>(op);
    if (product && isProduct(product)) {
      if (depends.insert(op).second)
        body.products.push_back(product);
    } else if (!product && isElementByElement(op) && region.insert(op)) {
      work.append(op->operand_begin(), op->operand_end());
    }
  }
  auto before = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
  SmallVector<Operation *> ordered(region.begin(), region.end());
  llvm::sort(ordered, before);
  llvm::sort(body.products, before);
  for (Operation *op : ordered)
    if (llvm::any_of(op->getOperands(), [&](Value x) { return depends.contains(x.getDefiningOp()); })) {
      depends.insert(op);
      body.operations.insert(op);
    }
  return body;
}

bool ScoreBody::contains(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && (operations.contains(op) || llvm::is_contained(products, op));
}

SmallVector<Value> ScoreBody::inputs() const {
  llvm::SetVector<Value> found;
  for (Operation *op : operations)
    for (Value operand : op->getOperands())
      if (!contains(operand) && !operand.getDefiningOp<ConstOp>())
        found.insert(operand);
  return found.takeVector();
}

void ScoreBody::copyInto(Region &region, ArrayRef<Value> inputs, ArrayRef<Value> yielded, Location loc) const {
  Block &own = region.emplaceBlock();
  IRMapping mapping;
  for (ContractOp product : products)
    mapping.map(product.getResult(), own.addArgument(product.getResult().getType(), product.getLoc()));
  for (Value input : inputs)
    mapping.map(input, own.addArgument(input.getType(), input.getLoc()));
  OpBuilder builder = OpBuilder::atBlockEnd(&own);
  for (Operation *op : operations) {
    for (Value operand : op->getOperands())
      if (auto number = operand.getDefiningOp<ConstOp>(); number && !mapping.contains(operand))
        mapping.map(operand, builder.clone(*number)->getResult(0));
    Operation *copy = builder.clone(*op, mapping);
    for (StringRef mark : {onceAttr, againAttr})
      copy->removeAttr(mark);
  }
  SmallVector<Value> copies;
  for (Value value : yielded)
    copies.push_back(mapping.lookup(value));
  YieldOp::create(builder, loc, copies);
}

void quern::passes::eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (!op.getNumRegions() && isOpTriviallyDead(&op))
      op.erase();
}
