// Takes: a contraction whose weight is chosen for each row from several (experts), at positions that only the run
// knows. Gives: loops in which rows routed to the same weight stand together, so that each expert is read once and
// fills whole tiles. Why in the kernel: sorting a thousand positions takes microseconds; a launch of its own, and rows
// moved there and back through memory, would cost more. No order of threads enters: a slot belongs to one pair, and
// each pair's result has one place.
//
//   count of pairs (row, choice) routed to each expert
//   first slot of each expert, rounded up to whole chunks           an expert without pairs has none
//   order: slot -> pair, stable; slots at the end of a chunk may be empty
//   for each chunk, tile of columns (parallel)                      a chunk's rows stay in L2, the expert streams past them
//     for each block of slots that has pairs
//       sums[rows x columns] = 0;  for k: sums += x[row of the pair, k] * w[expert of the chunk, k, columns]
//       result[pair] = epilogue(sums)                               where the slot has a pair
//
// Columns in codes are taken apart in registers: for one pair, or for a few. Many have copies of columns (GroupedRows.cpp), or
// AMX's registers (GroupedTiles.cpp), in an update of their own.
#include "codegen/halide/contraction/routed/GroupedContraction.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

/// Of columns in codes: rows that they are taken apart for at a time; sums of a group have registers, too.
static constexpr int fewAtOnce = 4;

GroupedContraction::GroupedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : RoutedPairs(builder, std::move(pattern), plan), plan(plan) {
  if (b.multipliesIntegers(*this))
    rows = 1; // one by one
  else if (bits)
    rows = std::min(rows, fewAtOnce);
}

/// In registers: a tile of rows, and a row alone. One of the two is zero: a step of one token would else wait for
/// products of rows that it does not have (measured: 84% of the memory's bandwidth instead of 89).
void GroupedContraction::accumulate() {
  Expr some = pairAt(block * rows) >= 0, more = Internal::const_false();
  if (rows > 1) { // a block fills up from its first slot
    more = pairAt(block * rows + 1) >= 0;
    several.emplace(sumsOfBlock(plan, true, more));
  }
  alone.emplace(sumsOfBlock(plan, false, !more && some));
  PackedSums::Columns columns;
  if (!bits) {
    PackedSums &copying = several ? *several : *alone;
    columns = packed ? copying.storedColumns() : copying.copiedColumns();
  }
  if (several)
    sums = bits ? several->codedSums("sums", Expr(), false) : several->sumsOf("sums", Expr(), columns);
  single = b.multipliesIntegers(*this) ? alone->integerSums("single", Expr(), PackedSums::Codes::Stored)
           : bits                      ? alone->codedSums("single", Expr(), true)
                                       : alone->sumsOf("single", Expr(), columns);
}

void GroupedContraction::schedule(Stage &target) {
  Halide::Stage out = target.func.update(0);
  const TaskLoops loops{Var("co"), Var("ci"), RVar("rb"), RVar("rt"), RVar("task")};
  const std::vector<Dim> outside = aroundOf(target.dims);
  scheduleTasks(out, loops, outside, Var(), tile);
  out.unroll(slots.x);
  LoopLevel ofBlock(target.func, loops.blockInner), ofTask(target.func, loops.task);
  if (several)
    several->scheduleSums(sums, ofBlock, outside, rows, 1);
  alone->scheduleSums(single, ofBlock, outside, 1, 1);
  if (packed)
    b.fetchAhead(single.func, tableOf(w), static_cast<int>(plan["ahead"]));
  else
    (several ? *several : *alone).scheduleStrips(ofTask);
  target.scheduled = true;
}

/// Whether an expert has few pairs, on average: the run knows.
Expr GroupedContraction::fewPairs(const Dim &among) const {
  if (!plan["amx"] && !bits)
    return Internal::const_true();
  Expr count = cast<int64_t>(1);
  for (const Dim &pair : pairs)
    count = count * b.extent(pair.size, true);
  return Internal::simplify(count <= b.extent(among.size, true) * static_cast<int32_t>(plan["few"]));
}

/// By vectors first, then by tiles: what is computed from the sum is written out for both. Where the loops stand a sum is; the pair
/// follows from that.
void GroupedContraction::writeBoth(Stage &target, int value) {
  const Node &result = b.graph.nodes[value];
  target.func(KernelBuilder::pureArgs(result.dims)) = undef(storedType(result.storage));
  if (alone) {
    b.values[node] = [self = *this](const Index &position) {
      Expr sum = self.sumAt(self.single.func, position, false, self.tile);
      return self.several ? self.sumAt(self.sums.func, position, true, self.tile) + sum : sum;
    };
    writePairs(target, value, isFew);
  }
  if (tiles)
    tiles->write(target, value);
  if (copied)
    copied->write(target, value);
}

void GroupedContraction::scheduleBoth(Stage &target) {
  if (alone)
    schedule(target);
  if (tiles)
    tiles->schedule(target, alone.has_value());
  if (copied)
    copied->schedule(target, alone.has_value());
  target.scheduled = true;
}

void GroupedContraction::define() {
  const Node &gather = b.graph.nodes[pickOf(w)], &table = b.graph.nodes[gather.operands[0]];
  const Dim &among = table.dims[table.find(gather.names[0])];
  const int positions = gather.operands[1];
  isFew = fewPairs(among);
  const bool tiled = plan["amx"] && !Internal::is_const_one(isFew);
  const Expr asked = Internal::is_const_zero(isFew) ? Internal::const_true() : !isFew;
  const auto &pattern = static_cast<const ContractionPattern &>(*this);
  if (tiled) {
    prepareOperands(b, *this, true);
    tiles.emplace(b, pattern, plan, b.values[x], asked);
    tiles->define(positions, among);
  }
  prepareOperands(b, *this);
  if (!tiled && !Internal::is_const_one(isFew)) {
    copied.emplace(b, pattern, plan, asked);
    copied->define(positions, among);
  }
  if (!Internal::is_const_zero(isFew)) {
    sortPairs(positions, among, rows * rowBlock);
    findLeaders(positions);
    accumulate();
  }
  b.isStage[node] = 1;
  auto run = [self = *this](Stage &out) mutable { self.scheduleBoth(out); };
  int result = fusedResult();
  if (result >= 0 && b.fusedInto(result, run)) {
    b.written[result] = [self = *this, value = b.graph.results[result]](Stage &out) mutable {
      self.writeBoth(out, value);
    };
    return;
  }
  const Node &c = b.graph.nodes[node];
  Stage copy{b.newFunc("product", node), c.dims, {}, false, {}, false, node};
  writeBoth(copy, node);
  copy.func.compute_root();
  run(copy);
  b.memo[node].clear();
  b.readFrom(node, copy.func);
  b.addStage(copy);
}

} // namespace quern::codegen
