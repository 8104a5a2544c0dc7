// Takes: a `quern.scan`. Gives: whether it is well formed; its form without what nothing uses.
// Why apart: its rules are about a body and three lists of operands, and few rooms include it.
#include "ir/Scan.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace quern::ir;

#define GET_OP_CLASSES
#include "ir/ScanOps.cpp.inc"

NamedTensorType quern::ir::sliceOf(NamedTensorType type, StringRef dim) {
  SmallVector<DimAttr> kept;
  for (DimAttr each : type.getDims())
    if (each.getName() != dim)
      kept.push_back(each);
  return type.withDims(kept);
}

NamedTensorType quern::ir::stackedAlong(NamedTensorType part, DimAttr dim, StringRef batch) {
  SmallVector<DimAttr> dims(part.getDims());
  bool rows = !batch.empty() && !dims.empty() && dims[0].getName() == batch;
  dims.insert(dims.begin() + rows, dim);
  return part.withDims(dims);
}

DimAttr quern::ir::laneOf(ScanOp scan, unsigned carried, DimAttr batch) {
  llvm::StringSet<> touched;
  scan.getBody().walk([&](Operation *op) {
    if (auto timed = dyn_cast<TimeOpInterface>(op))
      for (StringRef name : timed.getTouchedDims())
        touched.insert(name);
  });
  for (DimAttr dim : llvm::reverse(typeOf(scan.getResult(carried)).getDims()))
    if (dim != batch && dim.getStatic() && !touched.contains(dim.getName()))
      return dim;
  return {};
}

// ---- verifier

LogicalResult ScanOp::verify() {
  StringRef name = getDim().getName();
  if (getInits().empty())
    return emitOpError("scan_c1: a scan carries something");
  auto lacks = [&](Type type) { return !cast<NamedTensorType>(type).has(name); };
  if (!llvm::all_of(getInits().getTypes(), lacks) || !llvm::all_of(getInputs().getTypes(), lacks))
    return emitOpError("scan_c2: what has ") << name << " is read by positions: it belongs to the slices";
  for (Value slice : getSlices())
    if (typeOf(slice).dim(name) != getDim())
      return emitOpError("scan_c3: ") << slice.getType() << " has no positions along " << getDim();
  if (getNumResults() < getCarriedCount() ||
      !sameSets(getInits().getTypes(), TypeRange(getResultTypes()).take_front(getCarriedCount())))
    return emitOpError("scan_c4: carried values change their type");
  if (std::optional<ArrayAttr> states = getStates(); states && (states->size() != getCarriedCount() || getReversed()))
    return emitOpError("scan_c5: there is a state for each carried value, and what goes on from one runs forwards");
  return success();
}

