// Takes: an operation y and the gradient g of y. Gives: the gradients of its operands, as operations. The table at the
// end is the whole of differentiation by rules; what it says for each operation is in docs/training.md, row by row.
//
//   %y = quern.tanh %x     with g = dy  =>  %1 = mul %y, %y; %2 = sub 1, %1; %dx = mul g, %2
//
// Invariant: a gradient is real and has exactly the names of its value. A rule reads results (y) where they say more
// than operands, as the forward pass has them anyway.
#include "ir/analysis/Weights.h"
#include "passes/gradient/Gradients.h"

#include <numbers>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

// ---- element by element

/// y = f(x): dx = g * slope(x, y); `tame` says where the slope is surely finite.
template <class Slope> static void unary(RuleInput &in, Slope slope, bool tame = true) {
  in.to(0, in.times(in.g, slope(), tame));
}

static void negRule(RuleInput &in) {
  in.to(0, in.neg(in.g));
}
static void absRule(RuleInput &in) { // 0 at 0
  unary(in, [&] {
    Value zero = in.number(0.0), below = in.choose(in.compare(Predicate::lt, in.x(), zero), in.number(-1.0), zero);
    return in.choose(in.compare(Predicate::gt, in.x(), zero), in.number(1.0), below);
  });
}
static void expRule(RuleInput &in) {
  unary(in, [&] { return in.y(); }, isNonpositive(in.x()));
}
static void expm1Rule(RuleInput &in) {
  unary(in, [&] { return in.make<ExpOp>(in.x()); }, isNonpositive(in.x()));
}
static void logRule(RuleInput &in) {
  unary(in, [&] { return in.div(in.number(1.0), in.x()); }, isPositive(in.x()));
}
static void log1pRule(RuleInput &in) {
  unary(in, [&] { return in.div(in.number(1.0), in.add(in.number(1.0), in.x())); }, isNonnegative(in.x()));
}
static void sqrtRule(RuleInput &in) {
  unary(in, [&] { return in.div(in.number(0.5), in.y()); }, isPositive(in.x()));
}
static void sinRule(RuleInput &in) {
  unary(in, [&] { return in.make<CosOp>(in.x()); });
}
static void cosRule(RuleInput &in) {
  unary(in, [&] { return in.neg(in.make<SinOp>(in.x())); });
}
static void tanhRule(RuleInput &in) {
  unary(in, [&] { return in.sub(in.number(1.0), in.mul(in.y(), in.y())); });
}
static void sigmoidRule(RuleInput &in) {
  unary(in, [&] { return in.mul(in.y(), in.sub(in.number(1.0), in.y())); });
}
static void erfRule(RuleInput &in) {
  unary(in, [&] {
    Value bell = in.make<ExpOp>(in.neg(in.mul(in.x(), in.x())));
    return in.mul(in.number(2.0 * std::numbers::inv_sqrtpi), bell);
  });
}
static void toRealRule(RuleInput &in) {
  in.to(0, in.g);
}

static void addRule(RuleInput &in) {
  for (unsigned i : {0, 1})
    if (in.needs(i))
      in.fitted(i, in.g);
}
static void subRule(RuleInput &in) {
  if (in.needs(0))
    in.fitted(0, in.g);
  if (in.needs(1))
    in.fitted(1, in.neg(in.g));
}

/// May be infinite, or no number, although its operands are not.
static bool mayBlowUp(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<ParamOp, RepeatOp>(op))
    return false;
  if (isa<DivOp>(op))
    return !isPositive(op->getOperand(1)) || mayBlowUp(op->getOperand(0));
  if (isa<ExpOp, Expm1Op>(op))
    return !isNonpositive(op->getOperand(0));
  if (isa<LogOp, Log1pOp>(op))
    return true;
  if (auto pow = dyn_cast<PowOp>(op))
    return !isPositive(pow.getB()) || mayBlowUp(pow.getA());
  if (auto constant = dyn_cast<ConstOp>(op)) {
    auto real = dyn_cast<FloatAttr>(constant.getValue());
    return real && !real.getValue().isFinite();
  }
  if (isa<AddOp, SubOp, NegOp, AbsOp, MulOp, WhereOp, ExpandOp, RenameOp, ToRealOp, MaxOp, MinOp>(op))
    return llvm::any_of(op->getOperands(),
                        [](Value operand) { return typeOf(operand).isReal() && mayBlowUp(operand); });
  return false;
}

