// Takes: a `quern.attention` that gives the two numbers of each row's softmax, and the gradient g of its sum. Gives: the
// gradients of its operands, one `quern.attention_gradient` for each kernel. Why its own form: weights are S x T numbers
// a head. From two numbers a row they can be recomputed wherever they are read, so nobody stores them.
//
//   forward:     o, shift, share = attention q with k over S of v          x: the score, from products and inputs
//   gradient:    delta = sum(g * o)            over what o has and rows lack: the same as sum[S](p * dp)
//                p = exp(x - shift) * share;   dv = sum[T](p * g)
//                dp = sum(g * v);              dx = p * (dp - delta)
//                dz = -exp(z - shift) * share * delta                      a sink: a score without a value
//                dq = sum[S](ds * k), dk = sum[T](ds * q)                  ds: dx back through the body
//                db = sums of ds along diagonals                           a table by distance (TabulateDistances.cpp)
//                dm = sum[S](dm')                                          what lacks keys or queries (a learned scale)
//
// Two numbers a row rather than their log-sum-exp: where a finite mask hides all keys, x is so large that a logarithm
// added to it would be lost. First the plain operations are made, by the rules of the body's operations; then the sums
// are made of them, each with a copy of what it needs, and the plain ones go.
#include "ir/analysis/Distances.h"
#include "passes/Rewriting.h"
#include "passes/ScoreBody.h"
#include "passes/gradient/Gradients.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// The gradient of an operand as a sum over one dimension.
struct Sum {
  unsigned operand;
  Value weights, value;
  StringRef one; ///< the only column of a value of ones
};

class AttentionRule {
public:
  AttentionRule(RuleInput &in, AttentionOp op)
      : in(in), op(op), query(*queryDim(op)), scores(typeOf(op.getScore()).withKind(Kind::Real)) {}
  void run();

private:
  Value spread(Value value);
  void copyBody();
  Value softmax(Value score);
  Value reverseSoftmax();
  void reverseBody(Value gradient);
  void sumProducts(unsigned i);
  void sumInput(unsigned i);
  void makeKernel(ArrayRef<Sum> sums, StringRef over);
  void makeDiagonals(Value weights, DistanceLookup lookup);
  void reverseSinks();
  AttentionGradientOp make(ArrayRef<Value> weights, ArrayRef<Value> values, ArrayRef<Type> types, StringRef over,
                           const DistanceLookup *lookup = nullptr);

  RuleInput &in;
  AttentionOp op;
  DimAttr query;
  NamedTensorType scores;
  Value delta;           ///< of each row, what the gradient of all weights has in common
  IRMapping copies;      ///< of the body's values
  DenseSet<Value> learn; ///< of the copies, as are the next
  DenseMap<Value, Value> gradients;
  llvm::SmallPtrSet<Operation *, 4> products;
  SmallVector<Sum> overKeys, overQueries;
  SmallVector<std::pair<Value, DistanceLookup>> diagonals; ///< weights, and what they are the gradient of
};

} // namespace

/// With all dimensions of the scores: gradients then have them, too, and the sums are kernels' business.
Value AttentionRule::spread(Value value) {
  return typeOf(value).getRank() < scores.getRank() ? in.make<ExpandOp>(scores, value) : value;
}

/// The products and the score once more.
void AttentionRule::copyBody() {
  unsigned count = op.getQueries().size();
  auto enter = [&](BlockArgument argument, Value value, bool learns) {
    copies.map(argument, learns ? spread(value) : value);
    if (learns)
      learn.insert(copies.lookup(argument));
  };
  for (unsigned i = 0; i < count; ++i) {
    SmallVector<StringRef> depth;
    for (DimAttr dim : op.getDepth(i))
      depth.push_back(dim.getName());
    Value product = in.make<ContractOp>(op.getQueries()[i], op.getKeys()[i], labelArray(in.b, depth));
    product.setType(op.getProduct(i).getType()); // the same order of dimensions as forwards
    products.insert(product.getDefiningOp());
    enter(op.getProduct(i), product, in.needs(i) || in.needs(count + i));
  }
  for (auto [i, input] : llvm::enumerate(op.getInputs()))
    enter(op.getInputArgument(i), input, in.needs(2 * count + 1 + i));
  for (Operation &inner : op.getBlock().without_terminator()) {
    SmallVector<Value> operands = llvm::map_to_vector(inner.getOperands(), [&](Value x) { return copies.lookup(x); });
    if (operands.empty()) {
      in.b.clone(inner, copies);
    } else if (isa<ExpandOp, PermuteOp>(inner)) { // elements find each other by name
      copies.map(inner.getResult(0), operands[0]);
    } else {
      Value copy = cloneOn(in.b, &inner, operands)->getResult(0);
      copies.map(inner.getResult(0), copy);
      bool learns = llvm::any_of(operands, [&](Value operand) { return learn.contains(operand); });
      if (learns && typeOf(copy).isReal() && gradientRules().find(inner.getName().stripDialect())->second.rule)
        learn.insert(copy);
    }
  }
}