LogicalResult ScanOp::verifyRegions() {
  auto yield = dyn_cast<YieldOp>(getBlock().getTerminator());
  if (!yield || yield.getValues().size() != getNumResults())
    return emitOpError("scan_c6: the body ends by yielding a value for each result");
  StringRef name = getDim().getName();
  SmallVector<NamedTensorType> wanted;
  for (Value init : getInits())
    wanted.push_back(typeOf(init));
  for (Value slice : getSlices())
    wanted.push_back(sliceOf(typeOf(slice), name));
  for (Value input : getInputs())
    wanted.push_back(typeOf(input));
  SmallVector<Type> types(wanted.begin(), wanted.end());
  if (!sameSets(types, getBlock().getArgumentTypes()))
    return emitOpError("scan_c7: the body takes the carried values, a position of each slice, then the inputs");
  for (unsigned i = 0; i < getNumResults(); ++i) {
    NamedTensorType own = typeOf(getResult(i)), given = typeOf(yield.getValues()[i]);
    bool stacked = !isCarried(i);
    if (stacked ? own.dim(name) != getDim() || !sliceOf(own, name).sameSet(given) : !own.sameSet(given))
      return emitOpError("scan_c8: the result ") << own << " does not follow from the yielded " << given;
  }
  WalkResult walk = getBody().walk([&](Operation *op) -> WalkResult {
    bool algebra = isa<ScanOp, YieldOp>(op) || (isMemoryEffectFree(op) && !isa<ParamOp, RememberOp, LaunchOp>(op));
    if (!algebra)
      return op->emitOpError("scan_c9: a scan's body computes from its arguments alone"), WalkResult::interrupt();
    for (Value result : op->getResults())
      if (typeOf(result).has(name))
        return op->emitOpError("scan_c10: inside of a scan over ") << name << " nothing has it",
               WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

// ---- what nothing uses

/// Carried values that are needed: used afterwards, or by what is.
static llvm::SmallBitVector neededCarried(ScanOp scan, const llvm::SmallBitVector &given) {
  llvm::SmallBitVector needed = given;
  needed.resize(scan.getCarriedCount());
  Block &block = scan.getBlock();
  auto reached = [&](Value from) { // block arguments that it is computed from
    llvm::DenseSet<Value> seen;
    SmallVector<Value> work = {from};
    while (!work.empty()) {
      Value value = work.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      Operation *op = value.getDefiningOp();
      if (!op)
        continue;
      op->walk([&](Operation *inner) { work.append(inner->operand_begin(), inner->operand_end()); });
    }
    return seen;
  };
  for (bool again = true; again;) {
    again = false;
    for (unsigned i = 0; i < scan.getNumResults(); ++i) {
      bool alive = scan.isCarried(i) ? needed.test(i) : given.test(i);
      if (!alive)
        continue;
      llvm::DenseSet<Value> from = reached(scan.getYielded()[i]);
      for (unsigned c = 0; c < scan.getCarriedCount(); ++c)
        if (!needed.test(c) && from.contains(block.getArgument(c)))
          needed.set(c), again = true;
    }
  }
  return needed;
}

ScanOp quern::ir::prune(ScanOp scan, RewriterBase &rewriter) {
  llvm::SmallBitVector given(scan.getNumResults());
  for (unsigned i = 0; i < scan.getNumResults(); ++i)
    given[i] = !scan.getResult(i).use_empty() || (scan.isCarried(i) && scan.getStates());
  llvm::SmallBitVector carried = neededCarried(scan, given);
  if (carried.none() && given.none())
    return scan; // the scan itself is of no use
  if (carried.none())
    carried.set(0); // nothing hangs on a state any more; a scan carries something all the same
  llvm::SmallBitVector results = given;
  for (unsigned i = 0; i < scan.getCarriedCount(); ++i)
    results[i] = carried.test(i);
  Block &block = scan.getBlock();
  unsigned count = block.getNumArguments(), first = scan.getCarriedCount();
  // What is yielded for nothing is no use of an argument.
  auto used = [&](Value argument) {
    return llvm::any_of(argument.getUses(), [&](OpOperand &use) {
      return use.getOwner() != block.getTerminator() || results.test(use.getOperandNumber());
    });
  };
  llvm::SmallBitVector arguments(count);
  for (unsigned i = 0; i < count; ++i)
    arguments[i] = i < first ? carried.test(i) : used(block.getArgument(i));
  if (results.all() && arguments.all())
    return scan;

  SmallVector<Value> operands[3];
  SmallVector<Type> types;
  SmallVector<Attribute> states;
  for (unsigned i = 0; i < count; ++i)
    if (arguments.test(i)) {
      unsigned list = i < first ? 0 : i < first + scan.getSlices().size() ? 1 : 2;
      operands[list].push_back(scan->getOperand(i));
      if (list == 0 && scan.getStates())
        states.push_back((*scan.getStates())[i]);
    }
  for (unsigned i = 0; i < scan.getNumResults(); ++i)
    if (results.test(i))
      types.push_back(scan.getResult(i).getType());
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(scan);
  auto next = ScanOp::create(rewriter, scan.getLoc(), types, operands[0], operands[1], operands[2], scan.getDim(),
                             scan.getReversed(), scan.getStates() ? rewriter.getArrayAttr(states) : ArrayAttr());
  next->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  Block *body = rewriter.createBlock(&next.getBody());
  IRMapping mapping;
  for (unsigned i = 0; i < count; ++i)
    if (arguments.test(i))
      mapping.map(block.getArgument(i),
                  body->addArgument(block.getArgument(i).getType(), block.getArgument(i).getLoc()));
  // Only what leads to a result is taken along: the rest may read arguments that are gone.
  llvm::DenseSet<Operation *> wanted;
  SmallVector<Value> work, yields;
  for (unsigned i = 0; i < scan.getNumResults(); ++i)
    if (results.test(i))
      work.push_back(scan.getYielded()[i]);
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || !wanted.insert(op).second)
      continue;
    op->walk([&](Operation *inner) { work.append(inner->operand_begin(), inner->operand_end()); });
  }
  rewriter.setInsertionPointToEnd(body);
  for (Operation &op : block.without_terminator())
    if (wanted.contains(&op))
      rewriter.clone(op, mapping);
  for (unsigned i = 0; i < scan.getNumResults(); ++i)
    if (results.test(i))
      yields.push_back(mapping.lookup(scan.getYielded()[i]));
  YieldOp::create(rewriter, scan.getLoc(), yields);
  for (unsigned i = 0, n = 0; i < scan.getNumResults(); ++i)
    if (results.test(i))
      rewriter.replaceAllUsesWith(scan.getResult(i), next.getResult(n++));
  rewriter.eraseOp(scan);
  return next;
}

namespace {
struct PruneScan : OpRewritePattern<ScanOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScanOp scan, PatternRewriter &rewriter) const override {
    return success(prune(scan, rewriter) != scan);
  }
};
} // namespace

void ScanOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<PruneScan>(context);
}
