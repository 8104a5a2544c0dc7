// Takes: the gradient of weights that each row is routed to (experts): for each expert the sum of the outer products
// of the pairs routed to it. Gives: a matrix product for each expert, over its pairs alone; zeros where there are
// none. Why as a contraction: the outer product of a row is as large as a matrix, so adding it up in memory, row after
// row, would read and write the matrix for each. No order of threads enters: a sum is made by one task, in the order of
// the pairs.
//
//   first, order: pairs sorted by expert (RoutedPairs.cpp)
//   strip, groups = w in tiles of columns, x in groups of rows, both sorted
//   for each expert, group of tiles of columns, block of rows (parallel)    what a task writes is contiguous
//     for each tile of rows, tile of columns
//       sums[rows x columns] = 0;  for k in the slots of the expert: sums += groups[k, rows] * strip[k, columns]
//       result[expert, tile] = epilogue(sums)
#include "codegen/halide/contraction/routed/ExpertGradient.h"

#include "codegen/halide/words/Pieces.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

/// A factor as the innermost loop reads it: `lane` of `own` (rows or columns) side by side, then the slots, sorted by
/// expert.
Func ExpertGradient::sorted(const std::string &name, int factor, const Var &lane, const Var &tileIndex, const Dim &own,
                            const std::function<Expr(const Index &)> &value) {
  Index index;
  Var slot("slot");
  std::vector<Var> args = {lane, slot};
  for (const Dim &dim : sortedDims(factor, own)) {
    args.push_back(KernelBuilder::var(dim.name));
    index[dim.name] = KernelBuilder::var(dim.name);
  }
  args.push_back(tileIndex);
  setPair(index, slot);
  Func copy = b.newFunc(name, node);
  copy(args) = value(index);
  return copy;
}

/// A factor's dimensions but `own` and the pairs, innermost first.
std::vector<Dim> ExpertGradient::sortedDims(int factor, const Dim &own) const {
  std::vector<Dim> dims;
  for (auto dim = b.graph.nodes[factor].dims.rbegin(); dim != b.graph.nodes[factor].dims.rend(); ++dim)
    if (dim->name != own.name &&
        std::none_of(pairs.begin(), pairs.end(), [&](const Dim &pair) { return pair.name == dim->name; }))
      dims.push_back(*dim);
  return dims;
}

// ---- by AMX's registers of 16 rows and 16 columns, both factors in bf16, as loops that TileProducts.cpp replaces. A word is two
// pairs of an expert beside each other; each expert's pairs begin with a whole step of 32 slots, of which those that have no pair
// are 0.
//
//   tiles[16 words][16 rows][slots / 32][rows / 16] = x         turned in blocks of 16 x 16 words
//   strip[columns][16 words][slots / 32][tiles of columns] = w
//   for each expert ...: sums[rows x columns] = products over the expert's steps alone

static const Var word("word"), ofTile("ofTile"), step("step"), tileIndex("tile"), tileOfRows("group");

/// A factor in words along the slots, sorted by expert; `args`: of a tile and the step. `across`: what is turned on the way.
Func ExpertGradient::sortedWords(const std::string &name, int factor, std::vector<Var> args, const Var &tileIndex,
                                 const Dim &own, Func *across, const std::function<Expr(const Index &)> &value) {
  Index index;
  for (const Dim &dim : sortedDims(factor, own)) {
    args.push_back(KernelBuilder::var(dim.name));
    index[dim.name] = KernelBuilder::var(dim.name);
  }
  args.push_back(tileIndex);
  auto half = [&](int which) {
    Expr slot = step * depthOfTile + word * 2 + which;
    setPair(index, slot);
    return select(pairAt(slot) >= 0, value(index), 0.0f);
  };
  Func copy = b.newFunc(name, node);
  if (across)
    defineTurned(copy, *across = b.newFunc("words", node), args, wordOf(half(0), half(1), 0));
  else
    copy(args) = wordOf(half(0), half(1), 0);
  return copy;
}

void ExpertGradient::accumulateTiles() {
  const Node &s = b.graph.nodes[node];
  sortPairs(s.operands[1], s.into[0], depthOfTile);
  Var m = KernelBuilder::var(row->name);
  Expr expert = KernelBuilder::var(s.into[0].name), steps = slotCount / depthOfTile;
  strip = sortedWords("strip", w, {lane, word, step}, tileIndex, *column, nullptr,
                      [&](const Index &index) { return loadWeight(w, lane, tileIndex, index); });
  const bool across = b.graph.nodes[x].dims.back().name == row->name;
  groups =
      sortedWords("tiles", x, {word, ofTile, step}, tileOfRows, *row, across ? &turned : nullptr, [&](Index index) {
        index[row->name] = min(likely(tileOfRows * tileRows + ofTile), b.extent(row->size) - 1);
        return b.real(x, index);
      });

  RDom k(0, steps * wordsOfTile, "k");
  Expr own = (order(expert) - first(expert) + (depthOfTile - 1)) / depthOfTile;
  Expr at = unsafe_promise_clamped(first(expert) / depthOfTile + k.x / wordsOfTile, 0, steps - 1);
  std::vector<Expr> ofRow = {k.x % wordsOfTile, m % tileRows, at}, ofColumn = {lane, k.x % wordsOfTile, at};
  for (const Dim &dim : sortedDims(x, *row))
    ofRow.emplace_back(KernelBuilder::var(dim.name));
  for (const Dim &dim : sortedDims(w, *column))
    ofColumn.emplace_back(KernelBuilder::var(dim.name));
  ofRow.push_back(m / tileRows);
  ofColumn.emplace_back(tileIndex);
  sums = b.newFunc("sums", node);
  sums(tileArgs()) = undef<float>();
  sums(tileArgs()) += tileProduct(groups(ofRow), strip(ofColumn), rows, 0, own); // copies have whole tiles
  over.push_back(k.x);
}

