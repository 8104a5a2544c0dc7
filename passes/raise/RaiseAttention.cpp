// Takes: functions of plain operations. Gives: `quern.attention` wherever scores, softmax and weighted sum are spelled
// out, and a remark at each softmax that nearly is one, with the reason.
// Why in one place: the gradient, fusion, kernels and reports then read one operation. When: in the loss of a module to
// be trained before it is differentiated; elsewhere after steps are derived and weights are packed, as those passes
// rewrite what surrounds a softmax, in any function, so they have to know the plain operations anyway.
//
//   before: %x = contract %q, %k over ["K"]            after: %o = attention %q with %k over "S" of %v reading %mask {
//           %y = where %mask, %x, -inf                        ^bb0(%x, %m):
//           %w = softmax %y over ["S"]                          %y = where %m, %x, -inf
//           %o = contract %w, %v over ["S"]                     yield %y
//                                                             }
//
// From the softmax forwards to the sum that its weights flow into, backwards through its concatenation with scores
// that have no values (sinks), then through elementwise operations to products of queries and keys. What does not
// depend on a product (masks, biases) stays outside and is an input.
#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Options.h"
#include "passes/Passes.h"
#include "passes/ScoreBody.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

static bool isBetween(Operation *op) {
  return isElementByElement(op) || isa<ConcatOp, CutOp, RenameOp, UnitOp, SqueezeOp>(op);
}

