// Takes: a contraction in a kernel. Gives: accumulators for a tile of rows x columns that stay in registers, and loops
// around them.
// Why packed: the innermost loop then reads whole vectors of columns one after the other, whatever the weight's shape.
//
//   for each tile of columns, block of rows (parallel)    tiles of rows within the block share the columns in L2
//     for each tile of rows
//       sums[rows x columns] = 0
//       for k: sums += x[rows, k] * w[k, columns]         rows beyond the last repeat it, and are not stored
//       result[tile] = epilogue(sums)
#include "codegen/halide/contraction/PackedContraction.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

PackedContraction::PackedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : Contraction(builder, std::move(pattern), plan), unroll(plan["unroll"]), fewTiles(plan["tiles"]) {}

void PackedContraction::accumulate() {
  sums = b.newFunc("sums", node);
  Var tileIndex("tile");
  std::vector<Var> args = tileArgs();
  RDom k(reducedRegion());
  Index index = KernelBuilder::varsOf(others);
  if (row)
    index[row->name] = min(KernelBuilder::var(row->name), b.extent(row->size) - 1);
  setReduced(index, k);
  for (int i = 0; i < k.dimensions(); ++i)
    over.push_back(k[i]);
  sums(args) = 0.0f;
  sums(args) += b.real(x, index) * loadWeight(w, lane, tileIndex, index);
}

void PackedContraction::schedule(Stage &target) {
  Func out = target.func;
  int vector = vectorOfTile();
  Var o = KernelBuilder::var(column->name), outer("co"), inner("ci"), task("task");
  std::vector<VarOrRVar> order = {inner};
  std::vector<VarOrRVar> around;
  out.split(o, outer, inner, tile, TailStrategy::GuardWithIf);
  LoopLevel level(out, outer);
  bool few = column->fixed() && *column->fixed() / tile < fewTiles;
  Var blockOuter("rb"), blockInner("rt"), within("ri");
  if (row) {
    Var m = KernelBuilder::var(row->name), tiles("rows");
    out.split(m, tiles, within, rows, TailStrategy::GuardWithIf);
    out.split(tiles, blockOuter, blockInner, rowBlock, TailStrategy::GuardWithIf);
    order.push_back(within);
    order.push_back(blockInner);
    level = LoopLevel(out, blockInner);
  }
  std::vector<Dim> outside = aroundOf(target.dims);
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    around.push_back(KernelBuilder::var(dim->name));
  if (!row && !around.empty())
    level = LoopLevel(out, Var(around[0].name()));
  order.insert(order.end(), around.begin(), around.end());
  if (row)
    order.push_back(blockOuter);
  order.push_back(outer);
  out.reorder(order);
  Var parallel = outer;
  if (row) {
    out.fuse(blockOuter, outer, task);
    parallel = task;
  }
  if (few && row) // too few tasks along rows and columns alone
    for (const VarOrRVar &v : around) {
      Var next(parallel.name() + "_");
      out.fuse(v, parallel, next);
      parallel = next;
    }
  out.parallel(parallel);
  out.vectorize(inner, vector).unroll(inner);
  if (row)
    out.unroll(within);

  // Known extents keep the sums on the stack.
  sums.compute_at(level).bound_extent(lane, tile).bound_extent(Var("tile"), 1).vectorize(lane, vector).unroll(lane);
  std::vector<VarOrRVar> loops = {lane};
  if (row) {
    Var m = KernelBuilder::var(row->name);
    sums.bound_extent(m, rows).unroll(m);
    loops.push_back(m);
  }
  loops.insert(loops.end(), over.begin(), over.end());
  sums.update().reorder(loops).vectorize(lane, vector).unroll(lane);
  if (row)
    sums.update().unroll(KernelBuilder::var(row->name));
  if (unroll > 1)
    sums.update().unroll(over[0], unroll);
  unrollParts(sums, outside);
  target.scheduled = true;
}

void PackedContraction::define() {
  prepareOperands(b, *this);
  accumulate();
  write([self = *this](const Index &position) { return Expr(self.sums(self.tileCall(position))); },
        [self = *this](Stage &out) mutable { self.schedule(out); });
}

} // namespace quern::codegen