/// Plain loops, in memory of known size.
void ExpertGradient::scheduleTiles(const LoopLevel &level) {
  Var m = KernelBuilder::var(row->name);
  Expr steps = slotCount / depthOfTile;
  strip.compute_root().bound(lane, 0, tile).bound(word, 0, wordsOfTile).bound(step, 0, steps);
  strip.vectorize(lane, tileColumns).parallel(tileIndex);
  groups.compute_root().bound(word, 0, wordsOfTile).bound(ofTile, 0, tileRows).bound(step, 0, steps);
  groups.parallel(tileOfRows);
  if (turned.defined()) {
    turned.compute_at(groups, step).bound_extent(word, wordsOfTile).bound_extent(ofTile, tileRows).vectorize(ofTile);
    b.turnedWords.push_back({groups, word.name(), ofTile.name()});
  }
  sums.compute_at(level).bound_extent(lane, tile).bound_extent(m, rows).bound_extent(tileIndex, 1);
  sums.update().reorder({over.back(), lane, m});
  b.tileSums.push_back({sums, lane.name(), m.name(), "", over.back().name()});
}

// ---- by either

void ExpertGradient::accumulate() {
  if (amx)
    return accumulateTiles();
  const Node &s = b.graph.nodes[node];
  sortPairs(s.operands[1], s.into[0], 1);
  Var tileIndex("tile"), group("group"), rowVar = KernelBuilder::var(row->name);
  strip = sorted("strip", w, lane, tileIndex, *column,
                 [&](const Index &index) { return loadWeight(w, lane, tileIndex, index); });
  groups = sorted("groups", x, groupLane, group, *row, [&](Index index) {
    index[row->name] = min(likely(group * rows + groupLane), b.extent(row->size) - 1);
    return b.real(x, index);
  });
  strip.compute_root().bound(lane, 0, tile).vectorize(lane, vectorOfTile()).parallel(tileIndex);
  scheduleGroups(groups, Var("slot"), beside);

  std::vector<Var> args = tileArgs();
  Region region = reducedRegion();
  region.push_back({0, slotCount});
  RDom k(region);
  RVar step = k[static_cast<int>(reduced.size())];
  Expr expert = KernelBuilder::var(s.into[0].name);
  k.where(step < order(expert) - first(expert)); // behind the last of an expert stands the first of the next
  Expr at = clamp(first(expert) + step, 0, slotCount - 1);
  Index index = KernelBuilder::varsOf(others);
  setReduced(index, k);
  auto call = [&](const Expr &lane, int factor, const Dim &own, const Expr &tileIndex) {
    std::vector<Expr> call = {lane, at};
    for (const Dim &dim : sortedDims(factor, own))
      call.push_back(index.at(dim.name));
    call.push_back(tileIndex);
    return call;
  };
  sums = b.newFunc("sums", node);
  sums(args) = 0.0f;
  sums(args) += groups(call(rowVar % rows, x, *row, rowVar / rows)) * strip(call(lane, w, *column, tileIndex));
  for (size_t i = 0; i <= reduced.size(); ++i)
    over.push_back(k[static_cast<int>(i)]);
}

void ExpertGradient::schedule(Stage &target) {
  Func out = target.func;
  int vector = vectorOfTile();
  Var o = KernelBuilder::var(column->name), m = KernelBuilder::var(row->name), outer("co"), side("ct"), inner("ci"),
      block("rb"), within("ri"), tiles("rt"), tileRow("tr"), task("task");
  out.split(o, outer, inner, tile, TailStrategy::GuardWithIf)
      .split(outer, outer, side, group, TailStrategy::GuardWithIf);
  out.split(m, block, within, rows * rowBlock, TailStrategy::GuardWithIf)
      .split(within, tiles, tileRow, rows, TailStrategy::GuardWithIf);
  std::vector<VarOrRVar> loops = {inner, tileRow, side, tiles, block, outer};
  std::vector<Dim> outside = aroundOf(target.dims);
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    loops.push_back(KernelBuilder::var(dim->name));
  out.reorder(loops).fuse(block, outer, task);
  Var parallel = task;
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim) {
    Var next(parallel.name() + "_");
    out.fuse(parallel, KernelBuilder::var(dim->name), next);
    parallel = next;
  }
  out.parallel(parallel).vectorize(inner, vector).unroll(inner);
  target.scheduled = true;
  if (amx) { // a loop of its own for the last tile would end as the others' does, and LLVM would join their tiles
    out.never_partition({side, tiles, parallel});
    return scheduleTiles(LoopLevel(out, side));
  }
  out.unroll(tileRow);

  // Known extents keep the sums in registers.
  sums.compute_at(out, side).bound_extent(lane, tile).bound_extent(m, rows).bound_extent(Var("tile"), 1);
  sums.vectorize(lane, vector).unroll(lane).unroll(m);
  std::vector<VarOrRVar> steps = {lane, m};
  steps.insert(steps.end(), over.begin(), over.end());
  sums.update().reorder(steps).vectorize(lane, vector).unroll(lane).unroll(m);
  unrollParts(sums, outside);
}

ExpertGradient::ExpertGradient(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : RoutedPairs(builder, std::move(pattern), plan), group(plan["group"]), beside(plan["beside"]), amx(plan["amx"]) {
  if (amx)
    rows = amx * tileRows;
}

void ExpertGradient::define() {
  prepareOperands(b, *this);
  accumulate();
  write([self = *this](const Index &position) { return Expr(self.sums(self.tileCall(position))); },
        [self = *this](Stage &out) mutable { self.schedule(out); });
}

} // namespace quern::codegen
