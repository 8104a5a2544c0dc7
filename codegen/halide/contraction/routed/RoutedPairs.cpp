// Takes: positions that route each pair of a row and a choice to an expert. Gives: the pairs in slots, sorted by expert.
// Why in the kernel: sorting a thousand positions takes microseconds. No order of threads enters: a slot belongs to one pair.
#include "codegen/halide/contraction/routed/RoutedPairs.h"

using namespace Halide;

namespace quern::codegen {

/// The positions along the pairs' dimensions of the pair in a slot; of the first pair where it is empty.
void RoutedPairs::setPair(Index &index, const Expr &slot) const {
  for (size_t i = 0; i < pairs.size(); ++i)
    index[pairs[i].name] = clamp(places.empty() ? pairAt(slot) : Expr(places[i](slot)), 0, b.extent(pairs[i].size) - 1);
}

/// Divisions once for each slot.
void RoutedPairs::placePairs() {
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
void RoutedPairs::sortPairs(int positions, const Dim &among, int chunk) {
  if (!b.isStage[positions] && b.graph.nodes[positions].op != Op::Argument)
    b.materialize(positions);
  b.routes = true;
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

  // Each expert that is routed to adds less than a chunk to what its pairs fill.
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

void RoutedPairs::findLeaders(int positions) {
  leader = b.newFunc("leader", node);
  Var number("chunk");
  Index index;
  setPair(index, number * (rows * rowBlock));
  leader(number) = clamp(b.at(positions, index), 0, experts - 1);
  leader.compute_root();
  slots = RDom(0, rows, 0, slotCount / rows);
}

PackedSums RoutedPairs::sumsOfBlock(const PlanPart &plan, bool several, const Expr &asked) const {
  ContractionPattern pattern = *this;
  auto known = [](const Var &var) { return Dim{var.name(), ir::Size::symbol(var.name())}; }; // by the loops around
  if (several)
    pattern.row = known(within);
  Expr slot = several ? block * rows + within : block * rows;
  auto setRow = [self = *this, slot](Index &index) {
    self.setPair(index, slot);
  }; // an empty slot computes what is not stored
  auto expert = [self = *this](const Expr &chunk) { return self.expertOf(chunk); };
  return {b, pattern, plan,
          RoutedRows{known(block), b.graph.nodes[pickOf(w)].names[0], block / rowBlock, expert, setRow, asked}};
}

Expr RoutedPairs::sumAt(const Func &sums, const Index &position, bool several, int columns) const {
  Expr at = position.at(column->name);
  std::vector<Expr> call = {at % columns};
  if (several)
    call.push_back(slots.x);
  call.push_back(slots.y);
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    call.push_back(position.at(dim->name));
  call.push_back(at / columns);
  return sums(call);
}

void RoutedPairs::scheduleTasks(Halide::Stage out, const TaskLoops &loops, const std::vector<Dim> &outside,
                                const Var &some, int columnsAtOnce) const {
  out.allow_race_conditions(); // a pair has one slot
  out.split(KernelBuilder::var(column->name), loops.outer, loops.inner, tile, TailStrategy::GuardWithIf);
  out.split(slots.y, loops.blockOuter, loops.blockInner, rowBlock, TailStrategy::GuardWithIf);
  std::vector<VarOrRVar> order = {loops.inner, slots.x};
  if (columnsAtOnce < tile) {
    out.split(loops.inner, some, loops.inner, columnsAtOnce);
    order.emplace_back(some);
  }
  order.emplace_back(loops.blockInner);
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    order.emplace_back(KernelBuilder::var(dim->name));
  order.emplace_back(loops.outer);
  order.emplace_back(loops.blockOuter);
  out.reorder(order).fuse(loops.outer, loops.blockOuter, loops.task).parallel(loops.task);
  out.vectorize(loops.inner, vectorOfTile()).unroll(loops.inner);
}

void RoutedPairs::writePairs(Stage &target, int value, const Expr &asked) {
  const Node &result = b.graph.nodes[value];
  if (!Internal::is_const_one(asked))
    slots.where(asked);
  slots.where(pairAt(slots.y * rows) >= 0);
  slots.where(pairAt(slots.y * rows + slots.x) >= 0);
  Index index = KernelBuilder::varsOf(result.dims);
  setPair(index, slots.y * rows + slots.x);
  target.func(KernelBuilder::call(result.dims, index)) = KernelBuilder::stored(b.at(value, index), result.storage);
}

} // namespace quern::codegen
