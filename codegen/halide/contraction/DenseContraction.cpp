// Takes: a contraction of two values as they lie in memory: weights that change with every step, and gradients. Gives:
// loops like those over packed weights, which pack what they are about to use. Why by parts of the depth: a strip of
// columns over a part of the depth stays in the second cache while a whole block of rows uses it, however deep the
// contraction is (a gradient sums over a vocabulary, or over all tokens); so packing costs little beside the products,
// and no packed copy of a matrix goes through memory.
//
//   x in groups of rows                                 once, where its rows lie side by side; bf16 is widened on the way
//   for each tile of columns, block of rows (parallel)
//     totals[block x columns] = 0
//     for each part of the depth
//       strip[part x columns] = w                       likewise
//       wide[block x part] = x                          only of bf16 that is not in groups: the innermost loop reads f32
//       for each tile of rows
//         sums[rows x columns] = 0;  for k: sums += x[rows, k] * strip[k, columns]
//         totals += sums
//     result = epilogue(totals)
//
// A depth of few parts (a gradient's tokens) has no totals: each tile of sums becomes a tile of the result at
// once.
#include "codegen/halide/contraction/DenseContraction.h"

#include "codegen/halide/Math.h"
#include "codegen/halide/contraction/FewRows.h"

#include <algorithm>
#include <functional>

using namespace Halide;

