// Takes: e^x over its sum, as papers and old code spell it. Gives: quern.softmax, which the time analysis, the gradient
// and attention's kernel know, and which neither overflows nor divides zero by zero.
//
//   before: %e = exp %x;  %s = reduce sum %e over ["S"];  %w = div %e, %s            : [T, S]
//   after:  %w = softmax %x over ["S"]                       a row of only -inf gives zeros, as softmax does everywhere
//
// Also: e * (1 / s); exp(z - log(sum(exp(z)))); sum(e * v) / s, which divides later; e = where(mask, exp(x), 0), which
// is the exponential of where(mask, x, -inf). A maximum taken from x before is dropped: softmax takes its own. Not
// where the sum has something added (e / (s + 1e-9)): that is another function.
#include "passes/Passes.h"

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <limits>

using namespace mlir;
using namespace quern::ir;

static bool isNumber(Value value, double number) {
  auto constant = value.getDefiningOp<ConstOp>();
  if (!constant)
    return false;
  if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
    return real.getValueAsDouble() == number;
  auto integer = dyn_cast<IntegerAttr>(constant.getValue());
  return integer && !integer.getType().isInteger(1) && integer.getInt() == number;
}

/// x without its maximum taken away, if `x` is written so.
static Value withoutMaximum(Value x, ArrayAttr dims) {
  auto difference = x.getDefiningOp<SubOp>();
  auto maximum = difference ? difference.getB().getDefiningOp<ReduceOp>() : ReduceOp();
  bool own = maximum && maximum.getReduction() == Reduction::max && maximum.getDims() == dims &&
             maximum.getX() == difference.getA() && difference.getA().getType() == x.getType();
  return own ? difference.getA() : x;
}

/// The x of which `e` is the exponential, made before `place`; nothing if it is none.
static Value exponentOf(Value e, ArrayAttr dims, OpBuilder &builder, Location loc) {
  if (auto exponential = e.getDefiningOp<ExpOp>())
    return withoutMaximum(exponential->getOperand(0), dims);
  auto choice = e.getDefiningOp<WhereOp>();
  if (!choice || !isNumber(choice->getOperand(2), 0))
    return {};
  Value x = exponentOf(choice->getOperand(1), dims, builder, loc);
  if (!x)
    return {};
  Value nothing = ConstOp::create(builder, loc, -std::numeric_limits<double>::infinity());
  return WhereOp::create(builder, loc, choice->getOperand(0), x, nothing);
}

/// The sum over `e`'s own elements, if `value` is one.
static ReduceOp sumOf(Value value, Value e) {
  auto sum = value.getDefiningOp<ReduceOp>();
  return sum && sum.getReduction() == Reduction::sum && sum.getX() == e ? sum : ReduceOp();
}

/// softmax in place of `op`'s result, which is e over `sum`.
static LogicalResult raise(Operation *op, Value e, ReduceOp sum, PatternRewriter &rewriter) {
  if (e.getType() != op->getResult(0).getType() || !typeOf(e).isReal())
    return failure();
  Value x = exponentOf(e, sum.getDims(), rewriter, op->getLoc());
  if (!x)
    return failure();
  rewriter.replaceOpWithNewOp<SoftmaxOp>(op, x, sum.getDims());
  return success();
}

namespace {

/// e / s, and sum(e * v) / s.
struct Quotient : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter &rewriter) const override {
    if (ReduceOp sum = sumOf(op.getB(), op.getA()))
      return raise(op, op.getA(), sum, rewriter);
    auto weighted = op.getA().getDefiningOp<ContractOp>();
    if (!weighted || weighted.getType() != op.getType())
      return failure();
    for (unsigned side : {0u, 1u}) {
      Value e = weighted->getOperand(side);
      ReduceOp sum = sumOf(op.getB(), e);
      if (!sum || sum.getDims() != weighted.getDims())
        continue;
      Value x = exponentOf(e, sum.getDims(), rewriter, op.getLoc());
      if (!x)
        return failure();
      Value weights = SoftmaxOp::create(rewriter, e.getLoc(), x, sum.getDims());
      Operation *copy = rewriter.clone(*weighted);
      copy->setOperand(side, weights);
      rewriter.replaceOp(op, copy);
      return success();
    }
    return failure();
  }
};

/// e * (1 / s), either way round.
struct Reciprocal : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    for (unsigned side : {0u, 1u}) {
      Value e = op->getOperand(side);
      auto inverse = op->getOperand(1 - side).getDefiningOp<DivOp>();
      if (inverse && isNumber(inverse.getA(), 1))
        if (ReduceOp sum = sumOf(inverse.getB(), e))
          return raise(op, e, sum, rewriter);
    }
    return failure();
  }
};

/// exp(z - log(sum(exp(z)))): the exponential of a log-softmax.
struct Logarithmic : OpRewritePattern<ExpOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ExpOp op, PatternRewriter &rewriter) const override {
    auto difference = op->getOperand(0).getDefiningOp<SubOp>();
    auto logarithm = difference ? difference.getB().getDefiningOp<LogOp>() : LogOp();
    auto sum = logarithm ? logarithm->getOperand(0).getDefiningOp<ReduceOp>() : ReduceOp();
    auto e = sum && sum.getReduction() == Reduction::sum ? sum.getX().getDefiningOp<ExpOp>() : ExpOp();
    if (!e || e->getOperand(0) != difference.getA())
      return failure();
    return raise(op, e.getResult(), sum, rewriter);
  }
};

class RaiseSoftmaxPass : public PassWrapper<RaiseSoftmaxPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RaiseSoftmaxPass)
  StringRef getArgument() const final { return "raise-softmax"; }
  StringRef getDescription() const final { return "Recognise e^x over its sum, however it is spelled"; }
  void runOnOperation() final {
    RewritePatternSet patterns(&getContext());
    patterns.add<Quotient, Reciprocal, Logarithmic>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> quern::passes::createRaiseSoftmaxPass() {
  return std::make_unique<RaiseSoftmaxPass>();
}
