// Takes: a function's operations and what fusion made one kernel. Gives: a remark at each softmax between two
// contractions that stays apart, with the reason: its scores are then stored, S x T of them for every head.
#include "passes/fuse/FusionGroups.h"

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

/// Whether `value`, element by element or reduced along other dimensions, ends in a sum over `key` together with
/// something else.
static bool reachesSum(Value value, StringRef key, int depth = 0) {
  return depth < 8 && llvm::any_of(
                          value.getUsers(),
                          [&](Operation *user) {
                            if (auto sum = dyn_cast<ContractOp>(user))
                              return llvm::is_contained(names(sum.getDims()), key);
                            bool through = isBetween(user) || isa<ReduceOp>(user);
                            return through && typeOf(user->getResult(0)).has(key) &&
                                   reachesSum(user->getResult(0), key, depth + 1);
                          });
}

/// Why scores and weighted sum are no one kernel; empty where the softmax is no attention at all.
static std::string reasonOf(SoftmaxOp softmax) {
  SmallVector<Operation *> between;
  SmallVector<ContractOp> products;
  collectScores(softmax.getX(), between, products);
  bool joined = llvm::any_of(between, [](Operation *op) { return isa<ConcatOp>(op); }); // then keys have another name
  auto overKeys = [&](ContractOp product) {
    return joined ||
           llvm::all_of(names(softmax.getDims()), [&](StringRef dim) { return typeOf(product.getResult()).has(dim); });
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
    if (users.size() > 1) {
      bool parts = llvm::all_of(users, [](Operation *user) { return isa<CutOp>(user); });
      if (parts && llvm::count_if(users, [](Operation *user) { return !user->use_empty(); }) > 1)
        return "its weights are cut into parts that are summed apart";
      return next == users.end() ? "" : "its weights are used elsewhere too";
    }
    if (next != users.end())
      sum = cast<ContractOp>(*next);
    else if (!isBetween(users[0]))
      return isa<ReduceOp>(users[0]) && reachesSum(weights, names(softmax.getDims())[0])
                 ? "its weights are reduced before they are summed"
                 : "";
    else
      weights = users[0]->getResult(0);
  }
  // What comes from a product must go to the softmax alone.
  SmallVector<Value> scores;
  for (ContractOp product : products)
    if (overKeys(product))
      scores.push_back(product.getResult());
  for (size_t i = 0; i < scores.size(); ++i)
    for (Operation *user : scores[i].getUsers()) {
      if (user == softmax)
        continue;
      if (!llvm::is_contained(between, user))
        return "its scores are used elsewhere too";
      if (!llvm::is_contained(scores, user->getResult(0)))
        scores.push_back(user->getResult(0));
    }
  if (sum->getBlock() != softmax->getBlock() || products[0]->getBlock() != softmax->getBlock())
    return "its scores or its weighted sum are made in another loop";
  return "what lies between scores and weighted sum is needed elsewhere too";
}

/// e^x over the sum of e^x and something: nearly a softmax, if x comes from a product and the quotient is summed.
static bool isNearlySoftmax(DivOp quotient) {
  auto strip = [](Value value) {
    while (Operation *op = value.getDefiningOp())
      if (isa<ExpandOp, PermuteOp>(op))
        value = op->getOperand(0);
      else
        break;
    return value;
  };
  auto guarded = strip(quotient.getOperand(1)).getDefiningOp<AddOp>();
  auto sum = guarded ? strip(guarded.getA()).getDefiningOp<ReduceOp>() : ReduceOp();
  auto exponential = strip(quotient.getOperand(0)).getDefiningOp<ExpOp>();
  if (!sum || sum.getReduction() != Reduction::sum || !exponential || strip(sum.getX()) != exponential.getResult() ||
      names(sum.getDims()).size() != 1)
    return false;
  StringRef key = names(sum.getDims())[0];
  SmallVector<Operation *> between;
  SmallVector<ContractOp> products;
  collectScores(exponential->getOperand(0), between, products);
  return llvm::any_of(products, [&](ContractOp product) { return typeOf(product.getResult()).has(key); }) &&
         reachesSum(quotient.getResult(), key);
}

void quern::passes::remarkMissedAttention(ArrayRef<Operation *> order, const llvm::DenseSet<Value> &fused) {
  mlir::remark::RemarkOpts about = mlir::remark::RemarkOpts::name("attention").category("fusion");
  for (Operation *op : order) {
    if (auto softmax = dyn_cast<SoftmaxOp>(op); softmax && !fused.contains(softmax.getResult()))
      if (std::string reason = reasonOf(softmax); !reason.empty())
        mlir::remark::missed(op->getLoc(), about) << "not one kernel: " << reason << ", so the scores are stored";
    if (auto quotient = dyn_cast<DivOp>(op); quotient && isNearlySoftmax(quotient))
      mlir::remark::missed(op->getLoc(), about) << "not one kernel: e^x is divided by more than its sum; "
                                                   "softmax[...](x) is recognised, and needs no guard: it gives "
                                                   "zeros where all is -inf";
  }
}
