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
#include "codegen/halide/contraction/GroupedContraction.h"

#include "support/CodedGroups.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

/// A weight as it is stored in memory: a tile of columns of the expert that a chunk is routed to, copied where the chunk's rows
/// use it; bf16 is widened on the way.
void GroupedContraction::stripOfExpert(const Node &gather) {
  const Node &table = b.graph.nodes[gather.operands[0]];
  Var chunk("chunk"), tileIndex("tile");
  Index index = KernelBuilder::varsOf(table.dims);
  index[gather.names[0]] = clamp(leader(chunk), 0, experts - 1);
  std::vector<Var> args = {lane};
  for (auto dim = table.dims.rbegin(); dim != table.dims.rend(); ++dim)
    if (dim->name != column->name && dim->name != gather.names[0])
      args.push_back(KernelBuilder::var(dim->name));
  args.push_back(chunk);
  args.push_back(tileIndex);
  strip = b.newFunc("strip", node);
  strip(args) = loadWeight(gather.operands[0], lane, tileIndex, index);
}

/// In registers: a tile of rows, and a row alone. One of the two is zero: a step of one token would else wait for
/// products of rows that it does not have (measured: 84% of the memory's bandwidth instead of 89).
void GroupedContraction::accumulate() {
  sums = b.newFunc("sums", node);
  single = b.newFunc("single", node);
  Var tileIndex("tile"), within("within"), block("block");
  std::vector<Var> args = {lane, within, block}, own = {lane, block};
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim) {
    args.push_back(KernelBuilder::var(dim->name));
    own.push_back(KernelBuilder::var(dim->name));
  }
  args.push_back(tileIndex);
  own.push_back(tileIndex);

  const Node &gather = b.graph.nodes[pickOf(w)], &table = b.graph.nodes[gather.operands[0]];
  if (!packed)
    stripOfExpert(gather);
  auto products = [&](const RDom &k, const Expr &slot) {
    Index mine = KernelBuilder::varsOf(others);
    CodePlace place;
    if (bits) {
      place = {k[0], k[1], k[2]};
      setDepth(mine, place);
    } else {
      setReduced(mine, k);
    }
    Index its = mine;
    its[gather.names[0]] = clamp(leader(block / rowBlock), 0, experts - 1);
    setPair(mine, slot); // an empty slot computes what is not stored
    if (bits)
      return withinDepth(b.real(x, mine), place) * numberAt(columnsAt(lane, tileIndex, its), place);
    if (packed)
      return b.real(x, mine) * loadWeight(w, lane, tileIndex, its);
    std::vector<Expr> call = {lane};
    for (auto dim = table.dims.rbegin(); dim != table.dims.rend(); ++dim)
      if (dim->name != column->name && dim->name != gather.names[0])
        call.push_back(its.at(dim->name));
    call.push_back(block / rowBlock);
    call.push_back(tileIndex);
    return b.real(x, mine) * strip(call);
  };
  RDom k(bits ? codedRegion() : reducedRegion()), l(bits ? codedRegion() : reducedRegion());
  Expr several =
      rows > 1 ? pairAt(block * rows + 1) >= 0 : Internal::const_false(); // a block fills up from its first slot
  k.where(several);
  l.where(!several && pairAt(block * rows) >= 0);
  for (int i = 0; i < k.dimensions(); ++i) {
    over.push_back(k[i]);
    singleOver.push_back(l[i]);
  }
  sums(args) = 0.0f;
  sums(args) += products(k, block * rows + within);
  single(own) = 0.0f;
  single(own) += products(l, block * rows);
}

