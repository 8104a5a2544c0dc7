// Takes: a product whose weight is chosen for each row, many rows, experts in codes. Gives: its sums by vectors, with columns that
// are taken apart once for all rows of a chunk; fewer rows have the loops of GroupedContraction.cpp.
//
//   for each chunk, tile of columns (parallel)
//     strip[columns x depth] = w                    of the chunk's expert: numbers, or codes in bytes where rows are in codes, too
//     for each block of slots that has pairs
//       sums[rows x columns] = products             as PackedSums.cpp and PackedIntegers.cpp have them
//       result[pair] = epilogue(sums)               where the slot has a pair
#include "codegen/halide/contraction/routed/GroupedRows.h"

using namespace Halide;

namespace quern::codegen {

GroupedRows::GroupedRows(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan, Expr asked)
    : RoutedPairs(builder, std::move(pattern), plan), plan(plan), asked(std::move(asked)) {}

void GroupedRows::define(int positions, const Dim &among) {
  sortPairs(positions, among, rows * rowBlock);
  findLeaders(positions);
  slots.where(pairAt(slots.y / rowBlock * (rows * rowBlock)) >= 0); // no strip of what has no pair
  tiles.emplace(sumsOfBlock(plan, true, asked && pairAt(block * rows) >= 0));
  sums = b.multipliesIntegers(*this) ? tiles->integerSums("sums", Expr(), PackedSums::Codes::Copied)
                                     : tiles->sumsOf("sums", Expr(), tiles->copiedColumns());
}

void GroupedRows::write(Stage &target, int value) {
  b.values[node] = [self = *this](const Index &position) {
    return self.sumAt(self.sums.func, position, true, self.tile);
  };
  writePairs(target, value, asked);
}

void GroupedRows::schedule(Stage &target, int update) {
  Halide::Stage out = target.func.update(update);
  const TaskLoops loops{Var("mo"), Var("mi"), RVar("mb"), RVar("mt"), RVar("many")};
  const std::vector<Dim> outside = aroundOf(target.dims);
  scheduleTasks(out, loops, outside, Var(), tile);
  out.unroll(slots.x);
  tiles->scheduleSums(sums, LoopLevel(target.func, loops.blockInner), outside, rows, 1);
  tiles->scheduleStrips(LoopLevel(target.func, loops.task));
}

} // namespace quern::codegen