static void mulRule(RuleInput &in) {
  for (unsigned i : {0, 1}) {
    if (!in.needs(i))
      continue;
    Value other = in.x(1 - i);
    in.to(i,
          mayBlowUp(other) ? in.fit(in.times(in.g, other, false), in.type(i)) : in.productSum(in.g, other, in.type(i)));
  }
}
static void divRule(RuleInput &in) { // q = g / b; da = q, db = -q * y
  bool tame = isPositive(in.x(1));
  Value quotient = in.div(in.g, in.x(1));
  if (!tame)
    quotient = in.choose(in.compare(Predicate::eq, in.g, in.number(0.0)), in.number(0.0), quotient);
  if (in.needs(0))
    in.fitted(0, quotient);
  if (in.needs(1))
    in.fitted(1, in.neg(in.times(quotient, in.y(), tame)));
}
static void powRule(RuleInput &in) {
  Value a = in.x(0), b = in.x(1);
  if (in.needs(0)) {
    Value slope;
    bool tame = false;
    Attribute exponent;
    if (auto constant = b.getDefiningOp<ConstOp>())
      exponent = constant.getValue();
    auto real = dyn_cast_or_null<FloatAttr>(exponent);
    auto integer = dyn_cast_or_null<IntegerAttr>(exponent);
    if (real || integer) { // n * a^(n-1)
      double n = real ? real.getValueAsDouble() : static_cast<double>(integer.getInt());
      Value power = n == 2 ? a : in.make<PowOp>(a, in.number(n - 1));
      slope = n == 0 ? in.number(0.0) : n == 1 ? in.number(1.0) : in.mul(in.number(n), power);
      tame = n >= 1 || n == 0;
    } else {
      Value power = in.mul(b, in.make<PowOp>(a, in.sub(b, in.number(1.0))));
      slope = in.choose(in.compare(Predicate::eq, b, in.number(0.0)), in.number(0.0), power);
    }
    in.fitted(0, in.times(in.g, slope, tame));
  }
  if (in.needs(1)) {
    Value zero = in.number(0.0), logarithm = in.mul(in.y(), in.make<LogOp>(a));
    in.fitted(1, in.times(in.g, in.choose(in.compare(Predicate::gt, a, zero), logarithm, zero), false));
  }
}

/// All to the first where the condition holds, to the second elsewhere.
static void chosen(RuleInput &in, Value condition, unsigned first) {
  if (in.needs(first))
    in.fitted(first, in.choose(condition, in.g, in.number(0.0)));
  if (in.needs(first + 1))
    in.fitted(first + 1, in.choose(condition, in.number(0.0), in.g));
}
// Of equals the second has it all: max(x, 0) has slope 0 at 0.
static void maxRule(RuleInput &in) {
  chosen(in, in.compare(Predicate::gt, in.x(0), in.x(1)), 0);
}
static void minRule(RuleInput &in) {
  chosen(in, in.compare(Predicate::lt, in.x(0), in.x(1)), 0);
}
static void whereRule(RuleInput &in) {
  chosen(in, in.x(0), 1);
}

// ---- what combines positions

/// How many positions are combined, as a real.
static Value countOver(RuleInput &in, ArrayRef<StringRef> over) {
  Size count(1);
  for (StringRef name : over)
    count = count * in.type().dim(name).getSize();
  if (std::optional<int64_t> fixed = count.constant())
    return in.number(static_cast<double>(*fixed));
  return in.make<ToRealOp>(in.make<SizeOp>(count));
}

static void reduceRule(RuleInput &in) {
  auto reduce = cast<ReduceOp>(in.op);
  SmallVector<StringRef> over = names(reduce.getDims());
  switch (reduce.getReduction()) {
  case Reduction::sum:
    return in.fitted(0, in.g);
  case Reduction::mean:
    return in.fitted(0, in.div(in.g, countOver(in, over)));
  case Reduction::max:
  case Reduction::min: { // equals share: names have no order, so there is no first
    Value hit = in.compare(Predicate::eq, in.x(), in.y());
    Value share = in.div(in.g, in.sum(in.make<ToIntOp>(hit), over));
    return in.to(0, in.choose(hit, share, in.number(0.0)));
  }
  case Reduction::any:
  case Reduction::all:
    llvm_unreachable("of bools, which have no gradient");
  }
}

/// Where each row is routed to its weights (experts), its products with each of them come first, then their sum: a kernel
/// sorts rows by their expert.
static void contractRule(RuleInput &in) {
  for (unsigned i : {0, 1}) {
    if (!in.needs(i))
      continue;
    Value other = in.x(1 - i);
    SmallVector<DimAttr> dims(in.type(i).getDims());
    if (GatherOp gathered = routedWeight(other))
      for (DimAttr dim : typeOf(gathered.getPositions()).getDims())
        if (!in.type(i).has(dim.getName()) && typeOf(in.g).has(dim.getName()))
          dims.push_back(dim);
    in.fitted(i, in.productSum(in.g, other, in.type(i).withDims(dims)));
  }
}

