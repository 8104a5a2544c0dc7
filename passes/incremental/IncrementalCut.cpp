// Takes: a causal function with its renames sunk. Gives: which values over T are kept between steps. What is needed at
// old positions is the operand u of a `rename u, T -> S`: kept itself, or recomputed from something smaller that is
// kept (keys before they are repeated over heads; a rotary part before it is joined to every head's key). A least cut
// decides: a value kept costs its elements, a recomputed value costs its operations at every old position; a projection
// that new rows can absorb (AbsorbProjections.cpp) only what that adds.
#include "ir/analysis/AssumedLengths.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Price.h"
#include "passes/ValueCut.h"
#include "passes/incremental/Incremental.h"
#include "passes/weights/AbsorbProjections.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// Seconds for one row at one position. They change what is kept, never the results.
class Costs {
public:
  Costs(const TimeAnalysis &analysis, DimAttr batch, const quern::support::Machine &machine)
      : analysis(analysis), batch(batch), machine(machine) {}

  double absorbed(Value value, const Absorption &absorption) const {
    return (std::max(absorption.added, 0.0) / machine.ofOneRow + least()) * iterations(value);
  }
  double kept(Value value) const { return read(value) * iterations(value); }
  /// Making the value again at one old position; never nothing, so that of equals the later value is kept.
  double again(Value value) const {
    Operation *op = value.getDefiningOp();
    double seconds = 0;
    if (isa<GatherOp, TopKOp>(op)) // traffic, not arithmetic
      seconds = read(value);
    else if (!isViewLike(op) && !isa<ConcatOp, ExpandOp>(op))
      seconds = atOnePosition(cast<CostOpInterface>(op).getWork()) / machine.ofOneRow;
    return (seconds + least()) * iterations(value);
  }

private:
  const TimeAnalysis &analysis;
  DimAttr batch;
  const quern::support::Machine &machine;

  double atOnePosition(const Size &size) const {
    return static_cast<double>(size.evaluate([&](const std::string &symbol) -> int64_t {
      return symbol == analysis.symbol() || batch.getSize().mentions(symbol) ? 1 : assumedLength(symbol);
    }));
  }
  double read(Value value) const {
    return atOnePosition(typeOf(value).elements()) * secondsToMove(typeOf(value).getStorage(), machine);
  }
  /// A thousandth of what reading a number takes.
  double least() const { return secondsToMove(Storage::F32, machine) / 1000; }

  static double iterations(Value value) {
    Operation *place = value.getDefiningOp() ? value.getDefiningOp() : &value.getParentBlock()->front();
    return std::max<double>(iterationsAround(place), 1);
  }
};

} // namespace

bool MemoryPlan::isMadeFromPositions(Value value) {
  if (analysis.times(value).empty())
    return true;
  if (auto known = fromPositions.find(value); known != fromPositions.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  bool is = op && op->getNumRegions() == 0 && !analysis.facts(value).data &&
            llvm::all_of(op->getOperands(), [&](Value x) { return isMadeFromPositions(x); });
  return fromPositions[value] = is;
}

/// Cannot be had for old positions from operands: inputs, what a loop carries, running sums, what has met other
/// positions.
bool MemoryPlan::isBarrier(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isPointwise(op) || touches(op, analysis.time()))
    return true;
  auto otherTimes = [&](Value x) {
    return llvm::any_of(typeOf(x).getDims(), [&](DimAttr dim) {
      return dim.getName() != analysis.time() && dim.getSize().mentions(analysis.symbol());
    });
  };
  return otherTimes(value) || llvm::any_of(op->getOperands(), otherTimes);
}

MemoryPlan::MemoryPlan(func::FuncOp function, const TimeAnalysis &analysis, const support::Machine &machine,
                       bool absorb)
    : analysis(analysis) {
  llvm::SetVector<Value> region; // values over T from which what is needed can be made
  function.walk([&](RenameOp op) {
    if (llvm::is_contained(names(op.getFrom()), analysis.time()) && !isMadeFromPositions(op.getX()))
      region.insert(op.getX());
  });
  size_t needed = region.size();
  for (size_t i = 0; i < region.size(); ++i)
    if (!isBarrier(region[i]))
      for (Value x : region[i].getDefiningOp()->getOperands())
        if (!isMadeFromPositions(x))
          region.insert(x);

  DimAttr batch = typeOf(function.getArgument(0)).getDims().front();
  Costs costs(analysis, batch, machine);
  llvm::DenseMap<Value, int64_t> absorbable; // up to how many rows
  auto again = [&](Value value) {
    if (isBarrier(value))
      return MinimumCut::unlimited;
    double cost = costs.again(value);
    auto contract = value.getDefiningOp<ContractOp>();
    if (!absorb || !contract)
      return cost;
    std::optional<Absorption> absorption =
        absorptionOf(contract, batch, [&](DimAttr dim) { return analysis.isTwin(dim); });
    if (!absorption || costs.absorbed(value, *absorption) >= cost)
      return cost;
    absorbable[value] = absorption->rows();
    return costs.absorbed(value, *absorption);
  };
  auto kept = [&](Value value) { return 1e9 * costs.kept(value); }; // nanoseconds
  auto made = [&](Value value) { return 1e9 * again(value); };
  for (auto [value, had] : llvm::zip(region, leastCut(region.getArrayRef(), needed, kept, made))) {
    if (had == Had::Kept)
      stored.insert(value);
    if (auto rows = absorbable.find(value); rows != absorbable.end() && had == Had::Again)
      absorbingRows = absorbingRows ? std::min(absorbingRows, rows->second) : rows->second;
  }
}
