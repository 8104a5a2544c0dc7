// Takes: a contraction whose weight is picked for each row from several (experts), at positions that only the run
// knows. Gives: loops in which rows that picked the same weight stand together, so that each expert is read once and
// fills whole tiles. Why in the kernel: sorting a thousand positions takes microseconds; a launch of its own, and rows
// moved there and back through memory, would cost more. No order of threads enters: a slot belongs to one pair, and
// each pair's result has one place.
//
//   count of pairs (row, choice) that picked each expert
//   first slot of each expert, rounded up to whole chunks           an expert that nobody picked has none
//   order: slot -> pair, stable; slots at the end of a chunk may be empty
//   for each chunk, tile of columns (parallel)                      a chunk's rows stay in L2, the expert streams past them
//     for each block of slots that has pairs
//       sums[rows x columns] = 0;  for k: sums += x[row of the pair, k] * w[expert of the chunk, k, columns]
//       result[pair] = epilogue(sums)                               where the slot has a pair
#include "codegen/halide/contraction/ContractionFamily.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

/// Whether the weight is picked row by row; the rows are then pairs. A table of one column a row (a dot product) is not
/// meant.
void ContractionFamily::findPairs() {
  const Node &gather = b.graph.nodes[pickOf(w)], &c = b.graph.nodes[node], &input = b.graph.nodes[x];
  if (gather.op != Op::Gather || gather.operands[0] >= b.graph.argumentCount())
    return;
  const Node &table = b.graph.nodes[gather.operands[0]], &positions = b.graph.nodes[gather.operands[1]];
  auto summed = [&](const std::string &name) {
    return std::find(c.names.begin(), c.names.end(), name) != c.names.end();
  };
  bool hasColumn = std::any_of(table.dims.begin(), table.dims.end(), [&](const Dim &dim) {
    return dim.name != gather.names[0] && !input.has(dim.name) && !summed(dim.name);
  });
  // Rows that share a dimension with the table pick from different tables.
  bool apart = std::all_of(positions.dims.begin(), positions.dims.end(),
                           [&](const Dim &dim) { return !table.has(dim.name) && !summed(dim.name); });
  if (hasColumn && apart && !summed(gather.names[0]) && !input.has(gather.names[0]))
    pairs = positions.dims;
}

/// The positions along the pairs' dimensions of the pair in a slot; of the first pair where it is empty.
void ContractionFamily::setPair(Index &index, const Expr &slot) const {
  for (size_t i = 0; i < pairs.size(); ++i)
    index[pairs[i].name] = clamp(places.empty() ? pairAt(slot) : Expr(places[i](slot)), 0, b.extent(pairs[i].size) - 1);
}

/// Divisions once for each slot.
void ContractionFamily::placePairs() {
  if (pairs.size() < 2)
    return;
  Var slot("slot");
  Expr rest = pairAt(slot);
  for (size_t i = pairs.size(); i-- > 0;) {
    Expr size = b.extent(pairs[i].size);
    Func place = b.newFunc("place" + std::to_string(i), node);
    place(slot) = i ? rest % size : rest;
    place.compute_root();
    places.insert(places.begin(), place);
    rest = rest / size;
  }
}

