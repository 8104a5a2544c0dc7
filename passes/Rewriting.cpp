// Takes: operations and a table of dimensions. Gives: the same under other labels, on other operands, or erased.
// Why apart: the incremental lowering, gradients and the passes on weights all rename and clone by labels.
#include "passes/Rewriting.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

NamedTensorType quern::passes::relabelled(NamedTensorType type, const Relabelling &table) {
  SmallVector<DimAttr> dims(type.getDims());
  for (DimAttr &dim : dims)
    if (auto at = table.find(dim.getName().str()); at != table.end())
      dim = at->second;
  return type.withDims(dims);
}

static Attribute relabelledAttribute(Attribute attr, const Relabelling &table) {
  if (auto dim = dyn_cast<DimAttr>(attr)) {
    auto at = table.find(dim.getName().str());
    return at == table.end() ? dim : at->second;
  }
  if (auto list = dyn_cast<ArrayAttr>(attr))
    return ArrayAttr::get(attr.getContext(), llvm::map_to_vector(list, [&](Attribute element) {
                            return relabelledAttribute(element, table);
                          }));
  if (auto name = dyn_cast<LabelAttr>(attr))
    if (auto at = table.find(name.getName().str()); at != table.end())
      return LabelAttr::get(attr.getContext(), at->second.getName());
  return attr;
}

void quern::passes::relabel(Operation *op, const Relabelling &table) {
  for (NamedAttribute attr : op->getAttrDictionary())
    op->setAttr(attr.getName(), relabelledAttribute(attr.getValue(), table));
  for (OpResult result : op->getResults())
    result.setType(relabelled(typeOf(result), table));
}

Value quern::passes::renamed(OpBuilder &builder, Location loc, Value value, const Relabelling &table) {
  SmallVector<StringRef> from;
  SmallVector<Attribute> to;
  for (auto &[name, dim] : table)
    if (typeOf(value).has(name)) {
      from.push_back(name);
      to.push_back(dim);
    }
  if (from.empty())
    return value;
  return RenameOp::create(builder, loc, relabelled(typeOf(value), table), value, labelArray(builder, from),
                          builder.getArrayAttr(to));
}

Operation *quern::passes::cloneOn(OpBuilder &builder, Operation *op, ValueRange operands) {
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  SmallVector<Type> types;
  LogicalResult inferred = cast<InferTypeOpInterface>(copy).inferReturnTypes(
      op->getContext(), op->getLoc(), operands, copy->getDiscardableAttrDictionary(), copy->getPropertiesStorage(),
      copy->getRegions(), types);
  assert(succeeded(inferred) && "operands that gain dimensions still fit");
  (void)inferred;
  for (auto [result, type] : llvm::zip(copy->getResults(), types))
    result.setType(type);
  return copy;
}

bool quern::passes::touches(Operation *op, StringRef label) {
  auto timed = dyn_cast<TimeOpInterface>(op);
  if (!timed || llvm::is_contained(timed.getTouchedDims(), label))
    return true;
  auto has = [&](Value value) { return typeOf(value).has(label); };
  // A dimension that the operation makes, and does not just repeat along.
  return !isa<ExpandOp>(op) && llvm::any_of(op->getResults(), has) && llvm::none_of(op->getOperands(), has);
}

bool quern::passes::isPointwise(Operation *op) {
  return op->getDialect() && op->getDialect()->getNamespace() == "quern" && op->getNumRegions() == 0 &&
         op->getNumResults() > 0 && op->getNumOperands() > 0 && !isa<RememberOp, RecallOp, LaunchOp>(op);
}

void quern::passes::moveBefore(Value value, Operation *place) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != place->getBlock() || op->isBeforeInBlock(place))
    return;
  for (Value operand : op->getOperands())
    moveBefore(operand, place);
  op->moveBefore(place);
}

void quern::passes::eraseDead(func::FuncOp function) {
  // Users come after what they use, so one walk backwards finds all but what only a loop's own iterations use.
  SmallVector<Operation *> order;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) { order.push_back(op); });
  for (Operation *op : llvm::reverse(order))
    if (op->use_empty() && op->getNumResults() && (isPure(op) || isa<RepeatOp>(op)))
      op->erase();
}

int64_t quern::passes::iterationsAround(Operation *op) {
  int64_t iterations = 0;
  for (auto loop = op->getParentOfType<RepeatOp>(); loop; loop = loop->getParentOfType<RepeatOp>())
    iterations = std::max<int64_t>(iterations, 1) * loop.getIterations();
  return iterations;
}