/// e^score over the sum of the row.
Value AttentionRule::softmax(Value score) {
  return in.mul(in.make<ExpOp>(in.sub(score, op.getShift())), op.getShare());
}

/// Adds the sum for the values. Returns the gradient of the score, if it learns.
Value AttentionRule::reverseSoftmax() {
  unsigned valuesIndex = 2 * op.getQueries().size();
  Value v = op.getValues(), score = copies.lookup(op.getScore()), p = softmax(score);
  delta = in.productSum(in.g, op.getAttended(), typeOf(op.getShift()));
  if (in.needs(valuesIndex))
    overQueries.push_back({valuesIndex, p, in.g, {}});
  if (!learn.contains(score))
    return {};
  StringRef column;
  for (DimAttr dim : typeOf(v).getDims())
    if (!scores.has(dim.getName()))
      column = dim.getName();
  Value dp = in.make<ContractOp>(in.g, v, labelArray(in.b, column));
  products.insert(dp.getDefiningOp());
  return in.mul(p, in.sub(dp, delta));
}

/// From the score to the body's arguments, by the rules of its operations.
void AttentionRule::reverseBody(Value gradient) {
  gradients[copies.lookup(op.getScore())] = gradient;
  auto needed = [&](Value value) { return learn.contains(value); };
  auto take = [&](Value value, Value part, CutOp) {
    Value &sum = gradients[value];
    sum = sum ? in.add(sum, part) : part;
  };
  for (Operation &inner : llvm::reverse(op.getBlock().without_terminator())) {
    Value copy = copies.lookup(inner.getResult(0)), g = gradients.lookup(copy);
    if (!g || !learn.contains(copy) || isa<ExpandOp, PermuteOp>(inner))
      continue;
    RuleInput own(in.b, copy.getDefiningOp(), g, needed, take);
    gradientRules().find(inner.getName().stripDialect())->second.rule(own);
  }
}

void AttentionRule::sumProducts(unsigned i) {
  unsigned count = op.getQueries().size();
  Value weights = gradients.lookup(copies.lookup(op.getProduct(i)));
  if (!weights)
    return;
  if (in.needs(i))
    overKeys.push_back({i, weights, op.getKeys()[i], {}});
  if (in.needs(count + i))
    overQueries.push_back({count + i, weights, op.getQueries()[i], {}});
}

/// Along diagonals, or over the dimension that it lacks first, by a product with ones, which is a column more of a
/// kernel that is there anyway.
void AttentionRule::sumInput(unsigned i) {
  Value input = op.getInputs()[i], copy = copies.lookup(op.getInputArgument(i)), weights = gradients.lookup(copy);
  gradients.erase(copy); // two arguments may be one value
  unsigned operand = 2 * op.getQueries().size() + 1 + i;
  if (!weights || !in.needs(operand))
    return;
  bool keys = typeOf(input).has(op.getDim());
  if (keys && typeOf(input).has(query.getName())) {
    diagonals.push_back({weights, *distanceLookup(input)});
    return;
  }
  DimAttr over = keys ? query : typeOf(op.getValues()).dim(op.getDim());
  DimAttr one = DimAttr::get(in.b.getContext(), (over.getName() + ".one").str(), Size(1));
  Value ones = in.make<ExpandOp>(scores.withDims({over, one}), in.number(1.0));
  (keys ? overQueries : overKeys).push_back({operand, weights, ones, one.getName()});
}

