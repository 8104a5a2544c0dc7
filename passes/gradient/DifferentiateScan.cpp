// Takes: a scan whose results' gradients are known. Gives: the scan of its gradient, over the positions in the reverse
// order: it carries the gradients of the states. The forward scan also gives the states before each position; the rest
// of a position is computed again from them.
//
//   %h, %y = scan T carry %h0 over %x reading %w { body }
//   =>  %h, %y, %before = scan T carry %h0 over %x reading %w { body; yield h', y, h }
//       %dh0, %dw, %dx = scan T reversed carry %dh, 0 over %dy, %before, %x reading %w { body; its rules; yield dh, dw + ..., dx }
#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "passes/gradient/Differentiate.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

void Differentiator::findActiveIn(Operation *op) {
  auto scan = cast<ScanOp>(op);
  Block &body = scan.getBlock();
  for (auto [argument, operand] : llvm::zip(body.getArguments(), scan->getOperands()))
    if (active.contains(operand))
      active.insert(argument);
  for (bool changed = true; changed;) {
    changed = false;
    findActive(body);
    for (unsigned i = 0; i < scan.getCarriedCount(); ++i)
      if (active.contains(scan.getYielded()[i]) && typeOf(scan.getCarried(i)).isReal() &&
          active.insert(scan.getCarried(i)).second)
        changed = true;
  }
  for (auto [value, result] : llvm::zip(scan.getYielded(), scan.getResults()))
    if (active.contains(value) ||
        (scan.isCarried(result.getResultNumber()) && active.contains(scan.getCarried(result.getResultNumber()))))
      active.insert(result);
}

/// The same scan that also gives the states before each position.
static ScanOp withStatesBefore(ScanOp scan, StringRef batch) {
  SmallVector<Type> types(scan.getResultTypes());
  SmallVector<Value> yielded(scan.getYielded());
  for (unsigned i = 0; i < scan.getCarriedCount(); ++i) {
    types.push_back(stackedAlong(typeOf(scan.getCarried(i)), scan.getDim(), batch));
    yielded.push_back(scan.getCarried(i));
  }
  OpBuilder builder(scan);
  auto more = ScanOp::create(builder, scan.getLoc(), types, scan.getInits(), scan.getSlices(), scan.getInputs(),
                             scan.getDim(), scan.getReversed(), ArrayAttr());
  more.getBody().takeBody(scan.getBody());
  more->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  more.getBlock().getTerminator()->setOperands(yielded);
  scan.replaceAllUsesWith(more.getResults().take_front(scan.getNumResults()));
  scan.erase();
  return more;
}

/// Inputs that learn, repeated for each row: their gradients then add up row by row, and rows stay apart within the loop.
static void spreadOverRows(ScanOp scan, StringRef batch, const llvm::DenseSet<Value> &active) {
  DimAttr rows = typeOf(scan.getInits()[0]).dim(batch);
  for (Value init : scan.getInits())
    if (!typeOf(init).has(batch))
      return;
  OpBuilder builder(scan);
  auto withRows = [&](NamedTensorType type) {
    SmallVector<DimAttr> dims = {rows};
    llvm::append_range(dims, type.getDims());
    return type.withDims(dims);
  };
  llvm::DenseSet<Value> changed;
  for (unsigned k = 0; k < scan.getInputs().size(); ++k) {
    BlockArgument argument = scan.getInput(k);
    if (!active.contains(argument) || typeOf(argument).has(batch))
      continue;
    auto wide = ExpandOp::create(builder, scan.getLoc(), withRows(typeOf(scan.getInputs()[k])), scan.getInputs()[k]);
    scan.getInputsMutable()[k].set(wide);
    argument.setType(withRows(typeOf(argument)));
    changed.insert(argument);
  }
  for (Operation &op : scan.getBlock().without_terminator()) {
    if (llvm::none_of(op.getOperands(), [&](Value operand) { return changed.contains(operand); }))
      continue;
    for (Value result : op.getResults())
      if (!typeOf(result).has(batch)) {
        result.setType(withRows(typeOf(result)));
        changed.insert(result);
      }
  }
}

