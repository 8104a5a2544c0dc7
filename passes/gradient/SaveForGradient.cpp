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
// The graph (gradients.md, section 7): a value is an edge whose capacity is the cost of saving it; from the source
// comes the cost of recomputing it, operands come in unlimited, what the gradient reads goes to the sink.
#include "ir/analysis/Operations.h"
#include "ir/analysis/Weights.h"
#include "passes/MinimumCut.h"
#include "passes/gradient/Differentiate.h"
#include "passes/weights/NarrowStorage.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

// What a core and its memory do in a second. They change what is saved, never a result.
static constexpr double bytesPerSecond = 15e9, productsPerSecond = 300e9, operationsPerSecond = 80e9;
// Operations to round a number to bf16 and to widen it again.
static constexpr double operationsToNarrow = 7;
// What lengths that only a run knows count for.
static constexpr int64_t assumedLength = 512;

static double elements(ArrayRef<DimAttr> dims) {
  double count = 1;
  for (DimAttr dim : dims)
    count *= static_cast<double>(
        dim.getSize().evaluate([](const std::string &symbol) { return symbol == "B" ? 1 : assumedLength; }));
  return count;
}

static bool movesOnly(Operation *op) {
  return isViewLike(op) || isa<ExpandOp>(op);
}

/// What an attention keeps of its rows.
static bool isAttentionStatistic(Value value) {
  return value.getDefiningOp<AttentionOp>() && cast<OpResult>(value).getResultNumber() > 0;
}

static bool isSegment(Operation *op) {
  return op && op->hasAttr(segmentAttr);
}

/// `price`: seconds that a byte costs beyond its traffic. `kept`: where, if that may be in bf16.
static double secondsToSave(Value value, double price, std::optional<Kept> kept) {
  if (pickedWeight(value)) // a copy of weights for each row is never made
    return MinimumCut::unlimited;
  if (isSegment(value.getDefiningOp()))
    return 1e6;
  bool narrow = kept && isKeptNarrow(value, *kept);
  double bytes = narrow ? bytesOfKind(Kind::BF16) : bytesOfKind(typeOf(value).getKind());
  double seconds = bytes * (2 / bytesPerSecond + price); // written and read
  return elements(typeOf(value).getDims()) * (narrow ? seconds + operationsToNarrow / operationsPerSecond : seconds);
}

static double secondsToRepeat(Operation *op) {
  auto types = llvm::map_to_vector(op->getOperands(), [](Value x) { return typeOf(x); });
  double all = elements(unionDims(types).value_or(SmallVector<DimAttr>()));
  if (isa<GatherOp>(op) && pickedWeight(op->getResult(0)))
    return 0;
  if (isa<RepeatOp>(op)) // iterations of a segment are run again whatever they cost: that is what segments are for
    return 0;
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    auto flops = [](const Size &size) {
      return static_cast<double>(
          size.evaluate([](const std::string &symbol) { return symbol == "B" ? 1 : assumedLength; }));
    };
    return flops(attention.getFlops()) / operationsPerSecond;
  }
  double operations = llvm::TypeSwitch<Operation *, double>(op)
                          .Case<ExpOp, LogOp, Log1pOp, TanhOp, SigmoidOp, ErfOp, PowOp>([](auto) { return 12; })
                          .Case<SinOp, CosOp, SoftmaxOp>([](auto) { return 25; })
                          .Case<DivOp, SqrtOp, GatherOp>([](auto) { return 6; })
                          .Case<CumsumOp, ScatterAddOp, TopKOp, ArgmaxOp>([](auto) { return 200; })
                          .Default([](auto) { return 1; });
  if (isa<ContractOp>(op))
    return 2 * all / productsPerSecond;
  return movesOnly(op) ? 0 : operations * all / operationsPerSecond;
}

