// Takes: a contraction of two values as they are stored in memory: weights that change with every step, and gradients. Gives:
// loops like those over packed weights, which pack what they are about to use. Why by parts of the depth: a strip of
// columns over a part of the depth stays in the second cache while a whole block of rows uses it, however deep the
// contraction is (a gradient sums over a vocabulary, or over all tokens); so packing costs little beside the products,
// and no packed copy of a matrix goes through memory.
//
//   x in groups of rows                                 once, where its rows are side by side; bf16 is widened on the way
//   for each tile of columns, block of rows (parallel)
//     totals[block x columns] = 0
//     for each part of the depth
//       strip[part x columns] = w                       likewise
//       copy[block x part] = x                          only of bf16 that is not in groups: the innermost loop reads f32
//       for each tile of rows
//         sums[rows x columns] = 0;  for k: sums += x[rows, k] * strip[k, columns]
//         totals += sums
//     result = epilogue(totals)
//
// A depth of few parts (a gradient's tokens) has no totals: each tile of sums becomes a tile of the result at
// once.
//
// Where both are bf16 and the target multiplies pairs of these (vdpbf16ps), copies are bf16, too, a pair of the depth beside
// each other: a step of a sum is two products. What is beyond an odd depth is 0 on both sides.
#include "codegen/halide/contraction/DenseContraction.h"

#include "codegen/halide/Math.h"
#include "codegen/halide/contraction/FewRows.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

/// The dimension whose parts follow each other, the longest, comes last.
static ContractionPattern longestLast(ContractionPattern p) {
  auto longest = p.reduced.begin() + (&longestDepth(p) - p.reduced.data());
  std::rotate(longest, longest + 1, p.reduced.end());
  return p;
}

static constexpr int inPair = 2;
static const Var pairVar("pair");

DenseContraction::DenseContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : Contraction(builder, longestLast(pattern), plan), plan(plan), unroll(plan["unroll"]), group(plan["group"]),
      partDepth(plan["depth"]), shallowParts(plan["shallow"]), amx(plan["amx"]), terms(termsOf(pieces(x), pieces(w))),
      narrow(prepareOperands(builder, pattern)),
      wholeParts(reduced.back().fixed() && *reduced.back().fixed() % partDepth == 0),
      pairs(!amx && multipliesBF16(b.target) && partDepth % inPair == 0 && hasStoredPairs(b.graph, *this)),
      turns(!amx && !pairs && tile % b.target.vector == 0 && b.graph.nodes[w].dims.back().name == reduced.back().name) {
  if (amx)
    rows = amx * tileRows;
  if (row->fixed()) // a block ends with the rows
    rowBlock = static_cast<int>(std::min<int64_t>(rowBlock, (*row->fixed() + rows - 1) / rows));
}

/// Tiles of rows that are read: as many as there are rows for, or, as sums over several dimensions are made for whole blocks,
/// as many as these have.
Expr DenseContraction::tilesOfRows() const {
  const int tiles = reduced.size() > 1 ? rowBlock : 1, block = rows * tiles;
  return (b.extent(row->size) + (block - 1)) / block * tiles;
}

/// What an operand has at a position of the depth. Copies are of whole steps of tiles, or of whole blocks that are turned: a depth
/// that ends within one ends there.
Expr DenseContraction::numberOf(int operand, const Index &index, const Expr &position) const {
  const int step = amx ? depthOfTile : turns ? b.target.vector : 1;
  const bool whole = wholeParts && *reduced.back().fixed() % step == 0;
  return orZero(index, position, whole, [&](const Index &at) {
    return operand == w ? loadWeight(w, amx ? slice * tileColumns + lane : Expr(lane), Var("tile"), at)
                        : b.real(operand, at);
  });
}

/// Pairs or numbers.
Expr DenseContraction::stepsOfDepth() const {
  Expr depth = b.extent(reduced.back().size);
  return pairs ? (depth + (inPair - 1)) / inPair : depth;
}

/// A loop over so much of the depth.
RDom DenseContraction::depthOf(const Expr &length, const std::string &name) const {
  if (amx)
    return RDom(Region{{0, wordsOf(length)}, {0, static_cast<int32_t>(terms.size())}}, name);
  return pairs ? RDom(Region{{0, inPair}, {0, (length + (inPair - 1)) / inPair}}, name) : RDom(0, length, name);
}

