// Takes: a weighted sum o = sum[S](softmax[S](x) v), where x is made element by element from products of queries and keys, and
// the gradient g of o. Gives: the gradients of v, of the scores x, of sinks, and later of the products' operands.
// Why a rule of its own: a softmax is S x T numbers a head, and the rules of its parts read it. From two numbers a row it can be made
// again wherever it is read, so neither the forward turn keeps it nor does a kernel of the gradient store it.
//
//   forward, beside o:   most = max[S](x);  shift = where(most == -inf, 0, most);  share = 1 / sum[S](exp(x - shift)), 0 where empty
//   gradient:            delta = sum(g * o)            over what o has and rows lack: the same as sum[S](p * dp)
//                        p = exp(x - shift) * share;   dv = sum[T](p * g)
//                        dp = sum(g * v);              dx = p * (dp - delta)
//                        dz = -exp(z - shift) * share * delta                      a sink: a score without a value
//                        dq = sum[S](ds * k), dk = sum[T](ds * q)                  ds: dx through the score's own operations
//
// Two numbers a row rather than their log-sum-exp: where a finite mask hides all keys, x is so large that a logarithm added to it
// would be lost. What has both S and T is marked (insideAttr): it is never saved, and FusionAttention.cpp finds it by that.
#include "passes/Differentiate.h"
#include "passes/FusionGroups.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

/// From the weights back to their softmax: itself, or the part of it that has values. Fills `chain`.
static SoftmaxOp softmaxBehind(Value weights, SmallVectorImpl<Operation *> &chain) {
  Operation *op = weights.getDefiningOp();
  if (!op || !weights.hasOneUse())
    return {};
  chain.push_back(op);
  if (auto softmax = dyn_cast<SoftmaxOp>(op))
    return softmax;
  auto cut = dyn_cast<CutOp>(op);
  return cut ? softmaxBehind(cut.getX(), chain) : SoftmaxOp();
}

/// The scores that have values and those without one (sinks), if the softmax is over both joined.
static bool splitScores(SoftmaxOp softmax, CutOp cut, RaisedAttention &found) {
  found.score = softmax.getX();
  found.key = typeOf(softmax.getX()).dim(names(softmax.getDims())[0]);
  if (!cut)
    return true;
  auto concat = softmax.getX().getDefiningOp<ConcatOp>();
  if (!concat || !concat->hasOneUse() || concat.getInto() != found.key || cut.getDim() != found.key.getName())
    return false;
  found.inside.push_back(concat);
  Size at(0);
  bool any = false;
  for (auto [part, name] : llvm::zip(concat.getInputs(), names(concat.getParts()))) {
    DimAttr dim = typeOf(part).dim(name);
    if (!any && at == cut.getOffsetSize() && dim.getSize() == cut.getInto().getSize()) {
      any = true;
      found.score = part;
    } else {
      found.sinks.push_back({part, name});
    }
    at = at + dim.getSize();
    if (found.score == part)
      found.partKey = dim;
  }
  return any;
}

/// Back from the scores through elementwise operations to the products: all that a parameter reaches must come from there.
bool Differentiator::findProducts(RaisedAttention &found) {
  NamedTensorType type = typeOf(found.score);
  StringRef key = found.key.getName();
  SmallVector<Value> work = {found.score};
  llvm::SetVector<Operation *> region;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != found.sum->getBlock())
      return false;
    if (!region.insert(op))
      continue;
    NamedTensorType own = typeOf(op->getResult(0));
    bool whole = own.getRank() == type.getRank() && llvm::all_of(own.getDims(), [&](DimAttr dim) { return type.dim(dim.getName()) == dim; });
    if (!whole)
      return false;
    if (auto product = dyn_cast<ContractOp>(op)) {
      bool first = typeOf(product.getA()).has(key), second = typeOf(product.getB()).has(key);
      for (StringRef name : names(product.getDims()))
        if (!typeOf(product.getA()).has(name) || !typeOf(product.getB()).has(name) || !typeOf(product.getA()).dim(name).getStatic())
          return false;
      if (first == second || product.getDims().size() != 1)
        return false;
      found.products.push_back(product);
      continue;
    }
    if (!isElementwise(op))
      return false;
    for (Value operand : op->getOperands())
      if (active.contains(operand))
        work.push_back(operand);
  }
  for (Operation *op : region)
    for (Operation *user : op->getUsers())
      if (!region.contains(user) && !llvm::is_contained(found.inside, user))
        return false;
  found.inside.append(region.begin(), region.end());
  return !found.products.empty();
}

