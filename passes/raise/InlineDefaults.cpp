// Takes: a function whose last arguments may be left out, with `quern.default` on each of these.
// Gives: the function without them, the defaults' bodies in their place, and choices by a constant decided. Why: a
// program that generates text never gets masks or sentence numbers, and `mask = true` should cost nothing.
//
//   func @forward.last(%tokens, %mask {quern.name = "mask"}) { %y = where %mask, %a, %b ... }
//   =>  func @forward.last(%tokens) { %y = %a ... }
#include "passes/raise/InlineDefaults.h"

#include "ir/analysis/Functions.h"
#include "passes/Rewriting.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// Booleans that are the same everywhere, and what follows from them.
class UniformFolder {
public:
  void run(func::FuncOp function) {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op->getNumResults() == 1 && op->getNumRegions() == 0)
        visit(op, op->getResult(0));
    });
    eraseDead(function);
  }

private:
  llvm::DenseMap<Value, bool> uniform;

  std::optional<bool> get(Value value) {
    auto at = uniform.find(value);
    return at == uniform.end() ? std::nullopt : std::optional(at->second);
  }

  /// An elementwise user whose result has all its dimensions from its other operands and `type`.
  static bool isSpreadBy(OpOperand &use, NamedTensorType type) {
    Operation *user = use.getOwner();
    auto timed = dyn_cast<TimeOpInterface>(user);
    if (!timed || timed.getTimeBehavior() != TimeBehavior::Pointwise || isa<ExpandOp, PermuteOp>(user))
      return false;
    return llvm::all_of(typeOf(user->getResult(0)).getDims(), [&](DimAttr dim) {
      return type.has(dim.getName()) || llvm::any_of(user->getOpOperands(), [&](OpOperand &other) {
               return &other != &use && other.get() != use.get() && typeOf(other.get()).has(dim.getName());
             });
    });
  }

  void replace(Value value, Value by) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    if (typeOf(by).isInt() && typeOf(value).isReal())
      by = ToRealOp::create(builder, value.getLoc(), typeOf(by).withKind(Kind::Real), by);
    // Where a user's other operands have the lacking dimensions anyway, nothing needs to be repeated along them.
    value.replaceUsesWithIf(by, [&](OpOperand &use) { return isSpreadBy(use, typeOf(by)); });
    if (value.use_empty())
      return;
    if (!typeOf(by).sameSet(typeOf(value)))
      by = ExpandOp::create(builder, value.getLoc(), value.getType(), by);
    value.replaceAllUsesWith(by);
    if (auto flag = get(by))
      uniform[value] = *flag;
  }

  void visit(Operation *op, Value result) {
    if (auto constant = dyn_cast<ConstOp>(op)) {
      if (auto flag = dyn_cast<BoolAttr>(constant.getValue()))
        uniform[result] = flag.getValue();
    } else if (isa<ExpandOp, RenameOp, PermuteOp, SplitOp, MergeOp, CutOp, UnitOp, SqueezeOp, GatherOp>(op)) {
      if (auto flag = get(op->getOperand(0)))
        uniform[result] = *flag;
    } else if (isa<NotOp>(op)) {
      if (auto flag = get(op->getOperand(0)))
        uniform[result] = !*flag;
    } else if (isa<AndOp, OrOp>(op)) {
      bool neutral = isa<AndOp>(op);
      for (auto [x, other] :
           {std::pair(op->getOperand(0), op->getOperand(1)), std::pair(op->getOperand(1), op->getOperand(0))})
        if (auto flag = get(x))
          return replace(result, *flag == neutral ? other : x);
    } else if (auto where = dyn_cast<WhereOp>(op)) {
      if (auto flag = get(where.getCondition()))
        replace(result, *flag ? where.getA() : where.getB());
    }
  }
};

} // namespace

void quern::passes::inlineDefaults(func::FuncOp function) {
  llvm::BitVector gone(function.getNumArguments());
  OpBuilder builder = OpBuilder::atBlockBegin(&function.front());
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    func::FuncOp body = defaultOf(function, i);
    if (!body)
      continue;
    IRMapping mapping;
    for (Operation &op : body.front().without_terminator())
      builder.clone(op, mapping);
    Value value = mapping.lookupOrDefault(body.front().getTerminator()->getOperand(0));
    if (!typeOf(value).sameSet(typeOf(function.getArgument(i))))
      value = ExpandOp::create(builder, value.getLoc(), function.getArgument(i).getType(), value);
    function.getArgument(i).replaceAllUsesWith(value);
    gone.set(i);
  }
  if (gone.none())
    return;
  (void)function.eraseArguments(gone);
  UniformFolder().run(function);
}