/// A counting sort by `positions` among the experts. Each expert's pairs begin with a chunk of slots. One Func holds
/// both what is counted up and what is filled, as each step needs the other's last.
void ContractionFamily::sortPairs(int positions, const Dim &among, int chunk) {
  if (!b.isStage[positions] && b.graph.nodes[positions].op != Op::Argument)
    b.materialize(positions);
  experts = b.extent(among.size);
  auto chosen = [&](const Index &index) { return clamp(b.at(positions, index), 0, experts - 1); };
  Region region;
  Expr all = 1;
  for (auto dim = pairs.rbegin(); dim != pairs.rend(); ++dim) {
    region.push_back({0, b.extent(dim->size)});
    all = all * b.extent(dim->size);
  }
  auto indexOf = [&](const RDom &r, int from) {
    Index index;
    for (size_t i = 0; i < pairs.size(); ++i)
      index[pairs[i].name] = r[from + static_cast<int>(pairs.size() - 1 - i)];
    return index;
  };
  Var e("e");
  Func count = b.newFunc("count", node);
  first = b.newFunc("first", node);
  RDom each(region);
  count(e) = 0;
  count(chosen(indexOf(each, 0))) += 1;
  first(e) = 0;
  RDom next(1, max(experts - 1, 0));
  first(next.x) = first(next.x - 1) + (count(next.x - 1) + (chunk - 1)) / chunk * chunk;

  // Each expert that is picked adds less than a chunk to what its pairs fill.
  slotCount = (all + min(experts, all) * (chunk - 1)) / chunk * chunk;
  order = b.newFunc("order", node);
  order(e) = select(e < experts, first(clamp(e, 0, experts - 1)), -1);
  region.insert(region.begin(), {0, 2});
  RDom step(region);
  Index index = indexOf(step, 1);
  Expr pair = 0;
  for (const Dim &dim : pairs)
    pair = pair * b.extent(dim.size) + index.at(dim.name);
  Expr expert = chosen(index), slot = clamp(order(expert), 0, slotCount - 1);
  Expr fills = step.x == 0;
  order(select(fills, experts + slot, expert)) = select(fills, pair, order(expert) + 1);
  for (Func func : {count, first, order})
    func.compute_root();
  count.update().unscheduled();
  first.update().unscheduled();
  order.update().unscheduled();
  placePairs();
}

/// One expert for each chunk of slots; and the loops over them.
void ContractionFamily::findLeaders() {
  int positions = b.graph.nodes[pickOf(w)].operands[1];
  leader = b.newFunc("leader", node);
  Var number("chunk");
  Index index;
  setPair(index, number * (rows * rowBlock));
  leader(number) = clamp(b.at(positions, index), 0, experts - 1);
  leader.compute_root();
  slots = RDom(0, rows, 0, slotCount / rows);
  slots.where(pairAt(slots.y * rows) >= 0);
  slots.where(pairAt(slots.y * rows + slots.x) >= 0);
}

/// A weight as it lies in memory: a tile of columns of the expert that a chunk picked, copied where the chunk's rows
/// use it; bf16 is widened on the way.
void ContractionFamily::stripOfExpert(const Node &gather) {
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
  strip(args) = weightAt(gather.operands[0], lane, tileIndex, index);
}

/// In registers: a tile of rows, and a row alone. One of the two is zero: a step of one token would else wait for
/// products of rows that it does not have (measured: 84% of the memory's bandwidth instead of 89).
void ContractionFamily::accumulateGrouped() {
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
    setReduced(mine, k);
    Index its = mine;
    its[gather.names[0]] = clamp(leader(block / rowBlock), 0, experts - 1);
    setPair(mine, slot); // an empty slot computes what is not stored
    if (packed)
      return b.real(x, mine) * weightAt(w, lane, tileIndex, its);
    std::vector<Expr> call = {lane};
    for (auto dim = table.dims.rbegin(); dim != table.dims.rend(); ++dim)
      if (dim->name != column->name && dim->name != gather.names[0])
        call.push_back(its.at(dim->name));
    call.push_back(block / rowBlock);
    call.push_back(tileIndex);
    return b.real(x, mine) * strip(call);
  };
  RDom k(reducedRegion()), l(reducedRegion());
  Expr several =
      rows > 1 ? pairAt(block * rows + 1) >= 0 : Internal::const_false(); // a block fills up from its first slot
  k.where(several);
  l.where(!several && pairAt(block * rows) >= 0);
  for (size_t i = 0; i < reduced.size(); ++i)
    over.push_back(k[static_cast<int>(i)]);
  singleOver = l[0];
  sums(args) = 0.0f;
  sums(args) += products(k, block * rows + within);
  single(own) = 0.0f;
  single(own) += products(l, block * rows);
}

/// Every pair's result goes to its own place.
void ContractionFamily::writeGrouped(Stage &target, int value) {
  const Node &result = b.graph.nodes[value];
  Index index = KernelBuilder::varsOf(result.dims);
  setPair(index, slots.y * rows + slots.x);
  target.func(KernelBuilder::pureArgs(result.dims)) = undef(KernelBuilder::storageType(result.kind));
  target.func(KernelBuilder::call(result.dims, index)) = KernelBuilder::stored(b.at(value, index), result.kind);
}