/// The dimension that only queries have: the innermost whose size only the run knows, as texts of a batch may share keys.
static bool findQuery(RaisedAttention &found) {
  StringRef key = found.key.getName();
  for (DimAttr dim : typeOf(found.score).getDims()) {
    StringRef name = dim.getName();
    auto ofQueries = [&](ContractOp product) {
      bool first = typeOf(product.getA()).has(key);
      Value keys = first ? product.getA() : product.getB(), queries = first ? product.getB() : product.getA();
      return !typeOf(keys).has(name) && typeOf(queries).has(name);
    };
    if (name == key || typeOf(found.v).has(name) || !llvm::all_of(found.products, ofQueries))
      continue;
    if (found.query.empty() || !dim.getStatic())
      found.query = name;
  }
  return !found.query.empty();
}

std::optional<RaisedAttention> Differentiator::raised(ContractOp sum) {
  if (!raiseAttention || sum.getDims().size() != 1)
    return std::nullopt;
  StringRef over = names(sum.getDims())[0];
  for (unsigned i : {0, 1}) {
    RaisedAttention found;
    found.sum = sum;
    Value weights = sum->getOperand(i);
    found.v = sum->getOperand(1 - i);
    found.softmax = softmaxBehind(weights, found.inside);
    if (!found.softmax || found.inside.size() > 2 || found.softmax->getBlock() != sum->getBlock() || found.softmax.getDims().size() != 1)
      continue;
    auto cut = dyn_cast<CutOp>(found.inside[0]);
    if ((cut ? cut.getInto().getName() : names(found.softmax.getDims())[0]) != over || !splitScores(found.softmax, cut, found))
      continue;
    if (found.partKey)
      found.key = found.partKey;
    found.valueKey = typeOf(found.v).dim(over);
    NamedTensorType scores = typeOf(found.score), values = typeOf(found.v);
    int columns = 0;
    for (DimAttr dim : values.getDims())
      if (dim != found.valueKey && !scores.has(dim.getName())) {
        columns += 1;
        if (!dim.getStatic())
          return std::nullopt;
      }
    if (!found.valueKey || columns != 1 || !findProducts(found) || !findQuery(found))
      return std::nullopt;
    return found;
  }
  return std::nullopt;
}

namespace {
/// Makes operations that have both queries and keys: marked as they are made.
class Inside : public GradientBuilder {
public:
  using GradientBuilder::GradientBuilder;
  template <class Op, class... Args> Value mark(Args &&...args) {
    Value value = make<Op>(std::forward<Args>(args)...);
    value.getDefiningOp()->setAttr(insideAttr, b.getUnitAttr());
    return value;
  }
};
} // namespace

/// The sum of `weights` * `value` over one dimension, in the order of `like` (heads that it lacks before its last), and fit to it: what
/// a kernel writes then lies as what it is the gradient of, and joining heads is a view.
static Value sumLike(GradientBuilder &make, Value weights, Value value, StringRef over, NamedTensorType like) {
  Value sum = make.make<ContractOp>(weights, value, make.b.getStrArrayAttr(over));
  SmallVector<DimAttr> order, lacking;
  for (DimAttr dim : like.getDims())
    if (typeOf(sum).has(dim.getName()))
      order.push_back(dim);
  for (DimAttr dim : typeOf(sum).getDims())
    if (!like.has(dim.getName()))
      lacking.push_back(dim);
  order.insert(order.empty() ? order.end() : std::prev(order.end()), lacking.begin(), lacking.end());
  sum.setType(typeOf(sum).withDims(order));
  return make.fit(sum, like);
}

