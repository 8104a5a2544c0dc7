// Takes: values with two costs each. Gives: the cheapest way to have those that are wanted.
// Why a cut: a value that is kept spares the making of all that only it needs, so no value can be judged alone. A value is an
// edge whose capacity is the cost of keeping it; from the source comes the cost of making it, operands come in unlimited, and
// what is wanted goes to the sink.
#include "passes/ValueCut.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

std::vector<quern::passes::Had> quern::passes::leastCut(ArrayRef<Value> region, size_t wanted,
                                                        llvm::function_ref<double(Value)> keep,
                                                        llvm::function_ref<double(Value)> make) {
  // Two nodes a value: made (2 i), and had (2 i + 1).
  size_t source = 2 * region.size(), sink = source + 1;
  MinimumCut cut(sink + 1);
  llvm::DenseMap<Value, size_t> number;
  for (auto [i, value] : llvm::enumerate(region))
    number[value] = i;
  for (auto [i, value] : llvm::enumerate(region)) {
    double cost = make(value);
    cut.addEdge(source, 2 * i, cost);
    cut.addEdge(2 * i, 2 * i + 1, keep(value));
    if (i < wanted)
      cut.addEdge(2 * i + 1, sink, MinimumCut::unlimited);
    if (cost == MinimumCut::unlimited)
      continue;
    for (Value operand : value.getDefiningOp()->getOperands())
      if (auto at = number.find(operand); at != number.end())
        cut.addEdge(2 * at->second + 1, 2 * i, MinimumCut::unlimited);
  }
  std::vector<bool> side = cut.sourceSide(source, sink);
  std::vector<Had> had;
  for (size_t i = 0; i < region.size(); ++i)
    had.push_back(!side[2 * i] ? Had::Again : side[2 * i + 1] ? Had::Neither : Had::Kept);
  return had;
}
