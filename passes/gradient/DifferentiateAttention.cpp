// Takes: o = `quern.attention`, raised in the loss before it is differentiated, and the gradient g of o. Gives: the
// gradients of values, sinks, queries and keys, and of what else learns in the scores. Why a rule of its own: a softmax
// is S x T numbers a head, and the rules of its parts read it. From two numbers a row it can be made again wherever it
// is read, so neither the forward turn keeps it nor does a kernel of the gradient store it.
//
//   forward, beside o:   shift, share: the attention's statistics
//   gradient:            delta = sum(g * o)            over what o has and rows lack: the same as sum[S](p * dp)
//                        x: the score, made again from products
//                        p = exp(x - shift) * share;   dv = sum[T](p * g)
//                        dp = sum(g * v);              dx = p * (dp - delta)
//                        dz = -exp(z - shift) * share * delta                      a sink: a score without a value
//                        dq = sum[S](ds * k), dk = sum[T](ds * q)                  ds: dx through the score's own operations
//                        db = scatter(ds at index(S) - index(T))                   of a bias by distance (TabulateDistances.cpp)
//                        dm = sum[S](dm')                                          of what lacks keys or queries (a learned scale)
//
// Two numbers a row rather than their log-sum-exp: where a finite mask hides all keys, x is so large that a logarithm
// added to it would be lost. What has both S and T is marked (insideAttr), and FusionAttention.cpp finds it by that.
#include "ir/analysis/Operations.h"
#include "passes/gradient/Differentiate.h"
#include "passes/raise/RaiseAttention.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

/// A table by distance, looked up.
static bool isByDistance(Value value) {
  auto gather = value.getDefiningOp<GatherOp>();
  return gather && gather->hasAttr(distanceAttr);
}

/// The dimension that only queries have: the innermost whose size only the run knows, as texts of a batch may share
/// keys. Empty where there is none.
static StringRef queryOf(AttentionOp op) {
  StringRef query;
  for (DimAttr dim : typeOf(op.getScore()).getDims()) {
    StringRef name = dim.getName();
    bool ofQueries = name != op.getDim() && !typeOf(op.getValues()).has(name) &&
                     llvm::all_of(llvm::zip(op.getQueries(), op.getKeys()), [&](auto pair) {
                       return typeOf(std::get<0>(pair)).has(name) && !typeOf(std::get<1>(pair)).has(name);
                     });
    if (ofQueries && (query.empty() || !dim.getStatic()))
      query = name;
  }
  return query;
}

/// All that a parameter reaches must come from the products, or from a bias. That is what lacks queries or keys (a
/// slope, a temperature, a number for each key), or a table by distance. Returns why it is not so.
std::string Differentiator::whyNotRaised(AttentionOp op) {
  NamedTensorType score = typeOf(op.getScore());
  StringRef query = queryOf(op);
  if (query.empty())
    return "no dimension belongs to the queries alone";
  for (unsigned i = 0; i < op.getQueries().size(); ++i)
    if (typeOf(op.getProduct(i)).getRank() != score.getRank() || op.getDepth(i).size() != 1)
      return "a product among its scores is not of queries with keys";
  for (Operation &inner : op.getBlock().without_terminator())
    for (DimAttr dim : typeOf(inner.getResult(0)).getDims())
      if (score.dim(dim.getName()) != dim)
        return "a part of its scores has another dimension, " + dim.getName().str();
  for (Value input : op.getInputs()) {
    bool both = typeOf(input).has(op.getDim()) && typeOf(input).has(query);
    if (!active.contains(input) || !both || isByDistance(input))
      continue;
    Operation *maker = input.getDefiningOp();
    if (!maker || maker->getBlock() != op->getBlock())
      return "something learned with queries and keys is made outside of the loop, and not from their distance alone";
    return "'" + maker->getName().stripDialect().str() +
           "' makes something learned with queries and keys, not from their distance alone";
  }
  return "";
}