void Differentiator::reverseAttention(RaisedAttention &found, Value g, OpBuilder &builder) {
  Location loc = found.sum.getLoc();
  StringRef key = found.key.getName();
  for (Operation *op : found.inside)
    op->setAttr(insideAttr, builder.getUnitAttr());
  for (ContractOp product : found.products)
    attentionProducts[product] = {key, found.query};

  OpBuilder after(found.sum);
  after.setInsertionPointAfter(found.sum);
  Inside forward(after, loc);
  Value x = found.softmax.getX(), nothing = forward.number(0.0);
  ArrayAttr over = found.softmax.getDimsAttr();
  Value most = forward.mark<ReduceOp>(Reduction::max, x, over);
  Value shift = forward.choose(forward.compare(Predicate::eq, most, forward.number(-INFINITY)), nothing, most);
  Value power = forward.mark<ExpOp>(forward.mark<SubOp>(x, shift));
  Value total = forward.mark<ReduceOp>(Reduction::sum, power, over);
  Value empty = forward.compare(Predicate::eq, total, nothing);
  Value share = forward.choose(empty, nothing, forward.div(forward.number(1.0), total));
  for (Value statistic : {shift, share})
    statistic.getDefiningOp()->setAttr(statisticAttr, builder.getUnitAttr());

  Inside make(builder, loc);
  NamedTensorType scores = typeOf(found.score);
  SmallVector<DimAttr> rows;
  for (DimAttr dim : scores.getDims())
    if (dim != found.key)
      rows.push_back(dim);
  Value delta = make.productSum(g, found.sum.getResult(), scores.withDims(rows));
  Value v = found.v;
  bool renamed = found.valueKey != found.key;
  if (renamed)
    v = make.make<RenameOp>(v, make.b.getStrArrayAttr(found.valueKey.getName()), make.b.getArrayAttr(found.key));
  Value p = make.mark<MulOp>(make.mark<ExpOp>(make.mark<SubOp>(found.score, shift)), share);
  if (active.contains(found.v)) {
    Value dv = sumLike(make, p, g, found.query, typeOf(v));
    if (renamed)
      dv = make.make<RenameOp>(dv, make.b.getStrArrayAttr(key), make.b.getArrayAttr(found.valueKey));
    give(found.v, dv, CutOp());
  }
  StringRef column;
  for (DimAttr dim : typeOf(v).getDims())
    if (!scores.has(dim.getName()))
      column = dim.getName();
  Value dp = make.mark<ContractOp>(g, v, make.b.getStrArrayAttr(column));
  give(found.score, make.mark<MulOp>(p, make.mark<SubOp>(dp, delta)), CutOp());
  for (auto &[sink, name] : found.sinks)
    if (active.contains(sink)) {
      Value weight = make.mul(make.make<ExpOp>(make.sub(sink, shift)), share);
      give(sink, make.fit(make.neg(make.mul(weight, delta)), typeOf(sink)), CutOp());
    }
}

void Differentiator::reverseProduct(ContractOp product, Value g, OpBuilder &builder) {
  auto [key, query] = attentionProducts[product];
  GradientBuilder make(builder, product.getLoc());
  for (unsigned i : {0, 1}) {
    Value operand = product->getOperand(i), other = product->getOperand(1 - i);
    if (!active.contains(operand))
      continue;
    // Heads that the operand lacks are summed afterwards: all sums over queries then fit into one kernel.
    StringRef over = typeOf(operand).has(key) ? query : key;
    give(operand, sumLike(make, g, other, over, typeOf(operand)), CutOp());
  }
}