/// In the order of what it is the gradient of (heads that this lacks before its last): what a kernel writes is then
/// stored like that, and joining heads is a view.
static NamedTensorType sumType(NamedTensorType weights, NamedTensorType value, StringRef over, NamedTensorType like) {
  NamedTensorType sum = AttentionOp::resultType(weights, value, over);
  SmallVector<DimAttr> order, lacking;
  for (DimAttr dim : like.getDims())
    if (sum.has(dim.getName()))
      order.push_back(dim);
  for (DimAttr dim : sum.getDims())
    if (!like.has(dim.getName()))
      lacking.push_back(dim);
  order.insert(order.empty() ? order.end() : std::prev(order.end()), lacking.begin(), lacking.end());
  return sum.withDims(order);
}

AttentionGradientOp AttentionRule::make(ArrayRef<Value> weights, ArrayRef<Value> values, ArrayRef<Type> types,
                                        StringRef over, const DistanceLookup *lookup) {
  ScoreBody body = collectBody(weights, in.b.getInsertionBlock(),
                               [&](ContractOp product) { return products.contains(product.getOperation()); });
  SmallVector<Value> rows, others, inputs = body.inputs();
  for (ContractOp product : body.products) {
    bool first = typeOf(product.getA()).has(over);
    others.push_back(first ? product.getA() : product.getB());
    rows.push_back(first ? product.getB() : product.getA());
  }
  ArrayAttr distance;
  StringAttr offset;
  DimAttr into;
  if (lookup) {
    distance = labelArray(in.b, {lookup->plus.getName(), lookup->minus.getName()});
    offset = in.b.getStringAttr(lookup->minus.getSize().str());
    into = lookup->distances;
  }
  auto kernel =
      AttentionGradientOp::create(in.b, in.loc, types, rows, others, values, inputs, over, distance, offset, into);
  body.copyInto(kernel.getBody(), inputs, weights, op.getBlock().getTerminator()->getLoc());
  return kernel;
}

void AttentionRule::makeKernel(ArrayRef<Sum> sums, StringRef over) {
  if (sums.empty())
    return;
  SmallVector<Value> weights, values;
  SmallVector<Type> types;
  for (const Sum &sum : sums) {
    weights.push_back(sum.weights);
    values.push_back(sum.value);
    types.push_back(sumType(typeOf(sum.weights), typeOf(sum.value), over, in.type(sum.operand)));
  }
  AttentionGradientOp kernel = make(weights, values, types, over);
  for (auto [sum, result] : llvm::zip(sums, kernel.getResults())) {
    Value gradient = sum.one.empty() ? Value(result) : in.make<SqueezeOp>(result, sum.one);
    in.fitted(sum.operand, gradient);
  }
}

/// The gradient of the table, past the look-up.
void AttentionRule::makeDiagonals(Value weights, DistanceLookup lookup) {
  SmallVector<DimAttr> kept;
  for (DimAttr dim : typeOf(weights).getDims())
    if (dim != lookup.plus && dim != lookup.minus)
      kept.push_back(dim);
  kept.push_back(lookup.distances);
  AttentionGradientOp kernel = make(weights, {}, {scores.withDims(kept)}, op.getDim(), &lookup);
  Value table = lookup.gather.getX();
  in.of(table, in.fit(kernel.getResult(0), typeOf(table)));
}

void AttentionRule::reverseSinks() {
  for (unsigned i = op->getNumOperands() - op.getSinks().size(); i < op->getNumOperands(); ++i)
    if (in.needs(i))
      in.fitted(i, in.neg(in.mul(softmax(in.x(i)), delta)));
}

void AttentionRule::run() {
  Block *block = in.b.getInsertionBlock();
  auto last = [&] {
    return in.b.getInsertionPoint() == block->begin() ? nullptr : &*std::prev(in.b.getInsertionPoint());
  };
  Operation *before = last();
  copyBody();
  if (Value gradient = reverseSoftmax()) {
    reverseBody(gradient);
    for (unsigned i = 0; i < op.getQueries().size(); ++i)
      sumProducts(i);
    for (unsigned i = 0; i < op.getInputs().size(); ++i)
      sumInput(i);
  }
  Operation *plain = last();
  for (auto &[weights, lookup] : diagonals) // few numbers first, so that few wait for the next kernel
    makeDiagonals(weights, lookup);
  reverseSinks();
  makeKernel(overQueries, query.getName());
  makeKernel(overKeys, op.getDim());
  while (plain != before) {
    Operation *next = plain->getPrevNode();
    if (plain->use_empty())
      plain->erase();
    plain = next;
  }
}

void quern::passes::attentionRule(RuleInput &in) {
  AttentionRule(in, cast<AttentionOp>(in.op)).run();
}