/// The contractions that `value` is made of by operations that may be between.
static void collectContractions(Value value, llvm::SmallPtrSetImpl<Operation *> &seen,
                                SmallVectorImpl<ContractOp> &found) {
  Operation *op = value.getDefiningOp();
  if (!op || !seen.insert(op).second)
    return;
  if (auto product = dyn_cast<ContractOp>(op))
    return found.push_back(product);
  if (isBetween(op))
    for (Value operand : op->getOperands())
      collectContractions(operand, seen, found);
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

namespace {

/// A softmax that may be an attention's.
class Candidate {
public:
  explicit Candidate(SoftmaxOp softmax) : softmax(softmax), block(softmax->getBlock()) {}
  bool match() {
    return comesFromProducts() && findSum() && followKeys() && splitScores() && findProducts() && checkDims() &&
           checkAlone();
  }
  /// After a match that failed: why, or empty where it is no attention at all.
  const std::string &getReason() const { return reason; }
  void replace();

private:
  bool comesFromProducts();
  bool findSum();
  bool followKeys();
  bool splitScores();
  bool findProducts();
  bool checkDims();
  bool checkAlone();
  bool miss(const Twine &why) {
    reason = why.str();
    return false;
  }

  SoftmaxOp softmax;
  Block *block;
  std::string reason;
  ContractOp sum;
  SmallVector<Operation *> chain; ///< from the softmax to the sum
  Value score, values;
  DimAttr key;      ///< of the keys, as the scores have it
  StringRef summed; ///< the same as the sum names it
  bool cut = false; ///< only some of the weights have values ...
  Size offset;      ///< ... from this one on
  DimAttr cutInto;
  SmallVector<std::pair<Value, StringRef>> sinks;
  ScoreBody body;                      ///< from the products to the score
  llvm::SetVector<Operation *> inside; ///< all that is replaced but the sum
};

} // namespace

bool Candidate::comesFromProducts() {
  llvm::SmallPtrSet<Operation *, 32> seen;
  SmallVector<ContractOp> found;
  collectContractions(softmax.getX(), seen, found);
  bool joined = llvm::any_of(seen, [](Operation *op) { return isa<ConcatOp>(op); }); // then keys have another name
  return llvm::any_of(found, [&](ContractOp product) {
    return joined ||
           llvm::all_of(names(softmax.getDims()), [&](StringRef dim) { return typeOf(product.getResult()).has(dim); });
  });
}

/// Forwards from the weights to the one contraction that reads them.
bool Candidate::findSum() {
  bool changed = false;
  Value weights = softmax.getResult();
  StringRef first = names(softmax.getDims())[0];
  while (!sum) {
    SmallVector<Operation *> users(weights.getUsers());
    if (users.empty())
      return false;
    if (users.size() > 1) {
      bool parts = llvm::all_of(users, [](Operation *user) { return isa<CutOp>(user); });
      if (parts && llvm::count_if(users, [](Operation *user) { return !user->use_empty(); }) > 1)
        return miss("its weights are cut into parts that are summed apart");
      bool isSummed = llvm::any_of(users, [](Operation *user) { return isa<ContractOp>(user); });
      return isSummed && miss("its weights are used elsewhere too");
    }
    if ((sum = dyn_cast<ContractOp>(users[0])))
      break;
    if (isa<ReduceOp>(users[0]) && reachesSum(weights, first))
      return miss("its weights are reduced before they are summed");
    if (!isBetween(users[0]))
      return false;
    changed |= !isa<CutOp, RenameOp, PermuteOp>(users[0]);
    chain.push_back(users[0]);
    weights = users[0]->getResult(0);
  }
  if (changed)
    return llvm::is_contained(names(sum.getDims()), first) && miss("its weights are changed before they are summed");
  values = sum.getA() == weights ? sum.getB() : sum.getA();
  if (sum.getA() == sum.getB())
    return miss("its weights are their own values");
  if (sum->getBlock() != block)
    return miss("its scores or its weighted sum are made in another loop");
  return true;
}

/// What the dimension that the softmax is over is called at the sum, and which part of it arrives there.
bool Candidate::followKeys() {
  if (names(sum.getDims()).size() != 1 || names(softmax.getDims()).size() != 1)
    return miss("it sums over several dimensions; one of keys is needed");
  StringRef name = names(softmax.getDims())[0];
  for (Operation *op : chain) {
    if (auto rename = dyn_cast<RenameOp>(op)) {
      if (names(rename.getFrom()) != SmallVector<StringRef>{name})
        return miss("its weights are cut or renamed along another dimension than that of the keys");
      name = cast<DimAttr>(rename.getTo()[0]).getName();
    } else if (auto part = dyn_cast<CutOp>(op)) {
      if (part.getDim() != name)
        return miss("its weights are cut or renamed along another dimension than that of the keys");
      cut = true, offset = offset + part.getOffsetSize(), cutInto = part.getInto();
      name = cutInto.getName();
    }
  }
  if (names(sum.getDims())[0] != name)
    return false;
  summed = name;
  inside.insert(chain.begin(), chain.end());
  inside.insert(softmax);
  return typeOf(values).has(name) || miss("its values lack the dimension of the keys");
}

/// The scores that have values and those without one, if the softmax is over both joined.
bool Candidate::splitScores() {
  DimAttr whole = typeOf(softmax.getX()).dim(names(softmax.getDims())[0]);
  score = softmax.getX(), key = whole;
  SmallVector<Operation *> moved;
  Value from = score;
  while (auto permute = from.getDefiningOp<PermuteOp>()) {
    moved.push_back(permute);
    from = permute.getX();
  }
  auto concat = from.getDefiningOp<ConcatOp>();
  if (!concat || concat.getInto() != whole)
    return !cut || miss("only some of its weights have values");
  inside.insert(moved.begin(), moved.end());
  inside.insert(concat);
  DimAttr wanted = cut ? cutInto : whole;
  score = Value();
  Size at(0);
  for (auto [part, name] : llvm::zip(concat.getInputs(), names(concat.getParts()))) {
    DimAttr dim = typeOf(part).dim(name);
    if (!score && at == offset && dim.getSize() == wanted.getSize()) {
      score = part, key = dim;
    } else if (dim.getStatic() && *dim.getStatic() <= 16) {
      sinks.push_back({part, name});
    } else {
      return miss("a part of its scores has no values");
    }
    at = at + dim.getSize();
  }
  return score || miss("its values belong to no whole part of the concatenated scores");
}

/// Backwards from the scores through elementwise operations to the products of queries and keys.
bool Candidate::findProducts() {
  StringRef name = key.getName();
  body = collectBody(score, block, [&](ContractOp product) {
    return typeOf(product.getA()).has(name) != typeOf(product.getB()).has(name);
  });
  if (body.products.empty())
    return miss("no product of queries and keys reaches it element by element");
  for (auto &[sink, part] : sinks)
    if (body.contains(sink))
      return miss("a score without a value is made from products too");
  for (ContractOp product : body.products)
    for (StringRef dim : names(product.getDims())) {
      if (!typeOf(product.getA()).has(dim) || !typeOf(product.getB()).has(dim))
        return miss("a product sums over a dimension that only queries or only keys have");
      if (!typeOf(product.getA()).dim(dim).getStatic())
        return miss("a product sums over a dimension whose size only the run knows");
    }
  inside.insert(body.operations.begin(), body.operations.end());
  inside.insert(body.products.begin(), body.products.end());
  return typeOf(score).isReal() || miss("its scores are no reals");
}

/// One column dimension that only the values have, and one dimension of the queries alone.
bool Candidate::checkDims() {
  NamedTensorType scores = typeOf(score), type = typeOf(values);
  int columns = 0;
  bool fixed = true;
  for (DimAttr dim : type.getDims())
    if (dim.getName() != summed && !scores.has(dim.getName()))
      ++columns, fixed &= dim.getStatic().has_value();
  if (columns != 1 || !fixed || (summed != key.getName() && type.has(key.getName())))
    return miss("its values have " + (columns ? Twine(columns) : Twine("no")) +
                " dimensions of their own; one of fixed size is needed");
  auto keysOf = [&](ContractOp product) {
    return typeOf(product.getA()).has(key.getName()) ? product.getA() : product.getB();
  };
  auto ofQueries = [&](DimAttr dim) {
    return dim != key && !type.has(dim.getName()) && llvm::all_of(body.products, [&](ContractOp product) {
             return !typeOf(keysOf(product)).has(dim.getName()) && typeOf(product.getResult()).has(dim.getName());
           });
  };
  if (llvm::none_of(scores.getDims(), ofQueries))
    return miss("no dimension belongs to the queries alone");
  for (auto &[sink, part] : sinks)
    for (DimAttr dim : typeOf(sink).getDims())
      if (dim.getName() != part && (scores.dim(dim.getName()) != dim || dim == key))
        return miss("a score without a value has a dimension that the scores lack");
  return true;
}

/// What is between the products and the sum is not computed for anyone else.
bool Candidate::checkAlone() {
  for (Operation *op : inside)
    for (Operation *user : op->getUsers())
      if (user != sum && !inside.contains(user))
        return miss(op == softmax || llvm::is_contained(chain, op) ? "its weights are used elsewhere too"
                                                                   : "its scores are used elsewhere too");
  return true;
}

void Candidate::replace() {
  OpBuilder builder(sum);
  Location loc = sum.getLoc(); // its value is that of the sum
  SmallVector<Value> queries, keys, inputs = body.inputs(), sinkValues;
  SmallVector<StringRef> parts;
  for (ContractOp product : body.products) {
    bool first = typeOf(product.getA()).has(key.getName());
    keys.push_back(first ? product.getA() : product.getB());
    queries.push_back(first ? product.getB() : product.getA());
  }
  for (auto &[sink, part] : sinks)
    sinkValues.push_back(sink), parts.push_back(part);
  if (summed != key.getName()) {
    SmallVector<DimAttr> dims(typeOf(values).getDims());
    dims[typeOf(values).find(summed)] = key;
    values = RenameOp::create(builder, values.getLoc(), typeOf(values).withDims(dims), values,
                              labelArray(builder, {summed}), builder.getArrayAttr({key}));
  }
  auto attention =
      AttentionOp::create(builder, loc, TypeRange(sum.getResult()), queries, keys, values, inputs, sinkValues,
                          key.getName(), parts.empty() ? ArrayAttr() : labelArray(builder, parts));
  if (sum->hasAttr(onceAttr))
    attention->setAttr(onceAttr, builder.getUnitAttr());

  SmallVector<Location> replaced = {
      score.getLoc()}; // readers of dumps find here what has no operation of its own any more
  for (Operation *op : inside)
    replaced.push_back(op->getLoc());
  body.copyInto(attention.getBody(), inputs, score, builder.getFusedLoc(replaced));
  sum.replaceAllUsesWith(attention.getAttended());
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
  llvm::SmallPtrSet<Operation *, 32> seen;
  SmallVector<ContractOp> products;
  collectContractions(exponential->getOperand(0), seen, products);
  return llvm::any_of(products, [&](ContractOp product) { return typeOf(product.getResult()).has(key); }) &&
         reachesSum(quotient.getResult(), key);
}

namespace {

class RaiseAttentionPass : public PassWrapper<RaiseAttentionPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RaiseAttentionPass)
  explicit RaiseAttentionPass(bool ofLoss) : ofLoss(ofLoss) {}
  StringRef getArgument() const final { return ofLoss ? "raise-loss-attention" : "raise-attention"; }
  StringRef getDescription() const final { return "Recognise attention, however it is spelled"; }
  void runOnOperation() final {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!isEpoch(function) && (!ofLoss || (optionsOf(getOperation()).train && function.getName() == "loss")))
        run(function);
  }

