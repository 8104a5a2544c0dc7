// Takes: a loop's body and the body of its gradient, which reads values of the former. Gives: which of them are saved
// by every iteration; the others are recomputed from those. Why a least cut: writing a number and reading it back costs
// as much as some fifty operations, so most of what follows a product element by element is cheaper to recompute, and a
// layer keeps a third.
//
//   gradient reads %a = add %c, %bias   %t = tanh %a   %m = mul %a, %t        (%c = contract %x, %w)
//   before: %a, %t and %m of each iteration are saved
//   after:  %c of each iteration is saved; add, tanh and mul are recomputed
//
// With bf16 in memory (`quern.precision`) what is kept moves half as many bytes, and is rounded and widened for that.
//
#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "ir/analysis/AssumedLengths.h"
#include "ir/analysis/Distances.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Price.h"
#include "ir/analysis/Weights.h"
#include "passes/ValueCut.h"
#include "passes/gradient/Differentiate.h"
#include "passes/weights/NarrowStorage.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

static double assumed(const Size &size) {
  return static_cast<double>(atAssumedLengths(size));
}

static bool movesOnly(Operation *op) {
  return isViewLike(op) || isa<ExpandOp>(op);
}

/// Copies of weights for each row, or of a table for each query and key: looked up wherever they are read.
static bool isLookedUp(Value value) {
  return routedWeight(value) || distanceLookup(value);
}

/// What is kept of a row so that an attention's weights can be recomputed.
static bool isAttentionStatistic(Value value) {
  auto attention = value.getDefiningOp<AttentionOp>();
  return attention && value != attention.getAttended();
}

static bool isSegment(Operation *op) {
  return op && op->hasAttr(segmentAttr);
}

/// `price`: seconds that a byte costs beyond its traffic. `kept`: where, if that may be in bf16.
static double secondsToSave(Value value, const Recomputing &how, double price, std::optional<Kept> kept) {
  if (isLookedUp(value))
    return MinimumCut::unlimited;
  if (isSegment(value.getDefiningOp()))
    return 1e6;
  bool narrow = kept && isKeptNarrow(value, *kept);
  Storage storage = narrow ? Storage::BF16 : typeOf(value).getStorage();
  double each = 2 * secondsToMove(storage, how.machine) + price * static_cast<double>(quern::support::bytesOf(storage));
  return assumed(typeOf(value).elements()) * (each + secondsToNarrow(storage, how.machine)); // written and read
}

static double secondsToRepeat(Operation *op, const Recomputing &how) {
  if (isa<GatherOp>(op) && routedWeight(op->getResult(0)))
    return 0;
  if (isa<RepeatOp>(op)) // iterations of a segment are run again whatever they cost: that is what segments are for
    return 0;
  double seconds = movesOnly(op) ? 0 : secondsToCompute(op, how.machine, assumed);
  // The more rows a table has, the less of it is in a cache when it is read from all over again.
  if (auto gather = dyn_cast<GatherOp>(op); gather && !typeOf(gather.getPositions()).has(gather.getDim()))
    seconds *= assumed(typeOf(gather.getX()).dim(gather.getDim()).getSize());
  return seconds;
}

/// Which values are saved, so that all of `wanted` can be had. `given`: at hand in any case; `must`: cannot be made
/// again.
static llvm::DenseSet<Value> chooseSaved(ArrayRef<Value> wanted, function_ref<bool(Value)> given,
                                         function_ref<bool(Value)> must, function_ref<double(Value)> secondsToSave,
                                         const Recomputing &how) {
  llvm::SetVector<Value> region;
  for (Value value : wanted)
    if (!given(value))
      region.insert(value);
  size_t needed = region.size();
  for (size_t i = 0; i < region.size(); ++i)
    if (!must(region[i]))
      for (Value operand : region[i].getDefiningOp()->getOperands())
        if (!given(operand))
          region.insert(operand);
  auto save = [&](Value value) { return 1e9 * secondsToSave(value) + 0.001; }; // nanoseconds
  auto repeat = [&](Value value) {
    return must(value) ? MinimumCut::unlimited : 1e9 * secondsToRepeat(value.getDefiningOp(), how) + 0.001;
  };
  llvm::DenseSet<Value> saved;
  for (auto [value, had] : llvm::zip(region, leastCut(region.getArrayRef(), needed, save, repeat)))
    if (had == Had::Kept)
      saved.insert(value);
  return saved;
}

/// Only the iterations that the gradient runs again save anything.
static void dropStacks(RepeatOp repeat) {
  unsigned carried = repeat.getCarriedCount();
  OpBuilder builder(repeat);
  auto less = RepeatOp::create(builder, repeat.getLoc(), TypeRange(repeat.getResultTypes()).take_front(carried),
                               repeat.getInits(), repeat.getStacks(), repeat.getIterations(), repeat.getReversed(),
                               repeat.getRowsAttr());
  less.getBody().takeBody(repeat.getBody());
  less.getYield()->setOperands(SmallVector<Value>(less.getYield().getValues().take_front(carried)));
  for (unsigned i = 0; i < carried; ++i)
    repeat.getResult(i).replaceAllUsesWith(less.getResult(i));
  repeat.erase();
}

namespace {
class Saving {
public:
  Saving(Block &body, Block &gradient, const Recomputing &how) : body(body), gradient(gradient), how(how) {}