void ContractionFamily::scheduleGrouped(Stage &target) {
  Halide::Stage out = target.func.update();
  int vector = std::min(tile, b.target.vector);
  Var o = KernelBuilder::var(column->name), outer("co"), inner("ci");
  RVar blockOuter("rb"), blockInner("rt"), task("task");
  out.allow_race_conditions(); // a pair has one slot
  out.split(o, outer, inner, tile, TailStrategy::GuardWithIf);
  out.split(slots.y, blockOuter, blockInner, rowBlock, TailStrategy::GuardWithIf);
  std::vector<VarOrRVar> loops = {inner, slots.x, blockInner};
  std::vector<Dim> outside = aroundOf(target.dims);
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    loops.push_back(KernelBuilder::var(dim->name));
  loops.push_back(outer);
  loops.push_back(blockOuter);
  out.reorder(loops).fuse(outer, blockOuter, task).parallel(task);
  out.vectorize(inner, vector).unroll(inner).unroll(slots.x);

  Var within("within"), block("block"), tileIndex("tile");
  sums.compute_at(target.func, blockInner);
  sums.bound_extent(lane, tile).bound_extent(within, rows).bound_extent(block, 1).bound_extent(tileIndex, 1);
  sums.vectorize(lane, vector).unroll(lane).unroll(within);
  std::vector<VarOrRVar> steps = {lane, within};
  steps.insert(steps.end(), over.begin(), over.end());
  sums.update().reorder(steps).vectorize(lane, vector).unroll(lane).unroll(within);
  single.compute_at(target.func, blockInner);
  single.bound_extent(lane, tile)
      .bound_extent(block, 1)
      .bound_extent(tileIndex, 1)
      .vectorize(lane, vector)
      .unroll(lane);
  single.update().reorder(lane, singleOver).vectorize(lane, vector).unroll(lane);
  if (unroll > 1) {
    sums.update().unroll(over[0], unroll);
    single.update().unroll(singleOver, unroll);
  }
  unrollParts(sums, outside);
  unrollParts(single, outside);
  if (strip.defined()) {
    strip.compute_at(target.func, task).bound_extent(lane, tile).bound_extent(tileIndex, 1).vectorize(lane, vector);
    Var depth = KernelBuilder::var(reduced.back().name);
    const Node &table = b.graph.nodes[tableOf(w)];
    if (table.dims.back().name == reduced.back().name) // lines of memory run along the depth
      strip.reorder(depth, lane);
  }
  target.scheduled = true;
}

void ContractionFamily::defineGrouped() {
  rowBlock = b.schedules.find(
      "grouped", {{"vector", b.target.vector}, {"inner", reduced.back().fixed().value_or(0)}})["row_block"];
  const Node &gather = b.graph.nodes[pickOf(w)], &table = b.graph.nodes[gather.operands[0]];
  sortPairs(gather.operands[1], table.dims[table.find(gather.names[0])], rows * rowBlock);
  findLeaders();
  accumulateGrouped();
  b.isStage[node] = 1;
  b.values[node] = [this_ = *this](const Index &position) { // where the loops stand; the pair follows from that
    Expr at = position.at(this_.column->name);
    std::vector<Expr> call = {at % this_.tile, this_.slots.x, this_.slots.y}, own = {at % this_.tile, this_.slots.y};
    for (auto dim = this_.others.rbegin(); dim != this_.others.rend(); ++dim) {
      call.push_back(position.at(dim->name));
      own.push_back(position.at(dim->name));
    }
    call.push_back(at / this_.tile);
    own.push_back(at / this_.tile);
    return this_.sums(call) + this_.single(own);
  };
  auto run = [self = *this](Stage &out) mutable { self.scheduleGrouped(out); };
  int result = fusedResult();
  if (result >= 0 && b.fusedInto(result, run)) {
    b.written[result] = [self = *this, value = b.graph.results[result]](Stage &out) mutable {
      self.writeGrouped(out, value);
    };
    return;
  }
  const Node &c = b.graph.nodes[node];
  Stage copy{b.newFunc("product", node), c.dims, {}, false, {}, false, node};
  writeGrouped(copy, node);
  copy.func.compute_root();
  run(copy);
  b.memo[node].clear();
  b.readFrom(node, copy.func);
  b.addStage(copy);
}

} // namespace quern::codegen
