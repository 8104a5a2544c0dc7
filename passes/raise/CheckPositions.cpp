// Takes: the step form. Gives: the same, where every gather at positions that come from data also reports whether one
// of them is outside. Why: kernels clamp positions, so that a wrong one can never read foreign memory; but a wrong
// position is an error (docs/language.md, section 5), and must not pass in silence.
//
//   before: %y = quern.gather %x["V" = %p]
//   after:  the same, and  %bad = any(p < 0 or p >= V);  quern.store %bad in @check0
//
// A check is a state of the kind bool with `check`, its message: the host program reads it as soon as it is
// stored. Not checked: positions that are proven inside, inputs as they are (the runtime looks at those), and what
// depends on lengths alone (quern.limits).
#include "ir/analysis/Views.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

namespace {

/// Bounds of an integer value; nothing where none is known.
struct Range {
  std::optional<int64_t> low, high;
};

Range operator|(const Range &a, const Range &b) {
  Range both;
  if (a.low && b.low)
    both.low = std::min(*a.low, *b.low);
  if (a.high && b.high)
    both.high = std::max(*a.high, *b.high);
  return both;
}

constexpr int64_t far = int64_t(1) << 40; // beyond this a bound is not worth keeping

std::optional<int64_t> plus(std::optional<int64_t> a, std::optional<int64_t> b, int64_t sign = 1) {
  if (!a || !b || std::abs(*a) > far || std::abs(*b) > far)
    return std::nullopt;
  return *a + sign * *b;
}

Range rangeOf(Value value, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 64)
    return {};
  auto operand = [&](unsigned i) { return rangeOf(op->getOperand(i), depth + 1); };
  auto size = [](DimAttr dim) -> std::optional<int64_t> {
    std::optional<int64_t> fixed = dim.getStatic();
    return fixed ? std::optional<int64_t>(*fixed - 1) : std::nullopt;
  };
  if (auto constant = dyn_cast<ConstOp>(op)) {
    auto number = dyn_cast<IntegerAttr>(constant.getValue());
    return number && !isa<BoolAttr>(constant.getValue()) ? Range{number.getInt(), number.getInt()} : Range{};
  }
  if (auto index = dyn_cast<IndexOp>(op))
    return {0, size(index.getDim())};
  if (auto argmax = dyn_cast<ArgmaxOp>(op))
    return {0, size(typeOf(argmax.getX()).dim(argmax.getDim()))};
  if (auto top = dyn_cast<TopKOp>(op); top && value == top.getPositions())
    return {0, size(typeOf(top.getX()).dim(top.getFrom()))};
  if (isa<ToIntOp>(op) && typeOf(op->getOperand(0)).isBool())
    return {0, 1};
  if (isa<AddOp>(op))
    return {plus(operand(0).low, operand(1).low), plus(operand(0).high, operand(1).high)};
  if (isa<SubOp>(op))
    return {plus(operand(0).low, operand(1).high, -1), plus(operand(0).high, operand(1).low, -1)};
  if (isa<MaxOp, MinOp>(op)) {
    Range a = operand(0), b = operand(1);
    auto either = [](auto x, auto y, auto pick) { return x && y ? std::optional<int64_t>(pick(*x, *y)) : x ? x : y; };
    auto both = [](auto x, auto y, auto pick) { return x && y ? std::optional<int64_t>(pick(*x, *y)) : std::nullopt; };
    auto larger = [](int64_t x, int64_t y) { return std::max(x, y); };
    auto smaller = [](int64_t x, int64_t y) { return std::min(x, y); };
    return isa<MaxOp>(op) ? Range{either(a.low, b.low, larger), both(a.high, b.high, larger)}
                          : Range{both(a.low, b.low, smaller), either(a.high, b.high, smaller)};
  }
  if (isa<ModOp>(op))
    if (Range b = operand(1); b.low && b.low == b.high && *b.low > 0)
      return {0, *b.low - 1};
  if (isa<WhereOp>(op))
    return operand(1) | operand(2);
  if (isViewLike(op) || isa<ExpandOp>(op))
    return operand(0);
  if (isa<ConcatOp>(op)) {
    Range all = operand(0);
    for (unsigned i = 1; i < op->getNumOperands(); ++i)
      all = all | operand(i);
    return all;
  }
  if (isa<GatherOp>(op))
    return operand(0);
  return {};
}

/// An input as it is, perhaps in other dimensions: the runtime compares its values with the table's length itself.
bool isInput(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<RenameOp, PermuteOp, UnitOp, SqueezeOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return isa<func::FuncOp>(cast<BlockArgument>(value).getOwner()->getParentOp());
}

/// True if anything but positions, lengths and constants is in it.
bool dependsOnData(Value value, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return false;
  Operation *op = value.getDefiningOp();
  if (!op || isa<ParamOp, RememberOp, RecallOp, RepeatOp>(op))
    return true;
  return llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOnData(operand, seen); });
}

class CheckPositionsPass : public PassWrapper<CheckPositionsPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckPositionsPass)
  StringRef getArgument() const final { return "check-positions"; }
  StringRef getDescription() const final { return "Report positions outside of what is gathered from"; }

  void runOnOperation() final {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<GatherOp> gathers;
      function.walk([&](GatherOp gather) { gathers.push_back(gather); });
      for (GatherOp gather : gathers)
        check(function, gather);
    }
  }

private:
  void check(func::FuncOp function, GatherOp gather) {
    DimAttr dim = typeOf(gather.getX()).dim(gather.getDim());
    Value positions = gather.getPositions();
    Range range = rangeOf(positions);
    bool low = range.low && *range.low >= 0;
    bool high = range.high && dim.getStatic() && *range.high < *dim.getStatic();
    llvm::DenseSet<Value> seen;
    if ((low && high) || isInput(positions) || !dependsOnData(positions, seen))
      return;
    OpBuilder b(gather);
    Location loc = gather.getLoc();
    Value zero = ConstOp::create(b, loc, int64_t(0)), size = SizeOp::create(b, loc, dim.getSize());
    Value before = CompareOp::create(b, loc, Predicate::lt, positions, zero);
    Value after = CompareOp::create(b, loc, Predicate::ge, positions, size);
    Value bad = OrOp::create(b, loc, before, after);
    SmallVector<StringRef> names;
    for (DimAttr other : typeOf(bad).getDims())
      names.push_back(other.getName());
    if (!names.empty())
      bad = ReduceOp::create(b, loc, Reduction::any, bad, labelArray(b, names));
    OpBuilder top(function);
    std::string message = ("a position along " + dim.getName().split('.').first + " is outside of its size").str();
    auto state = StateOp::create(top, loc, b.getStringAttr("check" + std::to_string(count++)),
                                 TypeAttr::get(bad.getType()), function.getSymNameAttr(), b.getStringAttr(message));
    StoreOp::create(b, loc, bad, FlatSymbolRefAttr::get(state.getSymNameAttr()));
  }

  unsigned count = 0;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createCheckPositionsPass() {
  return std::make_unique<CheckPositionsPass>();
}