bool Differentiator::lowerAttentions() {
  SmallVector<AttentionOp> plain;
  function.walk([&](AttentionOp op) {
    std::string reason = whyNotRaised(op);
    if (reason.empty())
      return;
    remark::missed(op.getLoc(), remark::RemarkOpts::name("attention-gradient").category("training"))
        << "its gradient stores all scores: " << reason;
    plain.push_back(op);
  });
  for (AttentionOp op : plain)
    lowerAttention(op);
  return !plain.empty();
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

/// `op` with its statistics.
AttentionOp Differentiator::keepStatistics(AttentionOp op) {
  OpBuilder before(op);
  NamedTensorType rows = AttentionOp::statisticType(typeOf(op.getScore()), op.getDim());
  auto kept = AttentionOp::create(before, op.getLoc(), TypeRange{op.getAttended().getType(), rows, rows},
                                  op.getQueries(), op.getKeys(), op.getValues(), op.getInputs(), op.getSinks(),
                                  op.getDimAttr(), op.getPartsAttr());
  kept->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  kept.getBody().takeBody(op.getBody());
  active.erase(op.getAttended());
  active.insert(kept.getAttended());
  op.getAttended().replaceAllUsesWith(kept.getAttended());
  op.erase();
  return kept;
}

/// What the scores are made of, in the gradient: products and the operations of the body, in order. `score` is the last
/// value of it.
SmallVector<Operation *> Differentiator::repeatScores(AttentionOp op, StringRef query, OpBuilder &builder,
                                                      Value &score) {
  StringRef key = op.getDim();
  NamedTensorType scores = typeOf(op.getScore());
  Inside make(builder, op.getLoc());
  SmallVector<Operation *> made;
  IRMapping mapping;
  for (auto [i, queries, keys] : llvm::enumerate(op.getQueries(), op.getKeys())) {
    Value product = make.mark<ContractOp>(queries, keys, builder.getStrArrayAttr(op.getDepth(i)[0].getName()));
    product.setType(typeOf(op.getProduct(i)));
    if (active.contains(queries) || active.contains(keys))
      active.insert(product);
    attentionProducts[product.getDefiningOp()] = {key, query};
    made.push_back(product.getDefiningOp());
    mapping.map(op.getProduct(i), product);
  }
  // What lacks queries or keys is given the dimensions of the scores, so that the gradient that reaches it is summed by
  // the attention's own kernels, and with it what it flows through.
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Value value = input;
    if (active.contains(input)) {
      if (isByDistance(value)) {
        value = builder.clone(*value.getDefiningOp())->getResult(0);
        value.getDefiningOp()->setAttr(insideAttr, builder.getUnitAttr());
      }
      if (typeOf(value).getRank() < scores.getRank())
        value = make.mark<ExpandOp>(scores, value);
      active.insert(value);
      attentionBiases[value] = {key, query};
    }
    mapping.map(op.getInputArgument(i), value);
  }
  for (Operation &inner : op.getBlock().without_terminator()) {
    Operation *copy = builder.clone(inner, mapping);
    Value result = copy->getResult(0);
    if (isElementwise(copy) && typeOf(result).getRank() < scores.getRank() &&
        llvm::any_of(copy->getOperands(), [&](Value x) { return typeOf(x).getRank() == scores.getRank(); }))
      result.setType(scores.withKind(typeOf(result).getKind()));
    if (!isa<ConstOp>(copy))
      copy->setAttr(insideAttr, builder.getUnitAttr());
    if (typeOf(result).isReal() && llvm::any_of(copy->getOperands(), [&](Value x) { return active.contains(x); }))
      active.insert(result);
    made.push_back(copy);
  }
  score = mapping.lookup(op.getScore());
  return made;
}

LogicalResult Differentiator::reverseAttention(AttentionOp op, Value g, OpBuilder &builder) {
  op = keepStatistics(op);
  StringRef query = queryOf(op);
  Value x, v = op.getValues(), shift = op.getShift(), share = op.getShare();
  SmallVector<Operation *> scores = repeatScores(op, query, builder, x);
  Inside make(builder, op.getLoc());
  Value delta = make.productSum(g, op.getAttended(), typeOf(shift));
  Value p = make.mark<MulOp>(make.mark<ExpOp>(make.mark<SubOp>(x, shift)), share);
  if (active.contains(v))
    give(v, sumLike(make, p, g, query, typeOf(v)), CutOp());
  StringRef column;
  for (DimAttr dim : typeOf(v).getDims())
    if (!typeOf(x).has(dim.getName()))
      column = dim.getName();
  Value dp = make.mark<ContractOp>(g, v, builder.getStrArrayAttr(column));
  give(x, make.mark<MulOp>(p, make.mark<SubOp>(dp, delta)), CutOp());
  for (Value sink : op.getSinks())
    if (active.contains(sink)) {
      Value weight = make.mul(make.make<ExpOp>(make.sub(sink, shift)), share);
      give(sink, make.fit(make.neg(make.mul(weight, delta)), typeOf(sink)), CutOp());
    }
  for (Operation *made : llvm::reverse(scores))
    if (failed(reverseOp(made, builder)))
      return failure();
  return success();
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
                                         builder.getStrArrayAttr({query, key}), distances);
    sums.getDefiningOp()->setAttr(insideAttr, builder.getUnitAttr());
    return give(gather.getX(), make.fit(sums, table), CutOp());
  }
  StringRef over = typeOf(of).has(key) ? query : key;
  DimAttr one = DimAttr::get(builder.getContext(), (Twine(over) + ".one").str(), Size(1));
  Value ones = make.make<ExpandOp>(typeOf(of).withDims({typeOf(g).dim(over), one}), make.number(1.0));
  Value sum = make.make<ContractOp>(g, ones, builder.getStrArrayAttr(over));
  give(of, make.fit(make.make<SqueezeOp>(sum, one.getName()), typeOf(of)), CutOp());
}
