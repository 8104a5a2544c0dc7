// Takes: a weighted sum o = sum[S](softmax[S](x) v), where x is made element by element from products of queries and
// keys, and the gradient g of o. Gives: the gradients of v, of the scores x, of sinks, and later of the products'
// operands. Why a rule of its own: a softmax is S x T numbers a head, and the rules of its parts read it. From two
// numbers a row it can be made again wherever it is read, so neither the forward turn keeps it nor does a kernel of the
// gradient store it.
//
//   forward, beside o:   most = max[S](x);  shift = where(most == -inf, 0, most);  share = 1 / sum[S](exp(x - shift)), 0 where empty
//   gradient:            delta = sum(g * o)            over what o has and rows lack: the same as sum[S](p * dp)
//                        p = exp(x - shift) * share;   dv = sum[T](p * g)
//                        dp = sum(g * v);              dx = p * (dp - delta)
//                        dz = -exp(z - shift) * share * delta                      a sink: a score without a value
//                        dq = sum[S](ds * k), dk = sum[T](ds * q)                  ds: dx through the score's own operations
//                        db = scatter(ds at index(S) - index(T))                   of a bias by distance (TabulateDistances.cpp)
//                        dm = sum[S](dm')                                          of what lacks keys or queries (a learned scale)
//
// Two numbers a row rather than their log-sum-exp: where a finite mask hides all keys, x is so large that a logarithm
// added to it would be lost. What has both S and T is marked (insideAttr): it is never saved, and FusionAttention.cpp
// finds it by that.
#include "ir/analysis/Operations.h"
#include "passes/gradient/Differentiate.h"

#include "mlir/IR/Remarks.h"

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

/// What flows into the scores from products of queries and keys alone, element by element.
static void collectProducts(RaisedAttention &found, const DenseSet<Value> &active) {
  NamedTensorType type = typeOf(found.score);
  StringRef key = found.key.getName();
  llvm::SetVector<Value> work;
  work.insert(found.score);
  for (size_t i = 0; i < work.size(); ++i) {
    Operation *op = work[i].getDefiningOp();
    if (!op || op->getBlock() != found.sum->getBlock())
      continue;
    if (auto product = dyn_cast<ContractOp>(op)) {
      bool whole = typeOf(work[i]).getRank() == type.getRank() && product.getDims().size() == 1;
      if (whole && typeOf(product.getA()).has(key) != typeOf(product.getB()).has(key))
        found.products.push_back(product);
    } else if (isElementwise(op)) {
      for (Value operand : op->getOperands())
        if (active.contains(operand))
          work.insert(operand);
    }
  }
}

/// The dimension that only queries have: the innermost whose size only the run knows, as texts of a batch may share
/// keys.
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

/// A table by distance, looked up.
static bool isByDistance(Value value) {
  auto gather = value.getDefiningOp<GatherOp>();
  return gather && gather->hasAttr(distanceAttr);
}

/// Back from the scores through elementwise operations: all that a parameter reaches must come from the products, or
/// from a bias. That is what lacks queries or keys (a slope, a temperature, a number for each key), or a table by
/// distance. Returns why it is not so.
std::string Differentiator::findProducts(RaisedAttention &found) {
  collectProducts(found, active);
  if (found.products.empty() || !findQuery(found))
    return "its scores are no products of queries and keys";
  NamedTensorType type = typeOf(found.score);
  StringRef key = found.key.getName(), query = found.query;
  auto hasBoth = [&](Value value) { return typeOf(value).has(key) && typeOf(value).has(query); };
  SmallVector<Value> work = {found.score};
  llvm::SetVector<Operation *> region;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != found.sum->getBlock())
      return "something learned with queries and keys is made outside of the loop, and not from their distance alone";
    if (!region.insert(op))
      continue;
    NamedTensorType own = typeOf(op->getResult(0));
    for (DimAttr dim : own.getDims())
      if (type.dim(dim.getName()) != dim)
        return "a part of its scores has another dimension, " + dim.getName().str();
    if (auto product = dyn_cast<ContractOp>(op)) {
      for (StringRef name : names(product.getDims()))
        if (!typeOf(product.getA()).has(name) || !typeOf(product.getB()).has(name) ||
            !typeOf(product.getA()).dim(name).getStatic())
          return "a product of queries and keys is over a length that only the run knows";
      if (!llvm::is_contained(found.products, product))
        return "a product among its scores is not of queries with keys";
      continue;
    }
    if (!isElementwise(op))
      return "'" + op->getName().stripDialect().str() +
             "' makes something learned with queries and keys, not from their distance alone";
    for (OpOperand &use : op->getOpOperands()) {
      if (!active.contains(use.get()))
        continue;
      if (hasBoth(use.get()) && !isByDistance(use.get()))
        work.push_back(use.get());
      else
        found.biases.push_back(&use);
    }
  }
  for (Operation *op : region)
    for (Operation *user : op->getUsers())
      if (!region.contains(user) && !llvm::is_contained(found.inside, user))
        return "its scores are used elsewhere too";
  found.inside.append(region.begin(), region.end());
  return "";
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
    if (!found.softmax || found.inside.size() > 2 || found.softmax->getBlock() != sum->getBlock() ||
        found.softmax.getDims().size() != 1)
      continue;
    auto cut = dyn_cast<CutOp>(found.inside[0]);
    if ((cut ? cut.getInto().getName() : names(found.softmax.getDims())[0]) != over ||
        !splitScores(found.softmax, cut, found))
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
    if (!found.valueKey || columns != 1 || !active.contains(found.score))
      return std::nullopt;
    std::string reason = findProducts(found);
    if (reason.empty())
      return found;
    if (!found.products.empty())
      remark::missed(found.softmax.getLoc(), remark::RemarkOpts::name("attention-gradient").category("training"))
          << "its gradient stores all scores: " << reason;
    return std::nullopt;
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