/// Columns over a part of the depth, one after the other for each step of it.
void DenseContraction::copyColumns(Products &out) {
  const Node &weight = b.graph.nodes[w];
  const Dim &depth = reduced.back();
  Var tileIndex("tile");
  out.strip = b.newFunc("strip", node);
  if (amx)
    return copyWordsOfColumns(out);
  if (turns) {
    Index at = KernelBuilder::varsOf(weight.dims);
    defineTurned(out.strip, out.turned = b.newFunc("words", node),
                 copyArgs({lane, KernelBuilder::var(depth.name), piece}, w, tileIndex),
                 reinterpret<uint32_t>(numberOf(w, at, at.at(depth.name))));
    return;
  }
  std::vector<Var> args = copyArgs({lane, KernelBuilder::var(depth.name)}, w, tileIndex);
  Index own = KernelBuilder::varsOf(weight.dims);
  if (!pairs) {
    out.strip(args) = loadWeight(w, lane, tileIndex, own);
    return;
  }
  args.insert(args.begin(), pairVar);
  out.strip(args) = bf16At(w, own, own.at(depth.name) * inPair + pairVar);
}

/// A number of a row, from where it is stored or from a copy; `step`: of the depth.
Expr DenseContraction::rowsAt(Products &out, const Expr &step, Index index) {
  const Node &input = b.graph.nodes[x];
  const Dim &depth = reduced.back();
  Var rowVar = KernelBuilder::var(row->name);
  if (groups.defined()) {
    // The last part ends with the depth (the loops' condition), which Halide does not see of parts of known lengths.
    Expr inDepth = wholeParts ? step : unsafe_promise_clamped(step, 0, stepsOfDepth() - 1);
    std::vector<Expr> call = copyCall({rowVar % rows, inDepth}, x, rowVar / rows, index);
    if (pairs)
      call.insert(call.begin(), out.pair);
    return groups(call);
  }
  index[depth.name] = pairs ? step * inPair + out.pair : step;
  // `likely` makes the loop over whole tiles of rows one of its own, whose rows are at fixed distances. Else each row
  // has an address of its own; these are computed in vectors, on the ports of the products (a tenth of a product's
  // time).
  index[row->name] = min(likely(rowVar), b.extent(row->size) - 1);
  if (!narrow && !pairs)
    return b.real(x, index);
  out.copy = b.newFunc("rows", node);
  Index own = KernelBuilder::varsOf(input.dims);
  out.copy(KernelBuilder::pureArgs(input.dims)) = pairs ? bf16At(x, own, own.at(depth.name)) : b.real(x, own);
  return out.copy(KernelBuilder::call(input.dims, index));
}

/// sums[rows x columns] over `k`; `step` is where one is in the depth.
DenseContraction::Products DenseContraction::productsOver(const RDom &k, const Expr &step, std::vector<Var> args,
                                                          const Index &index) {
  Products out;
  out.over = pairs ? k.y : k.x;
  out.pair = pairs ? k.x : RVar();
  out.term = amx ? k.y : RVar();
  copyColumns(out);
  out.sums = b.newFunc("sums", node);
  if (amx) {
    out.sums(args) = undef<float>();
    Expr column = out.strip(copyCall(stripCall(step, columnPiece(terms, out.term)), w, Var("tile"), index));
    out.sums(args) += tileProduct(wordOfRow(step, rowPiece(terms, out.term), index), column, rowsLeft());
    return out;
  }
  std::vector<Expr> first = {lane, step};
  if (pairs)
    first.insert(first.begin(), out.pair);
  if (turns)
    first.push_back(0);
  std::vector<Expr> call = copyCall(first, w, Var("tile"), index);
  Expr left = rowsAt(out, step, index);
  out.sums(args) = 0.0f;
  Expr right = turns ? reinterpret<float>(out.strip(call)) : out.strip(call);
  out.sums(args) += pairs ? cast<float>(right) * cast<float>(left) : left * right;
  return out;
}