LogicalResult Differentiator::reverseScan(Operation *op, OpBuilder &builder) {
  auto scan = cast<ScanOp>(op);
  if (llvm::none_of(scan.getResults(), [&](Value result) { return pending.count(result); }))
    return success();
  Location loc = scan.getLoc();
  StringRef along = scan.getDim().getName();
  auto batchLabel = function->getAttrOfType<LabelAttr>(batchAttr);
  StringRef batch = batchLabel ? batchLabel.getName() : StringRef();
  SmallVector<Value> inputs(scan.getInputs());
  spreadOverRows(scan, batch, active);
  Block &body = scan.getBlock();
  auto gradient = std::make_unique<Block>();
  OpBuilder inside(function.getContext());
  inside.setInsertionPointToEnd(gradient.get());

  SmallVector<unsigned> carried;
  SmallVector<Value> enter, next, slices, parts;
  for (unsigned i = 0; i < scan.getCarriedCount(); ++i)
    if (active.contains(scan.getCarried(i))) {
      carried.push_back(i);
      enter.push_back(gradientOrZeros(scan.getResult(i), builder));
    }
  SmallVector<std::pair<unsigned, Value>> outputs;
  for (unsigned j = scan.getCarriedCount(); j < scan.getNumResults(); ++j)
    if (Value given = gradientOf(scan.getResult(j), builder))
      outputs.emplace_back(j, given);
  llvm::MapVector<Value, SmallVector<GradientPart>> outer;
  std::swap(outer, pending);
  for (unsigned i : carried)
    give(scan.getYielded()[i], gradient->addArgument(typeOf(scan.getResult(i)), loc), CutOp());
  for (auto [j, given] : outputs) {
    slices.push_back(given);
    give(scan.getYielded()[j], gradient->addArgument(sliceOf(typeOf(given), along), loc), CutOp());
  }
  std::vector<ParameterGradient> none; // parameters stand outside
  if (failed(reverseBlock(body, inside, none)))
    return failure();
  for (unsigned i : carried)
    next.push_back(gradientOrZeros(scan.getCarried(i), inside));
  SmallVector<unsigned> ofSlices, ofInputs;
  for (unsigned k = 0; k < scan.getSlices().size(); ++k)
    if (Value given = gradientOf(scan.getSlice(k), inside)) {
      ofSlices.push_back(k);
      parts.push_back(given);
    }
  // What all positions read: their gradients add up.
  for (unsigned k = 0; k < scan.getInputs().size(); ++k)
    if (Value given = gradientOf(scan.getInput(k), inside)) {
      ofInputs.push_back(k);
      Value before = gradient->insertArgument(static_cast<unsigned>(enter.size()), typeOf(scan.getInput(k)), loc);
      enter.push_back(GradientBuilder(builder, loc).zeros(typeOf(scan.getInput(k))));
      next.push_back(GradientBuilder(inside, loc).add(before, given));
    }
  std::swap(outer, pending);

  // The position once more, from the states before it.
  unsigned results = scan.getNumResults();
  scan = withStatesBefore(scan, batch);
  Block &forward = scan.getBlock();
  IRMapping again;
  for (unsigned i = 0; i < scan.getCarriedCount(); ++i) {
    slices.push_back(scan.getResult(results + i));
    again.map(scan.getCarried(i), gradient->addArgument(typeOf(scan.getCarried(i)), loc));
  }
  for (unsigned k = 0; k < scan.getSlices().size(); ++k) {
    slices.push_back(scan.getSlices()[k]);
    again.map(scan.getSlice(k), gradient->addArgument(typeOf(scan.getSlice(k)), loc));
  }
  for (unsigned k = 0; k < scan.getInputs().size(); ++k)
    again.map(scan.getInput(k), gradient->addArgument(typeOf(scan.getInput(k)), loc));
  SmallVector<Operation *> rules;
  for (Operation &each : *gradient)
    rules.push_back(&each);
  OpBuilder start(function.getContext()); // the block has no parent to ask yet
  start.setInsertionPointToStart(gradient.get());
  for (Operation &each : forward.without_terminator())
    start.clone(each, again);
  for (Operation *rule : rules)
    for (OpOperand &operand : rule->getOpOperands())
      operand.set(again.lookupOrDefault(operand.get()));
  for (SmallVector<Value> *values : {&next, &parts})
    for (Value &value : *values)
      value = again.lookupOrDefault(value);

  SmallVector<Type> types = llvm::map_to_vector(enter, [](Value value) -> Type { return value.getType(); });
  SmallVector<Value> yielded = next;
  for (auto [k, part] : llvm::zip(ofSlices, parts)) {
    types.push_back(scan.getSlices()[k].getType());
    yielded.push_back(part);
  }
  YieldOp::create(inside, loc, yielded);
  auto reverse = ScanOp::create(builder, loc, types, enter, slices, scan.getInputs(), scan.getDim(),
                                !scan.getReversed(), ArrayAttr());
  reverse.getBody().push_back(gradient.release());
  for (auto [place, i] : llvm::enumerate(carried))
    give(scan.getInits()[i], reverse.getResult(place), CutOp());
  for (auto [place, k] : llvm::enumerate(ofInputs))
    give(inputs[k], GradientBuilder(builder, loc).fit(reverse.getResult(carried.size() + place), typeOf(inputs[k])),
         CutOp());
  for (auto [place, k] : llvm::enumerate(ofSlices))
    give(scan.getSlices()[k], reverse.getResult(enter.size() + place), CutOp());
  return success();
}