/// The sum of `weights` * `value` over one dimension, in the order of `like` (heads that it lacks before its last), and
/// fit to it: what a kernel writes then lies as what it is the gradient of, and joining heads is a view.
static Value sumLike(GradientBuilder &make, Value weights, Value value, StringRef over, NamedTensorType like) {
  Value sum = make.make<ContractOp>(weights, value, labelArray(make.b, over));
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

/// Gives biases the dimensions of the scores, so that the gradient that reaches them is summed by the attention's own
/// kernels, and with them what they flow through.
void Differentiator::spreadBiases(RaisedAttention &found) {
  NamedTensorType scores = typeOf(found.score).withKind(Kind::Real);
  for (OpOperand *use : found.biases) {
    Value bias = use->get();
    if (isByDistance(bias))
      bias.getDefiningOp()->setAttr(insideAttr, UnitAttr::get(bias.getContext()));
    if (typeOf(bias).getRank() < scores.getRank()) {
      OpBuilder before(use->getOwner());
      bias = ExpandOp::create(before, use->getOwner()->getLoc(), scores, bias);
      bias.getDefiningOp()->setAttr(insideAttr, before.getUnitAttr());
      active.insert(bias);
      use->set(bias);
    }
    attentionBiases[bias] = {found.key.getName(), found.query};
  }
  SmallVector<Operation *> ordered(found.inside);
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : ordered)
    if (isElementwise(op) && typeOf(op->getResult(0)).getRank() < scores.getRank())
      op->getResult(0).setType(scores);
}

void Differentiator::reverseAttention(RaisedAttention &found, Value g, OpBuilder &builder) {
  Location loc = found.sum.getLoc();
  StringRef key = found.key.getName();
  spreadBiases(found);
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
    v = make.make<RenameOp>(v, labelArray(make.b, found.valueKey.getName()), make.b.getArrayAttr(found.key));
  Value p = make.mark<MulOp>(make.mark<ExpOp>(make.mark<SubOp>(found.score, shift)), share);
  if (active.contains(found.v)) {
    Value dv = sumLike(make, p, g, found.query, typeOf(v));
    if (renamed)
      dv = make.make<RenameOp>(dv, labelArray(make.b, key), make.b.getArrayAttr(found.valueKey));
    give(found.v, dv, CutOp());
  }
  StringRef column;
  for (DimAttr dim : typeOf(v).getDims())
    if (!scores.has(dim.getName()))
      column = dim.getName();
  Value dp = make.mark<ContractOp>(g, v, labelArray(make.b, column));
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

/// `g`, of all queries and keys, summed to what the bias was spread from: along diagonals, or over the dimension that
/// it lacks first, by a product with ones, which is a column more of a kernel that is there anyway.
void Differentiator::reverseBias(Value bias, Value g, OpBuilder &builder) {
  auto [key, query] = attentionBiases[bias];
  GradientBuilder make(builder, bias.getLoc());
  auto spread = bias.getDefiningOp<ExpandOp>();
  Value of = spread ? spread.getX() : bias;
  if (isByDistance(of)) {
    auto gather = of.getDefiningOp<GatherOp>();
    NamedTensorType table = typeOf(gather.getX());
    DimAttr distances = table.dim(gather.getDim());
    SmallVector<DimAttr> kept;
    for (DimAttr dim : typeOf(g).getDims())
      if (dim.getName() != key && dim.getName() != query)
        kept.push_back(dim);
    kept.push_back(distances);
    Value sums = make.make<ScatterAddOp>(table.withDims(kept), g, gather.getPositions(),
                                         labelArray(builder, {query, key}), distances);
    sums.getDefiningOp()->setAttr(insideAttr, builder.getUnitAttr());
    return give(gather.getX(), make.fit(sums, table), CutOp());
  }
  StringRef over = typeOf(of).has(key) ? query : key;
  DimAttr one = DimAttr::get(builder.getContext(), (Twine(over) + ".one").str(), Size(1));
  Value ones = make.make<ExpandOp>(typeOf(of).withDims({typeOf(g).dim(over), one}), make.number(1.0));
  Value sum = make.make<ContractOp>(g, ones, labelArray(builder, over));
  give(of, make.fit(make.make<SqueezeOp>(sum, one.getName()), typeOf(of)), CutOp());
}
