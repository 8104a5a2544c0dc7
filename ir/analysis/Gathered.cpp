// Takes: a kernel's values. Gives: which of them are tables, and the bytes of them that a run can read.
#include "ir/analysis/Gathered.h"

#include "ir/analysis/Least.h"
#include "ir/analysis/Operations.h"

using namespace mlir;
using namespace quern::ir;

std::optional<SmallVector<GatherOp>> quern::ir::gatheredBy(Value value) {
  SmallVector<GatherOp> all;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto gather = dyn_cast<GatherOp>(user); gather && use.getOperandNumber() == 0) {
      all.push_back(gather);
      continue;
    }
    std::optional<SmallVector<GatherOp>> later;
    if (isElementwise(user) || isa<ExpandOp>(user))
      later = gatheredBy(user->getResult(0));
    if (!later)
      return std::nullopt;
    all.append(*later);
  }
  return all.empty() ? std::nullopt : std::optional(all);
}

/// What a gather can read of a table: for each position one row, and no row twice.
static Size bytesGathered(NamedTensorType table, GatherOp gather) {
  auto positions = cast<NamedTensorType>(gather.getPositions().getType());
  if (!table.has(gather.getDim()))
    return storedBytes(table); // repeated along it
  SmallVector<DimAttr> others;
  for (DimAttr dim : table.getDims())
    if (dim.getName() != gather.getDim())
      others.push_back(dim);
  Size row = storedBytes(table.withDims(others));
  Size count(1); // from the same rows: positions that the table lacks
  for (DimAttr dim : positions.getDims())
    if (!table.has(dim.getName()))
      count = count * dim.getSize();
  std::optional<int64_t> rows = table.dim(gather.getDim()).getStatic();
  return row * (rows ? least(*rows, count) : count);
}

Size quern::ir::bytesRead(KernelOp kernel, unsigned number) {
  BlockArgument argument = kernel.getBlock().getArgument(number);
  auto table = cast<NamedTensorType>(argument.getType());
  std::optional<SmallVector<GatherOp>> gathers = gatheredBy(argument);
  if (!gathers)
    return storedBytes(table);
  Size total(0);
  for (GatherOp gather : *gathers)
    total = total + bytesGathered(table, gather);
  return total;
}