namespace quern::codegen {

/// The dimension whose parts follow each other, the longest, comes last.
static ContractionPattern longestLast(ContractionPattern p) {
  auto length = [](const Dim &dim) { return dim.fixed().value_or(int64_t(1) << 40); };
  auto longest = p.reduced.begin();
  for (auto dim = p.reduced.begin(); dim != p.reduced.end(); ++dim)
    if (length(*dim) >= length(*longest))
      longest = dim;
  std::rotate(longest, longest + 1, p.reduced.end());
  return p;
}

DenseContraction::DenseContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : Contraction(builder, longestLast(pattern), plan), plan(plan), unroll(plan["unroll"]), group(plan["group"]),
      partDepth(plan["depth"]), shallowParts(plan["shallow"]), narrow(prepareOperands(builder, pattern)),
      wholeParts(reduced.back().fixed() && *reduced.back().fixed() % partDepth == 0) {}

/// Names of a copy's loops: the depth, then all of an operand's dimensions but `own` and the depth.
static std::vector<Var> copyArgs(const Var &first, const Node &operand, const Dim &own, const Dim &depth,
                                 const Var &last, const std::function<Var(const std::string &)> &var) {
  std::vector<Var> args = {first, var(depth.name)};
  for (auto dim = operand.dims.rbegin(); dim != operand.dims.rend(); ++dim)
    if (dim->name != own.name && dim->name != depth.name)
      args.push_back(var(dim->name));
  args.push_back(last);
  return args;
}

static std::vector<Expr> copyCall(const Expr &first, const Node &operand, const Dim &own, const Dim &depth,
                                  const Expr &last, const Index &index) {
  std::vector<Expr> call = {first, index.at(depth.name)};
  for (auto dim = operand.dims.rbegin(); dim != operand.dims.rend(); ++dim)
    if (dim->name != own.name && dim->name != depth.name)
      call.push_back(index.at(dim->name));
  call.push_back(last);
  return call;
}

/// sums[rows x columns] over `k`; `position` is where a step is in the depth.
DenseContraction::Products DenseContraction::productsOver(const RDom &k, const Expr &position, std::vector<Var> args,
                                                          Index index) {
  const Node &input = b.graph.nodes[x], &weight = b.graph.nodes[w];
  const Dim &depth = reduced.back();
  Var tileIndex("tile"), rowVar = KernelBuilder::var(row->name);
  Products out;
  out.strip = b.newFunc("strip", node);
  out.strip(copyArgs(lane, weight, *column, depth, tileIndex, KernelBuilder::var)) =
      loadWeight(w, lane, tileIndex, KernelBuilder::varsOf(weight.dims));
  out.over = k.x;
  index[depth.name] = position;
  // `likely` makes the loop over whole tiles of rows one of its own, whose rows lie at fixed distances. Else each row
  // has an address of its own; these are computed in vectors, on the ports of the products (a tenth of a product's
  // time).
  index[row->name] = min(likely(rowVar), b.extent(row->size) - 1);
  Expr left;
  if (groups.defined()) {
    left = groups(copyCall(rowVar % rows, input, *row, depth, rowVar / rows, index));
  } else if (narrow) {
    out.wide = b.newFunc("wide", node);
    out.wide(KernelBuilder::pureArgs(input.dims)) = b.real(x, KernelBuilder::varsOf(input.dims));
    left = out.wide(KernelBuilder::call(input.dims, index));
  } else {
    left = b.real(x, index);
  }
  out.sums = b.newFunc("sums", node);
  out.sums(args) = 0.0f;
  out.sums(args) += left * out.strip(copyCall(lane, weight, *column, depth, tileIndex, index));
  return out;
}

void DenseContraction::accumulate() {
  const Node &input = b.graph.nodes[x];
  const Dim &depth = reduced.back();
  Var part("part"), group("group");
  if (input.dims.back().name == row->name) { // its rows lie side by side
    groups = b.newFunc("groups", node);
    Index index = KernelBuilder::varsOf(input.dims);
    index[row->name] = min(group * rows + groupLane, b.extent(row->size) - 1);
    groups(copyArgs(groupLane, input, *row, depth, group, KernelBuilder::var)) = b.real(x, index);
  }

  std::vector<Dim> between(reduced.begin(),
                           reduced.end() - 1); // the other summed dimensions: a part is at one position of each
  std::vector<Var> args = tileArgs(), totalArgs = args;
  Index index = KernelBuilder::varsOf(others);

  // Sums over a depth that is short enough go from registers to the result, tile by tile: the memory takes them while
  // the next are computed.
  if (shallowParts && between.empty() && depth.fixed().value_or(0) <= shallowParts * partDepth) {
    RDom k(0, b.extent(depth.size), "k");
    whole = productsOver(k, k.x, args, index);
    if (depth.fixed())
      return;
    shallow = b.extent(depth.size) <= shallowParts * partDepth;
  }

  for (const Dim &dim : between)
    args.push_back(KernelBuilder::var(dim.name));
  args.push_back(part);
  RDom k(0, partDepth, "k");
  Expr position = part * partDepth + k.x;
  if (!wholeParts)
    k.where(position < b.extent(depth.size));
  for (const Dim &dim : between)
    index[dim.name] = KernelBuilder::var(dim.name);
  products = productsOver(k, position, args, index);

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

/// The innermost loops: sums within the loop over `tiles` of rows; columns are packed at `copies`.
void DenseContraction::scheduleProducts(Products &out, const LoopLevel &tiles, const LoopLevel &copies) {
  Var m = KernelBuilder::var(row->name), depth = KernelBuilder::var(reduced.back().name);
  int vector = vectorOfTile();
  out.sums.compute_at(tiles).bound_extent(lane, tile).bound_extent(m, rows).bound_extent(Var("tile"), 1);
  out.sums.vectorize(lane, vector).unroll(lane).unroll(m);
  std::vector<VarOrRVar> steps = {lane, m, out.over};
  out.sums.update().reorder(steps).vectorize(lane, vector).unroll(lane).unroll(m);
  if (unroll > 1)
    out.sums.update().unroll(out.over, unroll);
  out.strip.compute_at(copies).bound_extent(lane, tile).bound_extent(Var("tile"), group).vectorize(lane, vector);
  if (b.graph.nodes[w].dims.back().name == reduced.back().name) // lines of memory run along the depth
    out.strip.reorder(depth, lane);
  else
    out.strip.reorder(lane, Var("tile"), depth);
  if (out.wide.defined())
    out.wide.compute_at(copies).vectorize(KernelBuilder::var(b.graph.nodes[x].dims.back().name), vector,
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
    if (direct)
      stage.unroll(within);
  };
  if (shallow.defined())
    loops(out.specialize(shallow), true);
  loops(out, !totals.defined());
  if (whole.sums.defined())
    scheduleProducts(whole, LoopLevel(out, tiles), LoopLevel(out, parallel));
  if (totals.defined()) {
    totals.compute_at(out, parallel)
        .bound_extent(lane, tile)
        .bound_extent(Var("tile"), group)
        .vectorize(lane, vector)
        .unroll(lane);
    std::vector<VarOrRVar> order = {lane, within, tiles, Var("tile")};
    for (const Dim &dim : others)
      order.push_back(KernelBuilder::var(dim.name));
    for (int i = 0; i < parts.dimensions(); ++i)
      order.push_back(parts[i]);
    totals.update().split(m, tiles, within, rows, TailStrategy::GuardWithIf).reorder(order);
    totals.update().vectorize(lane, vector).unroll(lane).unroll(within);
    scheduleProducts(products, LoopLevel(totals, tiles), LoopLevel(totals, parts[0]));
  }
  if (groups.defined()) {
    Var depth = KernelBuilder::var(reduced.back().name);
    // The last part, and the last block of rows, end with them: nothing beyond is copied.
    groups.bound(depth, 0, b.extent(reduced.back().size))
        .bound(Var("group"), 0, (b.extent(row->size) + (rows - 1)) / rows);
    scheduleGroups(groups, depth, plan["beside"]);
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