void GroupedContraction::schedule(Stage &target) {
  Halide::Stage out = target.func.update(0);
  const int vector = vectorOfTile();
  const TaskLoops loops{Var("co"), Var("ci"), RVar("rb"), RVar("rt"), RVar("task")};
  const std::vector<Dim> outside = aroundOf(target.dims);
  scheduleTasks(out, loops, outside, Var(), tile);
  out.unroll(slots.x);

  Var within("within"), block("block"), tileIndex("tile");
  sums.compute_at(target.func, loops.blockInner);
  sums.bound_extent(lane, tile).bound_extent(within, rows).bound_extent(block, 1).bound_extent(tileIndex, 1);
  sums.vectorize(lane, vector).unroll(lane).unroll(within);
  std::vector<VarOrRVar> steps = {lane, within};
  steps.insert(steps.end(), over.begin(), over.end());
  sums.update().reorder(steps).vectorize(lane, vector).unroll(lane).unroll(within);
  single.compute_at(target.func, loops.blockInner);
  single.bound_extent(lane, tile)
      .bound_extent(block, 1)
      .bound_extent(tileIndex, 1)
      .vectorize(lane, vector)
      .unroll(lane);
  steps = {lane};
  steps.insert(steps.end(), singleOver.begin(), singleOver.end());
  single.update().reorder(steps).vectorize(lane, vector).unroll(lane);
  if (int together = bits ? support::stepOf(storage) : unroll; together > 1) {
    sums.update().unroll(over[0], together);
    single.update().unroll(singleOver[0], together);
  }
  unrollParts(sums, outside);
  unrollParts(single, outside);
  if (packed)
    b.fetchAhead(single, tableOf(w), static_cast<int>(plan["ahead"]));
  if (strip.defined()) {
    strip.compute_at(target.func, loops.task)
        .bound_extent(lane, tile)
        .bound_extent(tileIndex, 1)
        .vectorize(lane, vector);
    Var depth = KernelBuilder::var(reduced.back().name);
    const Node &table = b.graph.nodes[tableOf(w)];
    if (table.dims.back().name == reduced.back().name) // lines of memory run along the depth
      strip.reorder(depth, lane);
  }
  target.scheduled = true;
}

GroupedContraction::GroupedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : RoutedPairs(builder, std::move(pattern), plan), plan(plan), unroll(plan["unroll"]) {}

/// Whether an expert has few pairs, on average: the run knows.
Expr GroupedContraction::fewPairs(const Dim &among) const {
  if (!plan["amx"])
    return Internal::const_true();
  Expr count = cast<int64_t>(1);
  for (const Dim &pair : pairs)
    count = count * b.extent(pair.size, true);
  return Internal::simplify(count <= b.extent(among.size, true) * static_cast<int32_t>(plan["few"]));
}

Expr GroupedContraction::sumAt(const Index &position) const {
  Expr at = position.at(column->name);
  std::vector<Expr> call = {at % tile, slots.x, slots.y}, own = {at % tile, slots.y};
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim) {
    call.push_back(position.at(dim->name));
    own.push_back(position.at(dim->name));
  }
  call.push_back(at / tile);
  own.push_back(at / tile);
  return sums(call) + single(own);
}

/// By vectors first, then by tiles: what is computed from the sum is written out for both. Where the loops stand a sum is; the pair
/// follows from that.
void GroupedContraction::writeBoth(Stage &target, int value) {
  const Node &result = b.graph.nodes[value];
  target.func(KernelBuilder::pureArgs(result.dims)) = undef(storedType(result.storage));
  if (sums.defined()) {
    b.values[node] = [self = *this](const Index &position) { return self.sumAt(position); };
    writePairs(target, value, isFew);
  }
  if (many)
    many->write(target, value);
}

void GroupedContraction::scheduleBoth(Stage &target) {
  if (sums.defined())
    schedule(target);
  if (many)
    many->schedule(target, sums.defined());
  target.scheduled = true;
}

void GroupedContraction::define() {
  const Node &gather = b.graph.nodes[pickOf(w)], &table = b.graph.nodes[gather.operands[0]];
  const Dim &among = table.dims[table.find(gather.names[0])];
  isFew = fewPairs(among);
  if (!Internal::is_const_one(isFew)) {
    prepareOperands(b, *this, true);
    many.emplace(b, static_cast<const ContractionPattern &>(*this), plan, b.values[x],
                 Internal::is_const_zero(isFew) ? Internal::const_true() : !isFew);
    many->define(gather.operands[1], among);
  }
  prepareOperands(b, *this);
  if (!Internal::is_const_zero(isFew)) {
    sortPairs(gather.operands[1], among, rows * rowBlock);
    findLeaders(gather.operands[1]);
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