private:
  void run(func::FuncOp function) {
    remark::RemarkOpts about = remark::RemarkOpts::name("attention").category("fusion");
    SmallVector<SoftmaxOp> found;
    function.walk([&](Operation *op) {
      if (auto softmax = dyn_cast<SoftmaxOp>(op); softmax && !softmax->getParentOfType<ScanOp>())
        found.push_back(softmax); // an iteration of a scan has loops of its own (WriteOutSoftmax.cpp)
      if (auto quotient = dyn_cast<DivOp>(op); quotient && isNearlySoftmax(quotient))
        remark::missed(op->getLoc(), about) << "not one kernel: e^x is divided by more than its sum; "
                                               "softmax[...](x) is recognised, and needs no guard: it gives "
                                               "zeros where all is -inf";
    });
    llvm::SetVector<Block *> changed;
    for (SoftmaxOp softmax : found) {
      Candidate candidate(softmax);
      if (candidate.match()) {
        candidate.replace();
        changed.insert(softmax->getBlock());
      } else if (!candidate.getReason().empty()) {
        remark::missed(softmax.getLoc(), about)
            << "not one kernel: " << candidate.getReason() << ", so the scores are stored";
      }
    }
    for (Block *block : changed)
      eraseDead(*block);
  }

  bool ofLoss;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createRaiseAttentionPass(bool ofLoss) {
  return std::make_unique<RaiseAttentionPass>(ofLoss);
}