static void softmaxRule(RuleInput &in) { // y * (g - sum of g * y)
  Value mean = in.make<ContractOp>(in.g, in.y(), cast<SoftmaxOp>(in.op).getDims());
  in.to(0, in.mul(in.y(), in.sub(in.g, mean)));
}

static void cumsumRule(RuleInput &in) {
  auto cumsum = cast<CumsumOp>(in.op);
  UnitAttr reverse = cumsum.getReverse() ? UnitAttr() : in.b.getUnitAttr();
  in.to(0, in.make<CumsumOp>(in.g, cumsum.getDimAttr(), FlatSymbolRefAttr(), reverse));
}

/// Each part of g goes back to the position it was taken from.
static Value scattered(RuleInput &in, Value positions, DimAttr into) {
  SmallVector<StringRef> over;
  for (DimAttr dim : typeOf(positions).getDims())
    if (!in.type().has(dim.getName()) || dim.getName() == into.getName())
      over.push_back(dim.getName());
  if (over.empty()) { // one position a row (the label's of the logits): no two meet, so each element asks whether it is the one
    auto index = in.make<IndexOp>(into);
    return in.fit(in.choose(in.compare(Predicate::eq, index, positions), in.g, in.number(0.0)), in.type());
  }
  return in.make<ScatterAddOp>(in.type().withKind(Kind::Real), in.g, positions, labelArray(in.b, over), into);
}

/// The gradient of weights that rows are routed to (experts), from that of each pick: each contraction's share by itself, and
/// what it sums over is summed with the picks, so that a kernel makes it without a matrix for each pick (summedByRoute).
static Value scatteredRoutes(RuleInput &in, GatherOp gather, Value g) {
  DimAttr into = in.type().dim(gather.getDim());
  if (auto shares = g.getDefiningOp<AddOp>(); shares && typeOf(shares.getA()).getRank() == typeOf(g).getRank() &&
                                              typeOf(shares.getB()).getRank() == typeOf(g).getRank())
    return in.add(scatteredRoutes(in, gather, shares.getA()), scatteredRoutes(in, gather, shares.getB()));
  SmallVector<StringRef> over;
  for (DimAttr dim : typeOf(gather.getPositions()).getDims())
    over.push_back(dim.getName());
  Value product = g;
  if (auto products = g.getDefiningOp<ContractOp>()) {
    product = in.mul(products.getA(), products.getB());
    llvm::append_range(over, names(products.getDims()));
  }
  return in.make<ScatterAddOp>(in.type().withKind(Kind::Real), product, gather.getPositions(), labelArray(in.b, over),
                               into);
}

static void gatherRule(RuleInput &in) {
  auto gather = cast<GatherOp>(in.op);
  bool apart =
      llvm::none_of(typeOf(gather.getPositions()).getDims(), [&](DimAttr dim) { return in.type().has(dim.getName()); });
  if (apart && routedWeight(in.y()) && typeOf(gather.getPositions()).getRank())
    return in.to(0, scatteredRoutes(in, gather, in.g));
  in.to(0, scattered(in, gather.getPositions(), in.type().dim(gather.getDim())));
}
static void topKRule(RuleInput &in) {
  auto top = cast<TopKOp>(in.op);
  in.to(0, scattered(in, top.getPositions(), in.type().dim(top.getFrom())));
}
static void scatterAddRule(RuleInput &in) {
  auto scatter = cast<ScatterAddOp>(in.op);
  in.fitted(0, in.make<GatherOp>(in.g, scatter.getPositions(), scatter.getInto().getName()));
}

// ---- shape