void DenseContraction::accumulate() {
  const Node &input = b.graph.nodes[x];
  const Dim &depth = reduced.back();
  Var part("part"), group("group");
  if (amx) {
    if (!liesInTiles())
      copyTilesOfRows();
  } else if (input.dims.back().name == row->name) { // its rows are side by side
    groups = b.newFunc("groups", node);
    Index index = KernelBuilder::varsOf(input.dims);
    index[row->name] = min(group * rows + groupLane, b.extent(row->size) - 1);
    std::vector<Var> args = copyArgs({groupLane, KernelBuilder::var(depth.name)}, x, group);
    if (pairs)
      args.insert(args.begin(), pairVar);
    groups(args) = pairs ? bf16At(x, index, index.at(depth.name) * inPair + pairVar) : b.real(x, index);
  }

  std::vector<Dim> between(reduced.begin(),
                           reduced.end() - 1); // the other summed dimensions: a part is at one position of each
  std::vector<Var> args = tileArgs(), totalArgs = args;
  Index index = KernelBuilder::varsOf(others);

  // Sums over a depth that is short enough go from registers to the result, tile by tile: the memory takes them while
  // the next are computed.
  if (shallowParts && between.empty() && depth.fixed().value_or(0) <= shallowParts * partDepth) {
    RDom k = depthOf(b.extent(depth.size), "k");
    whole = productsOver(k, pairs ? k.y : k.x, args, index);
    if (depth.fixed())
      return;
    shallow = b.extent(depth.size) <= shallowParts * partDepth;
  }

  for (const Dim &dim : between)
    args.push_back(KernelBuilder::var(dim.name));
  args.push_back(part);
  RDom k = depthOf(partDepth, "k");
  Expr step = pairs ? part * (partDepth / inPair) + k.y : part * (amx ? partDepth / inPair : partDepth) + k.x;
  if (!wholeParts && !amx)
    k.where((pairs ? step * inPair : step) < b.extent(depth.size));
  for (const Dim &dim : between)
    index[dim.name] = KernelBuilder::var(dim.name);
  products = productsOver(k, step, args, index);

  Region region;
  region.push_back({0, (b.extent(depth.size) + (partDepth - 1)) / partDepth});
  for (const Dim &dim : between)
    region.push_back({0, b.extent(dim.size)});
  parts = RDom(region, "parts");
  std::vector<Expr> call(totalArgs.begin(), totalArgs.end());
  for (size_t i = 0; i < between.size(); ++i)
    call.push_back(parts[static_cast<int>(i) + 1]);
  call.push_back(parts[0]);
  totals = b.newFunc("totals", node);
  totals(totalArgs) = 0.0f;
  totals(totalArgs) += products.sums(call);
}

/// The sum at a place of a tile, where there are rows enough for tiles.
Expr DenseContraction::sumAt(const std::vector<Expr> &call) const {
  if (!totals.defined())
    return whole.sums(call);
  return shallow.defined() ? select(shallow, whole.sums(call), totals(call)) : Expr(totals(call));
}

void DenseContraction::scheduleStrip(Products &out, const LoopLevel &copies) {
  if (amx)
    return scheduleTilesOfColumns(out, copies);
  if (turns)
    return scheduleWords(out.strip, out.turned, copies, group, 1, b.target.vector);
  Var depth = KernelBuilder::var(reduced.back().name);
  const int vector = vectorOfTile();
  out.strip.compute_at(copies).bound_extent(lane, tile).bound_extent(Var("tile"), group);
  if (b.graph.nodes[w].dims.back().name == reduced.back().name) // lines of memory run along the depth
    out.strip.reorder(depth, lane);
  else
    out.strip.reorder(lane, Var("tile"), depth);
  if (pairs)
    out.strip.bound_extent(pairVar, inPair).reorder(pairVar, lane).unroll(pairVar);
  out.strip.vectorize(lane, vector);
}

/// The innermost loops: sums within the loop over `tiles` of rows; columns are packed at `copies`.
void DenseContraction::scheduleProducts(Products &out, const LoopLevel &tiles, const LoopLevel &copies) {
  scheduleStrip(out, copies);
  if (amx)
    return scheduleTiledProducts(out, tiles);
  b.fetchNext({out.strip.name(), KernelBuilder::var(reduced.back().name).name(), pairs ? inPair : 1, tile,
               &out == &products ? ".tile" : ".ct"},
              w);
  Var m = KernelBuilder::var(row->name);
  int vector = vectorOfTile();
  out.sums.compute_at(tiles).bound_extent(lane, tile).bound_extent(m, rows).bound_extent(Var("tile"), 1);
  out.sums.vectorize(lane, vector).unroll(lane).unroll(m);
  std::vector<VarOrRVar> steps = {lane, m, out.over};
  if (pairs)
    steps.insert(steps.begin(), out.pair);
  out.sums.update().reorder(steps);
  if (pairs)
    out.sums.update().atomic().vectorize(out.pair);
  out.sums.update().vectorize(lane, vector).unroll(lane).unroll(m);
  if (int times = pairs ? unroll / inPair : unroll; times > 1)
    out.sums.update().unroll(out.over, times);
  for (const Func &copy : {out.strip, groups})
    if (copy.defined() && !pairs)
      b.fetchAhead(out.sums, copy, aheadInTiles(b.target));
  if (out.copy.defined())
    out.copy.compute_at(copies).vectorize(KernelBuilder::var(b.graph.nodes[x].dims.back().name), vector,
                                          TailStrategy::GuardWithIf);
}

