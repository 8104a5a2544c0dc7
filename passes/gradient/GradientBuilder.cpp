// Takes: values. Gives: the operations that gradients are made of, by names of dimensions; ranges that say where a
// slope is finite. Why ranges: a strong zero costs a comparison and a choice, and most slopes cannot be infinite.
#include "passes/gradient/Gradients.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

// ---- by names

Value GradientBuilder::zeros(NamedTensorType type) {
  Value zero = number(0.0);
  return type.getRank() ? make<ExpandOp>(type.withKind(Kind::Real), zero) : zero;
}

Value GradientBuilder::sum(Value x, ArrayRef<StringRef> over) {
  return over.empty() ? x : make<ReduceOp>(Reduction::sum, x, labelArray(b, over));
}

static SmallVector<StringRef> namesLacking(NamedTensorType to, ArrayRef<NamedTensorType> types) {
  SmallVector<StringRef> lacking;
  for (NamedTensorType type : types)
    for (DimAttr dim : type.getDims())
      if (!to.has(dim.getName()) && !llvm::is_contained(lacking, dim.getName()))
        lacking.push_back(dim.getName());
  return lacking;
}

Value GradientBuilder::fit(Value g, NamedTensorType to) {
  g = sum(g, namesLacking(to, {typeOf(g)}));
  bool whole = llvm::all_of(to.getDims(), [&](DimAttr dim) { return typeOf(g).has(dim.getName()); });
  return whole ? g : make<ExpandOp>(to.withKind(Kind::Real), g);
}

Value GradientBuilder::productSum(Value g, Value x, NamedTensorType to) {
  SmallVector<StringRef> over = namesLacking(to, {typeOf(g), typeOf(x)});
  auto innermost = [](NamedTensorType type) { return type.getRank() ? type.getDims().back().getName() : StringRef(); };
  // The order of factors is the order of dimensions: what is innermost in `to` had better be so in the product, too.
  if (over.empty() && to.getRank() && typeOf(g).getRank() && innermost(to) == innermost(typeOf(g)) &&
      !typeOf(x).has(innermost(to)) &&
      !llvm::all_of(typeOf(x).getDims(), [&](DimAttr dim) { return typeOf(g).has(dim.getName()); }))
    std::swap(g, x);
  Value product = over.empty() ? mul(g, x) : make<ContractOp>(g, x, labelArray(b, over));
  return fit(product, to);
}

Value GradientBuilder::times(Value g, Value slope, bool tame) {
  Value product = mul(g, slope);
  return tame ? product : choose(compare(Predicate::eq, g, number(0.0)), number(0.0), product);
}

// ---- ranges

static std::optional<double> constantOf(Value value) {
  auto op = value.getDefiningOp<ConstOp>();
  if (!op)
    return std::nullopt;
  if (auto real = dyn_cast<FloatAttr>(op.getValue()))
    return real.getValueAsDouble();
  if (auto integer = dyn_cast<IntegerAttr>(op.getValue()); integer && !isa<BoolAttr>(op.getValue()))
    return static_cast<double>(integer.getInt());
  return std::nullopt;
}

/// Operations whose result has the sign of all of their numbers.
static bool keepsSign(Operation *op) {
  return isa<ExpandOp, RenameOp, SplitOp, MergeOp, CutOp, UnitOp, SqueezeOp, PermuteOp, ToRealOp>(op);
}

bool quern::passes::isPositive(Value value) {
  if (std::optional<double> number = constantOf(value))
    return *number > 0;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<AddOp>(op))
    return (isPositive(op->getOperand(0)) && isNonnegative(op->getOperand(1))) ||
           (isPositive(op->getOperand(1)) && isNonnegative(op->getOperand(0)));
  if (isa<MaxOp>(op))
    return isPositive(op->getOperand(0)) || isPositive(op->getOperand(1));
  if (isa<MulOp, DivOp, MinOp>(op))
    return isPositive(op->getOperand(0)) && isPositive(op->getOperand(1));
  if (isa<SqrtOp>(op) || keepsSign(op))
    return isPositive(op->getOperand(0));
  // A power of a positive number, and a softmax's sum over the largest, are positive too, but may round to 0.
  return false;
}

bool quern::passes::isNonnegative(Value value) {
  if (std::optional<double> number = constantOf(value))
    return *number >= 0;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<ExpOp, SigmoidOp, AbsOp, SoftmaxOp, SqrtOp, SizeOp, IndexOp>(op))
    return true;
  if (isa<MulOp>(op) && op->getOperand(0) == op->getOperand(1))
    return true;
  if (auto pow = dyn_cast<PowOp>(op)) {
    std::optional<double> exponent = constantOf(pow.getB());
    return (exponent && *exponent == 2) || isNonnegative(pow.getA());
  }
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getReduction() != Reduction::any && reduce.getReduction() != Reduction::all &&
           isNonnegative(reduce.getX());
  if (auto contract = dyn_cast<ContractOp>(op))
    return contract.getA() == contract.getB() || (isNonnegative(contract.getA()) && isNonnegative(contract.getB()));
  if (isa<AddOp, MulOp, DivOp, MinOp>(op))
    return isNonnegative(op->getOperand(0)) && isNonnegative(op->getOperand(1));
  if (isa<MaxOp>(op))
    return isNonnegative(op->getOperand(0)) || isNonnegative(op->getOperand(1));
  return keepsSign(op) && isNonnegative(op->getOperand(0));
}

bool quern::passes::isNonpositive(Value value) {
  if (std::optional<double> number = constantOf(value))
    return *number <= 0;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<NegOp>(op))
    return isNonnegative(op->getOperand(0));
  if (isa<MinOp>(op))
    return isNonpositive(op->getOperand(0)) || isNonpositive(op->getOperand(1));
  if (isa<SubOp>(op)) { // x - max(x)
    auto largest = op->getOperand(1).getDefiningOp<ReduceOp>();
    return largest && largest.getReduction() == Reduction::max && largest.getX() == op->getOperand(0);
  }
  return keepsSign(op) && isNonpositive(op->getOperand(0));
}
