// Takes: a contraction in a kernel. Gives: accumulators for a tile of rows x columns that stay in registers, and loops
// around them.
// Why packed: the innermost loop then reads whole vectors of columns one after the other, whatever the weight's shape.
//
//   for each tile of columns, block of rows (parallel)    tiles of rows within the block share the columns in L2
//     for each tile of rows
//       sums[rows x columns] = 0
//       for k: sums += x[rows, k] * w[k, columns]         rows beyond the last repeat it, and are not stored
//       result[tile] = epilogue(sums)
//
// Why another way for a row or two (a step): they are there when the weight has come from memory, and products of rows
// that are not there would only delay what is read next.
//
//   for some tiles of columns (parallel)
//     for each row
//       sums[columns] = 0;  for k: sums += x[row, k] * w[k, columns]
//       result[tiles] = epilogue(sums)
#include "codegen/halide/contraction/PackedContraction.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

PackedContraction::PackedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : Contraction(builder, std::move(pattern), plan), unroll(plan["unroll"]), fewTiles(plan["tiles"]),
      side(plan["side"]) {
  if (!row || row->fixed()) // known now: a case that never runs is not built
    isAlone = !row || *row->fixed() <= plan["alone"] ? Internal::const_true() : Internal::const_false();
  else
    isAlone = plan["alone"] ? b.extent(row->size) <= plan["alone"] : Internal::const_false();
}

PackedContraction::Sums PackedContraction::sumsOf(const std::string &name, const Expr &at) {
  Sums sums{b.newFunc(name, node), {}};
  std::vector<Var> args = tileArgs();
  RDom k(reducedRegion());
  Index index = KernelBuilder::varsOf(others);
  if (row)
    index[row->name] = at;
  setReduced(index, k);
  for (int i = 0; i < k.dimensions(); ++i)
    sums.over.push_back(k[i]);
  sums.func(args) = 0.0f;
  sums.func(args) += b.real(x, index) * loadWeight(w, lane, Var("tile"), index);
  return sums;
}

/// `single`: each row by itself.
template <typename Loops>
void PackedContraction::scheduleLoops(Loops out, const std::vector<Dim> &outside, bool single) {
  Var o = KernelBuilder::var(column->name), outer("co"), inner("ci"), beside("ct"), blockOuter("rb"), blockInner("rt"),
      within("ri");
  std::vector<VarOrRVar> order = {inner}, around;
  out.split(o, outer, inner, tile, TailStrategy::GuardWithIf);
  if (single) {
    out.split(outer, outer, beside, side, TailStrategy::GuardWithIf);
    order.push_back(beside);
    if (row)
      order.push_back(KernelBuilder::var(row->name));
  } else {
    Var tiles("rows");
    out.split(KernelBuilder::var(row->name), tiles, within, rows, TailStrategy::GuardWithIf);
    out.split(tiles, blockOuter, blockInner, rowBlock, TailStrategy::GuardWithIf);
    order.insert(order.end(), {within, blockInner});
  }
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    around.push_back(KernelBuilder::var(dim->name));
  order.insert(order.end(), around.begin(), around.end());
  if (!single)
    order.push_back(blockOuter);
  order.push_back(outer);
  out.reorder(order);
  Var task = outer;
  if (!single) {
    task = Var("task");
    out.fuse(blockOuter, outer, task);
  }
  bool few = column->fixed() && *column->fixed() / tile < fewTiles;
  if (few && row) // too few tasks along rows and columns alone
    for (const VarOrRVar &v : around) {
      Var next(task.name() + "_");
      out.fuse(v, task, next);
      task = next;
    }
  out.parallel(task).vectorize(inner, vectorOfTile()).unroll(inner).unroll(single ? beside : within);
}

void PackedContraction::scheduleSums(Sums &sums, const LoopLevel &level, const std::vector<Dim> &outside,
                                     int rowsAtOnce, int tilesAtOnce) {
  Var beside("tile");
  std::vector<VarOrRVar> loops = {lane, beside};
  // Known extents keep the sums on the stack.
  sums.func.compute_at(level).bound_extent(lane, tile).bound_extent(beside, tilesAtOnce);
  sums.func.vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  if (row) {
    Var m = KernelBuilder::var(row->name);
    sums.func.bound_extent(m, rowsAtOnce).unroll(m);
    loops.push_back(m);
  }
  loops.insert(loops.end(), sums.over.begin(), sums.over.end());
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim) // outside: sums of one part at a time stay in registers
    loops.push_back(KernelBuilder::var(dim->name));
  sums.func.update().reorder(loops).vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  if (row)
    sums.func.update().unroll(KernelBuilder::var(row->name));
  if (unroll > 1)
    sums.func.update().unroll(sums.over[0], unroll);
  unrollParts(sums.func, outside);
}

void PackedContraction::schedule(Stage &target) {
  Func out = target.func;
  std::vector<Dim> outside = aroundOf(target.dims);
  if (singles.func.defined()) {
    if (tiles.func.defined())
      scheduleLoops(out.specialize(isAlone), outside, true);
    else
      scheduleLoops(out, outside, true);
    Var level = row               ? KernelBuilder::var(row->name)
                : outside.empty() ? Var("co")
                                  : KernelBuilder::var(outside.back().name);
    scheduleSums(singles, LoopLevel(out, level), outside, 1, side);
  }
  if (tiles.func.defined()) {
    scheduleLoops(out, outside, false);
    scheduleSums(tiles, LoopLevel(out, Var("rt")), outside, rows, 1);
  }
  target.scheduled = true;
}

void PackedContraction::define() {
  prepareOperands(b, *this);
  if (!Internal::is_const_zero(isAlone))
    singles = sumsOf("single", row ? Expr(KernelBuilder::var(row->name)) : Expr());
  if (!Internal::is_const_one(isAlone))
    tiles = sumsOf("sums", min(KernelBuilder::var(row->name), b.extent(row->size) - 1));
  write(
      [self = *this](const Index &position) {
        std::vector<Expr> call = self.tileCall(position);
        return !self.singles.func.defined() ? Expr(self.tiles.func(call))
               : !self.tiles.func.defined() ? Expr(self.singles.func(call))
                                            : select(self.isAlone, self.singles.func(call), self.tiles.func(call));
      },
      [self = *this](Stage &out) mutable { self.schedule(out); });
}

} // namespace quern::codegen