void DenseContraction::schedule(Stage &target) {
  Func out = target.func;
  int vector = vectorOfTile();
  Var o = KernelBuilder::var(column->name), m = KernelBuilder::var(row->name), outer("co"), inner("ci"), block("rb"),
      within("ri"), tiles("rt"), side("ct"), parallel("task");
  std::vector<VarOrRVar> around;
  std::vector<Dim> outside = aroundOf(target.dims);
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    around.push_back(KernelBuilder::var(dim->name));
  for (size_t i = 0; i < around.size(); ++i)
    parallel = Var(parallel.name() + "_");

  auto loops = [&](auto stage, bool direct) {
    stage.split(o, outer, inner, tile, TailStrategy::GuardWithIf);
    stage.split(outer, outer, side, group, TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {inner, within, side};
    if (direct) { // tiles before blocks: sums are computed tile by tile, and the last block has fewer
      stage.split(m, block, within, rows, TailStrategy::GuardWithIf);
      stage.split(block, block, tiles, rowBlock, TailStrategy::GuardWithIf);
      order.insert(order.begin() + 2, tiles);
    } else {
      stage.split(m, block, within, rows * rowBlock, TailStrategy::GuardWithIf);
    }
    order.insert(order.end(), around.begin(), around.end());
    order.push_back(block);
    order.push_back(outer);
    Var task("task");
    stage.reorder(order).fuse(block, outer, task);
    for (const VarOrRVar &v : around) {
      Var next(task.name() + "_");
      stage.fuse(v, task, next);
      task = next;
    }
    stage.parallel(parallel).vectorize(inner, vector).unroll(inner);
    if (direct && !amx) // sums that are no registers' are read in a loop
      stage.unroll(within);
    // A loop of its own for the last tile would end as the others' does, and LLVM would join their tiles.
    if (amx)
      stage.never_partition(direct ? std::vector<VarOrRVar>{tiles, side, parallel}
                                   : std::vector<VarOrRVar>{side, parallel});
  };
  if (shallow.defined())
    loops(out.specialize(shallow), true);
  loops(out, !totals.defined());
  if (whole.sums.defined())
    scheduleProducts(whole, LoopLevel(out, tiles), LoopLevel(out, parallel));
  if (totals.defined()) {
    LoopLevel ofSums = scheduleTotals(totals, parts, LoopLevel(out, parallel), group);
    if (amx)
      totals.update().never_partition({tiles, Var("tile"), parts[0]});
    scheduleProducts(products, ofSums, LoopLevel(totals, parts[0]));
  }
  if (groups.defined() && amx) {
    scheduleTilesOfRows();
  } else if (groups.defined()) {
    Var depth = KernelBuilder::var(reduced.back().name);
    // The last part ends with the depth: nothing beyond is copied.
    groups.bound(depth, 0, stepsOfDepth()).bound(Var("group"), 0, tilesOfRows());
    scheduleGroups(groups, depth, plan["beside"]);
    if (pairs)
      groups.bound(pairVar, 0, inPair).reorder(pairVar, groupLane).unroll(pairVar);
  }
  target.scheduled = true;
}

void DenseContraction::define() {
  accumulate();
  Func direct;
  Expr isFew;
  if (plan["few"]) {
    FewRows few(b, *this, plan);
    direct = few.define();
    isFew = few.isFew();
  }
  write(
      [self = *this, direct, isFew](const Index &position) {
        Expr sum = self.sumAt(self.tileCall(position));
        // Halide computes only the one of the two that the number of rows asks for.
        return isFew.defined()
                   ? math::choose(isFew, direct(KernelBuilder::call(self.b.graph.nodes[self.node].dims, position)), sum)
                   : sum;
      },
      [self = *this](Stage &out) mutable { self.schedule(out); });
}

} // namespace quern::codegen