/// Which values are saved, so that all of `wanted` can be had. `given`: at hand in any case; `must`: cannot be made
/// again.
static llvm::DenseSet<Value> leastCut(ArrayRef<Value> wanted, function_ref<bool(Value)> given,
                                      function_ref<bool(Value)> must, function_ref<double(Value)> secondsToSave) {
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
  // Two nodes a value: made (2 i), and at hand for the gradient (2 i + 1). In nanoseconds.
  size_t source = 2 * region.size(), sink = source + 1;
  MinimumCut cut(sink + 1);
  llvm::DenseMap<Value, size_t> number;
  for (auto [i, value] : llvm::enumerate(region))
    number[value] = i;
  for (auto [i, value] : llvm::enumerate(region)) {
    cut.addEdge(source, 2 * i,
                must(value) ? MinimumCut::unlimited : 1e9 * secondsToRepeat(value.getDefiningOp()) + 0.001);
    cut.addEdge(2 * i, 2 * i + 1, 1e9 * secondsToSave(value) + 0.001);
    if (i < needed)
      cut.addEdge(2 * i + 1, sink, MinimumCut::unlimited);
    if (must(value))
      continue;
    for (Value operand : value.getDefiningOp()->getOperands())
      if (auto at = number.find(operand); at != number.end())
        cut.addEdge(2 * at->second + 1, 2 * i, MinimumCut::unlimited);
  }
  std::vector<bool> side = cut.sourceSide(source, sink);
  llvm::DenseSet<Value> saved;
  for (auto [i, value] : llvm::enumerate(region))
    if (side[2 * i] && !side[2 * i + 1])
      saved.insert(value);
  return saved;
}

/// Only the iterations that the gradient runs again save anything.
static void dropStacks(RepeatOp repeat) {
  unsigned carried = repeat.getCarriedCount();
  OpBuilder builder(repeat);
  auto less = RepeatOp::create(builder, repeat.getLoc(), TypeRange(repeat.getResultTypes()).take_front(carried),
                               repeat.getInits(), repeat.getStacks(), repeat.getTurns(), repeat.getReversed());
  less.getBody().takeBody(repeat.getBody());
  less.getYield()->setOperands(SmallVector<Value>(less.getYield().getValues().take_front(carried)));
  for (unsigned i = 0; i < carried; ++i)
    repeat.getResult(i).replaceAllUsesWith(less.getResult(i));
  repeat.erase();
}

namespace {
class Saving {
public:
  Saving(Block &body, Block &gradient, Recomputing how) : body(body), gradient(gradient), how(how) {}

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
    chosen = leastCut(
        wanted.getArrayRef(), [&](Value value) { return isFree(value); },
        [&](Value value) {
          return mustBeSaved(value) || isAttentionStatistic(value) ||
                 (!how.allowed && !movesOnly(value.getDefiningOp()) && !pickedWeight(value) &&
                  !isSegment(value.getDefiningOp()));
        },
        [&](Value value) {
          return secondsToSave(value, how.price, how.narrow ? std::optional(Kept::OnStack) : std::nullopt);
        });
    for (Value value : wanted)
      require(value);
    IRMapping mapping;
    for (Value value : saved)
      mapping.map(value, gradient.addArgument(value.getType(), value.getLoc()));
    OpBuilder builder(gradient.front().getContext()); // the block has no parent to ask yet
    builder.setInsertionPointToStart(&gradient);
    for (Operation &op : body)
      if (again.contains(&op))
        builder.clone(op, mapping);
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
  /// What a loop carries or makes cannot be recomputed.
  static bool mustBeSaved(Value value) {
    Operation *op = value.getDefiningOp();
    return !op || (isa<RepeatOp>(op) && !isSegment(op));
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
  Recomputing how;
  llvm::DenseMap<Value, bool> free;
  llvm::DenseSet<Value> chosen;
  llvm::SetVector<Value> saved;
  llvm::DenseSet<Operation *> again;
};
} // namespace

SmallVector<Value> quern::passes::saveForGradient(Block &body, Block &gradient, Recomputing how) {
  return Saving(body, gradient, how).run();
}

void quern::passes::repeatForGradient(Operation *firstOfGradient) {
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
    bool made = isElementwise(value.getDefiningOp()) || movesOnly(value.getDefiningOp()) || pickedWeight(value);
    return !made || isAttentionStatistic(value);
  };
  std::optional<Kept> kept;
  if (storesNarrow(firstOfGradient->getParentOfType<ModuleOp>()))
    kept = Kept::InPlace;
  auto save = [&](Value value) { return secondsToSave(value, 0, kept) / (must(value) ? 2 : 1); };
  llvm::DenseSet<Value> saved = leastCut(wanted.getArrayRef(), given, must, save);
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
