// Takes: a function's operations and what fusion made one kernel. Gives: a remark at each softmax between two
// contractions that stays apart, with the reason: its scores are then stored, S x T of them for every head.
#include "passes/FusionGroups.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

static bool isBetween(Operation *op) {
  return isElementwise(op) || isa<ConcatOp, CutOp, RenameOp, PermuteOp, UnitOp, SqueezeOp, ExpandOp>(op);
}

/// The contractions that make the scores, and everything from there to the softmax.
static void collectScores(Value value, SmallVectorImpl<Operation *> &between, SmallVectorImpl<ContractOp> &products) {
  Operation *op = value.getDefiningOp();
  if (!op || llvm::is_contained(between, op))
    return;
  if (auto product = dyn_cast<ContractOp>(op)) {
    if (!llvm::is_contained(products, product))
      products.push_back(product);
    return;
  }
  if (!isBetween(op))
    return;
  between.push_back(op);
  for (Value operand : op->getOperands())
    collectScores(operand, between, products);
}

/// Why scores and weighted sum are no one kernel; empty where the softmax is no attention at all.
static std::string reasonOf(SoftmaxOp softmax) {
  SmallVector<Operation *> between;
  SmallVector<ContractOp> products;
  collectScores(softmax.getX(), between, products);
  auto overKeys = [&](ContractOp product) {
    return llvm::all_of(names(softmax.getDims()), [&](StringRef dim) { return typeOf(product.getResult()).has(dim); });
  };
  if (products.empty() || llvm::none_of(products, overKeys))
    return "";
  Value weights = softmax.getResult();
  ContractOp sum;
  while (!sum) {
    SmallVector<Operation *> users(weights.getUsers());
    if (users.empty())
      return "";
    auto next = llvm::find_if(users, [](Operation *user) { return isa<ContractOp>(user); });
    if (users.size() > 1)
      return next == users.end() ? "" : "its weights are used elsewhere too";
    if (next != users.end())
      sum = cast<ContractOp>(*next);
    else if (!isBetween(users[0]))
      return "";
    else
      weights = users[0]->getResult(0);
  }
  auto isInside = [&](Operation *user) { return user == softmax || llvm::is_contained(between, user); };
  for (ContractOp product : products)
    if (overKeys(product) && !llvm::all_of(product->getUsers(), isInside))
      return "its scores are used elsewhere too";
  if (sum->getBlock() != softmax->getBlock() || products[0]->getBlock() != softmax->getBlock())
    return "its scores or its weighted sum are made in another loop";
  return "what lies between scores and weighted sum is needed elsewhere too";
}

void quern::passes::remarkMissedAttention(ArrayRef<Operation *> order, const llvm::DenseSet<Value> &fused) {
  for (Operation *op : order)
    if (auto softmax = dyn_cast<SoftmaxOp>(op); softmax && !fused.contains(softmax.getResult()))
      if (std::string reason = reasonOf(softmax); !reason.empty())
        mlir::remark::missed(op->getLoc(), mlir::remark::RemarkOpts::name("attention").category("fusion"))
            << "not one kernel: " << reason << ", so the scores are stored";
}