static void renameRule(RuleInput &in) {
  auto rename = cast<RenameOp>(in.op);
  SmallVector<StringRef> from;
  SmallVector<Attribute> to;
  for (auto [name, dim] : llvm::zip(names(rename.getFrom()), rename.getTo().getAsRange<DimAttr>())) {
    from.push_back(dim.getName());
    to.push_back(in.type().dim(name));
  }
  in.to(0, in.make<RenameOp>(in.g, labelArray(in.b, from), in.b.getArrayAttr(to)));
}
static void splitRule(RuleInput &in) {
  auto split = cast<SplitOp>(in.op);
  SmallVector<StringRef> parts;
  for (DimAttr dim : split.getInto().getAsRange<DimAttr>())
    parts.push_back(dim.getName());
  in.to(0, in.make<MergeOp>(in.g, labelArray(in.b, parts), in.type().dim(split.getDim())));
}
static void mergeRule(RuleInput &in) {
  auto merge = cast<MergeOp>(in.op);
  SmallVector<Attribute> parts;
  for (StringRef name : names(merge.getDims()))
    parts.push_back(in.type().dim(name));
  in.to(0, in.make<SplitOp>(in.g, merge.getInto().getName(), in.b.getArrayAttr(parts)));
}
static void cutRule(RuleInput &in) {
  in.part(in.g, cast<CutOp>(in.op));
}
static void concatRule(RuleInput &in) {
  auto concat = cast<ConcatOp>(in.op);
  Size at(0);
  for (auto [i, name] : llvm::enumerate(names(concat.getParts()))) {
    DimAttr part = in.type(i).dim(name);
    if (in.needs(i)) {
      // First only the operand's own names (it was repeated along the others), so that the part's name is free.
      SmallVector<DimAttr> own(in.type(i).getDims());
      *llvm::find(own, part) = concat.getInto();
      Value g = in.fit(in.g, in.type(i).withDims(own));
      in.to(i, in.make<CutOp>(g, concat.getInto().getName(), at.str(), part));
    }
    at = at + part.getSize();
  }
}
static void unitRule(RuleInput &in) {
  in.to(0, in.make<SqueezeOp>(in.g, cast<UnitOp>(in.op).getInto().getName()));
}
static void squeezeRule(RuleInput &in) {
  in.to(0, in.make<UnitOp>(in.g, in.type().dim(cast<SqueezeOp>(in.op).getDim())));
}
static void expandRule(RuleInput &in) {
  in.fitted(0, in.g);
}
static void permuteRule(RuleInput &in) {
  in.to(0, in.g);
}

const llvm::StringMap<RuleEntry> &quern::passes::gradientRules() {
  static const llvm::StringMap<RuleEntry> table = {
      {"neg", {negRule}},
      {"abs", {absRule}},
      {"exp", {expRule}},
      {"expm1", {expm1Rule}},
      {"log", {logRule}},
      {"log1p", {log1pRule}},
      {"sqrt", {sqrtRule}},
      {"sin", {sinRule}},
      {"cos", {cosRule}},
      {"tanh", {tanhRule}},
      {"sigmoid", {sigmoidRule}},
      {"erf", {erfRule}},
      {"to_real", {toRealRule}},
      {"add", {addRule}},
      {"sub", {subRule}},
      {"mul", {mulRule}},
      {"div", {divRule}},
      {"pow", {powRule}},
      {"max", {maxRule}},
      {"min", {minRule}},
      {"where", {whereRule}},
      {"reduce", {reduceRule}},
      {"contract", {contractRule}},
      {"softmax", {softmaxRule}},
      {"cumsum", {cumsumRule}},
      {"top_k", {topKRule}},
      {"gather", {gatherRule}},
      {"scatter_add", {scatterAddRule}},
      {"rename", {renameRule}},
      {"split", {splitRule}},
      {"merge", {mergeRule}},
      {"cut", {cutRule}},
      {"concat", {concatRule}},
      {"unit", {unitRule}},
      {"squeeze", {squeezeRule}},
      {"expand", {expandRule}},
      {"permute", {permuteRule}},
      {"const", {nullptr, NoRule::Constant}},
      {"values", {nullptr, NoRule::Constant}},
      {"size", {nullptr, NoRule::Constant}},
      {"index", {nullptr, NoRule::Constant}},
      {"param", {nullptr, NoRule::Constant}},
      {"narrow", {nullptr, NoRule::Later}},
      {"widen", {nullptr, NoRule::Later}},
      {"quantize", {nullptr, NoRule::Later}},
      {"dequantize", {nullptr, NoRule::Later}},
      {"rescale", {nullptr, NoRule::Later}},
      {"floor", {nullptr, NoRule::Discrete}},
      {"ceil", {nullptr, NoRule::Discrete}},
      {"round", {nullptr, NoRule::Discrete}},
      {"to_int", {nullptr, NoRule::Discrete}},
      {"not", {nullptr, NoRule::Discrete}},
      {"floordiv", {nullptr, NoRule::Discrete}},
      {"mod", {nullptr, NoRule::Discrete}},
      {"and", {nullptr, NoRule::Discrete}},
      {"or", {nullptr, NoRule::Discrete}},
      {"compare", {nullptr, NoRule::Discrete}},
      {"argmax", {nullptr, NoRule::Discrete}},
      {"repeat", {nullptr, NoRule::Walk}},
      {"scan", {nullptr, NoRule::Walk}},
      {"yield", {nullptr, NoRule::Walk}},
      {"state", {nullptr, NoRule::Later}},
      {"attention", {attentionRule}},
      {"attention_gradient", {nullptr, NoRule::Later}},
      {"remember", {nullptr, NoRule::Later}},
      {"recall", {nullptr, NoRule::Later}},
      {"store", {nullptr, NoRule::Later}},
      {"kernel", {nullptr, NoRule::Later}},
      {"launch", {nullptr, NoRule::Later}},
  };
  return table;
}