  SmallVector<Value> run() {
    SmallVector<OpOperand *> uses;
    llvm::SetVector<Value> wanted;
    gradient.walk([&](Operation *op) {
      for (OpOperand &use : op->getOpOperands())
        if (use.get().getParentBlock() == &body) {
          uses.push_back(&use);
          wanted.insert(use.get());
        }
    });
    chosen = chooseSaved(
        wanted.getArrayRef(), [&](Value value) { return isFree(value); },
        [&](Value value) {
          return mustBeSaved(value) || isAttentionStatistic(value) ||
                 (!how.allowed && !movesOnly(value.getDefiningOp()) && !isLookedUp(value) &&
                  !isSegment(value.getDefiningOp()));
        },
        [&](Value value) {
          return secondsToSave(value, how, how.price, how.narrow ? std::optional(Kept::OnStack) : std::nullopt);
        },
        how);
    for (Value value : wanted)
      require(value);
    IRMapping mapping;
    for (Value value : saved)
      mapping.map(value, gradient.addArgument(value.getType(), value.getLoc()));
    OpBuilder builder(gradient.front().getContext()); // the block has no parent to ask yet
    builder.setInsertionPointToStart(&gradient);
    for (Operation &op : body) {
      if (!again.contains(&op))
        continue;
      SmallVector<Value> before =
          llvm::map_to_vector(op.getResults(), [&](Value x) { return mapping.lookupOrNull(x); });
      Operation *copy = builder.clone(op, mapping);
      if (auto attention = dyn_cast<AttentionOp>(copy)) // the two numbers of each row are saved
        mapping.map(op.getResult(0), setStatistics(attention, false).getAttended());
      for (auto [result, known] : llvm::zip(op.getResults(), before))
        if (known)
          mapping.map(result, known);
    }
    for (OpOperand *use : uses)
      use->set(mapping.lookup(use->get()));
    for (Operation *op : again)
      if (isSegment(op))
        dropStacks(cast<RepeatOp>(op));
    return {saved.begin(), saved.end()};
  }

private:
  /// Made of parameters and positions alone: never saved.
  bool isFree(Value value) {
    if (value.getParentBlock() != &body)
      return true;
    auto [entry, fresh] = free.try_emplace(value, false);
    if (!fresh)
      return entry->second;
    Operation *op = value.getDefiningOp();
    bool leaf = op && isa<ConstOp, ValuesOp, SizeOp, IndexOp, ParamOp>(op);
    bool simple = op && (isElementwise(op) || movesOnly(op)) &&
                  llvm::all_of(op->getOperands(), [&](Value operand) { return isFree(operand); });
    return free[value] = leaf || simple;
  }
  /// What a loop over layers carries or makes cannot be recomputed; a scan's states can, of one layer at a time.
  static bool mustBeSaved(Value value) {
    Operation *op = value.getDefiningOp();
    return !op || (op->getNumRegions() && !isSegment(op) && !isa<AttentionOp, ScanOp>(op));
  }

  void require(Value value) {
    if (value.getParentBlock() != &body)
      return;
    if (chosen.contains(value)) {
      saved.insert(value);
      return;
    }
    if (again.insert(value.getDefiningOp()).second)
      for (Value operand : value.getDefiningOp()->getOperands())
        require(operand);
  }

  Block &body, &gradient;
  const Recomputing &how;
  llvm::DenseMap<Value, bool> free;
  llvm::DenseSet<Value> chosen;
  llvm::SetVector<Value> saved;
  llvm::DenseSet<Operation *> again;
};
} // namespace

SmallVector<Value> quern::passes::saveForGradient(Block &body, Block &gradient, const Recomputing &how) {
  return Saving(body, gradient, how).run();
}

void quern::passes::repeatForGradient(Operation *firstOfGradient, const Recomputing &how) {
  Block *block = firstOfGradient->getBlock();
  auto isForward = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return op && op->getBlock() == block && op->isBeforeInBlock(firstOfGradient);
  };
  SmallVector<OpOperand *> uses;
  llvm::SetVector<Value> wanted;
  for (Operation *op = firstOfGradient; op; op = op->getNextNode())
    for (OpOperand &use : op->getOpOperands())
      if (isForward(use.get()) && !isa<func::ReturnOp, RepeatOp>(op)) {
        uses.push_back(&use);
        wanted.insert(use.get());
      }
  auto given = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return !isForward(value) || isa<ConstOp, ValuesOp, SizeOp, IndexOp, ParamOp>(op);
  };
  // What combines positions is stored already: it costs no writing.
  auto must = [&](Value value) {
    return !isElementwise(value.getDefiningOp()) && !movesOnly(value.getDefiningOp()) && !isLookedUp(value);
  };
  std::optional<Kept> kept;
  if (how.narrow)
    kept = Kept::InPlace;
  auto save = [&](Value value) { return secondsToSave(value, how, 0, kept) / (must(value) ? 2 : 1); };
  llvm::DenseSet<Value> saved = chooseSaved(wanted.getArrayRef(), given, must, save, how);
  llvm::SetVector<Operation *> again;
  SmallVector<Value> work(wanted.begin(), wanted.end());
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (given(value) || saved.contains(value) || !again.insert(value.getDefiningOp()))
      continue;
    llvm::append_range(work, value.getDefiningOp()->getOperands());
  }
  IRMapping mapping;
  OpBuilder builder(firstOfGradient);
  SmallVector<Operation *> ordered(again.begin(), again.end());
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : ordered)
    builder.clone(*op, mapping)->setAttr(againAttr, builder.getUnitAttr());
  for (OpOperand *use : uses)
    use->set(mapping.lookupOrDefault(use->get()));
}
