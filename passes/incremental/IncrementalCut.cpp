// Takes: a causal function with its renames sunk. Gives: which values over T are kept between steps. What is needed at
// old positions is the operand u of a `rename u, T -> S`: kept itself, or recomputed from something smaller that is
// kept (keys before they are repeated over heads; a rotary part before it is joined to every head's key). A least cut
// decides: a value kept costs its elements, a recomputed value costs its operations at every old position; a projection
// that new rows can absorb (AbsorbProjections.cpp) only what that adds.
#include "ir/analysis/AssumedLengths.h"
#include "passes/MinimumCut.h"
#include "passes/incremental/Incremental.h"
#include "passes/weights/AbsorbProjections.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// Operations that cost as much as reading one number of a cache. It changes what is kept, never the results.
constexpr double operationsPerNumber = 8;

class Costs {
public:
  Costs(const TimeAnalysis &analysis, DimAttr batch) : analysis(analysis), batch(batch) {}

  /// Numbers of one row at one position.
  double elements(ArrayRef<DimAttr> dims) const {
    double product = 1;
    for (DimAttr dim : dims)
      if (dim != batch && !analysis.isTime(dim))
        product *= static_cast<double>(atAssumedLengths(dim.getSize()));
    return product;
  }
  static double asElements(double operations) { return std::max(operations, 0.0) / operationsPerNumber + 0.001; }
  double absorbed(Value value, const Absorption &absorption) const {
    return asElements(absorption.added) * turns(value);
  }
  double kept(Value value) const { return elements(typeOf(value).getDims()) * turns(value); }
  /// Making the value again at one old position; never nothing, so that of equals the later value is kept.
  double again(Value value) const {
    Operation *op = value.getDefiningOp();
    SmallVector<NamedTensorType> types = llvm::map_to_vector(op->getOperands(), [](Value x) { return typeOf(x); });
    std::optional<SmallVector<DimAttr>> all = unionDims(types);
    double operations =
        TypeSwitch<Operation *, double>(op)
            .Case([&](ContractOp) { return 2 * elements(*all); })
            // A gather is traffic, not arithmetic.
            .Case<GatherOp, TopKOp>([&](auto) { return operationsPerNumber * elements(typeOf(value).getDims()); })
            .Case<RenameOp, SplitOp, MergeOp, CutOp, ConcatOp, UnitOp, SqueezeOp, ExpandOp, PermuteOp>(
                [](auto) { return 0.01; })
            .Default([&](Operation *) { return elements(all ? *all : SmallVector<DimAttr>()); });
    return asElements(operations) * turns(value);
  }

private:
  const TimeAnalysis &analysis;
  DimAttr batch;

  static double turns(Value value) {
    Operation *place = value.getDefiningOp() ? value.getDefiningOp() : &value.getParentBlock()->front();
    return std::max<double>(turnsAround(place), 1);
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

MemoryPlan::MemoryPlan(func::FuncOp function, const TimeAnalysis &analysis, bool absorb) : analysis(analysis) {
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

  // Two nodes a value: made (2 i), and had for old positions (2 i + 1).
  size_t source = 2 * region.size(), sink = source + 1;
  MinimumCut cut(sink + 1);
  llvm::DenseMap<Value, size_t> number;
  for (auto [i, value] : llvm::enumerate(region))
    number[value] = i;
  DimAttr batch = typeOf(function.getArgument(0)).getDims().front();
  Costs costs(analysis, batch);
  llvm::DenseMap<Value, int64_t> absorbable; // up to how many rows
  auto again = [&](Value value) {
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
  for (auto [i, value] : llvm::enumerate(region)) {
    bool barrier = isBarrier(value);
    cut.addEdge(source, 2 * i, barrier ? MinimumCut::unlimited : again(value));
    cut.addEdge(2 * i, 2 * i + 1, costs.kept(value));
    if (i < needed)
      cut.addEdge(2 * i + 1, sink, MinimumCut::unlimited);
    if (barrier)
      continue;
    for (Value x : value.getDefiningOp()->getOperands())
      if (auto at = number.find(x); at != number.end())
        cut.addEdge(2 * at->second + 1, 2 * i, MinimumCut::unlimited);
  }
  std::vector<bool> side = cut.sourceSide(source, sink);
  for (auto [i, value] : llvm::enumerate(region))
    if (side[2 * i] && !side[2 * i + 1])
      stored.insert(value);
  for (auto [value, rows] : absorbable)
    if (!side[2 * number[value]])
      absorbingRows = absorbingRows ? std::min(absorbingRows, rows) : rows;
}
