// Takes: the gradient of what attention's scores have for each distance of a key from a query. Gives: stages that sum
// it along diagonals, all of a head in one task. Why so: a task owns all that it adds to, so no two write the same
// place, and numbers are added in one order whatever the number of threads; and a block's sums stay in the first cache.
//
//   for each head (parallel)
//     totals[position] = 0
//     for each part of the keys
//       its side of the products                                copies, side by side
//       for each block of queries
//         weights[key][row] = the expression of the products    as for other gradients (AttentionGradientFamily.cpp), where any row sees
//         pieces[row - key] += weights                          a vector of rows at a time: neighbours go to neighbours
//         totals[the part's, the block's place ..] += pieces
//
// A head's blocks of queries are not split among tasks: each would need sums of its own, as long as all distances.
#include "codegen/halide/attention/AttentionGradientFamily.h"

#include "codegen/halide/Math.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

static Var placeVar() {
  return Var("m");
}

void AttentionGradientFamily::makeDiagonals() {
  const GradientSum &sum = g.sums[0];
  Expr length = b.extent(p.key.size), count = b.extent(p.query.size);
  places = (chunk + lanes + width - 1) / width * width;
  // Within a block and a part: place = row - key + chunk, from 1 to chunk + lanes - 1.
  RDom r(0, lanes, 0, step, 0, chunk / step, "shear");
  pieceRow = r.x, pieceKey = r.y, pieceGroup = r.z;
  Expr begin = part * (chunk / step), group = begin + r.z, first = firstKey / step, last = lastKey / step;
  auto within = [&](const Expr &at) { return clamp(at, begin, begin + (chunk / step - 1)); };
  r.where(group >= first && group <= last);
  Expr seen = clamp(group, within(first), within(last)) * step + r.y;
  Expr isRow = tile * positions + r.x < count; // rows beyond the last repeat it
  pieces = b.newFunc("pieces", sum.node);
  pieces(asVars(headArgs({placeVar(), part, tile}))) = 0.0f;
  pieces(headArgs({r.x - (r.z * step + r.y) + chunk, part, tile})) +=
      math::choose(isRow, weights(headArgs({r.x, seen, tile})), 0.0f);

  // Whole vectors of places; those that no row and key come to hold zeros.
  RDom all(0, places, 0, (count + (positions - 1)) / positions, 0, (length + (chunk - 1)) / chunk, "diagonals");
  overPiece = all.x, overBlocks = all.y, overParts = all.z;
  // key - query = part * chunk - tile * positions + chunk - place
  Expr base = b.extent(g.diagonals->first), apart = all.z * chunk - all.y * positions;
  bool rising = g.diagonals->sign > 0;
  Expr place = rising ? places - 1 - all.x : Expr(all.x);
  Expr at = rising ? base + apart + chunk - (places - 1) + all.x : base - apart - chunk + all.x;
  totals = b.newFunc("totals", sum.node);
  totals(asVars(headArgs({column}))) = 0.0f;
  totals(headArgs({at})) += pieces(headArgs({place, all.z, all.y}));
}

void AttentionGradientFamily::scheduleDiagonals(Func &out) {
  Var n = KernelBuilder::var(g.diagonals->into.name);
  LoopLevel level = LoopLevel::root();
  if (!p.heads.empty()) {
    std::vector<VarOrRVar> order = {n};
    for (auto dim = p.heads.rbegin(); dim != p.heads.rend(); ++dim)
      order.push_back(KernelBuilder::var(dim->name));
    out.reorder(order);
    Var task = KernelBuilder::var(p.heads.back().name);
    for (auto dim = p.heads.rbegin() + 1; dim != p.heads.rend(); ++dim) {
      Var next(task.name() + "_");
      out.fuse(task, KernelBuilder::var(dim->name), next);
      task = next;
    }
    out.parallel(task);
    level = LoopLevel(out, task);
  }
  out.vectorize(n, width, TailStrategy::GuardWithIf);
  // Neighbouring places are apart by one, so no two lanes of a vector add to the same.
  totals.compute_at(level).vectorize(column, width);
  totals.update().reorder(overPiece, overBlocks, overParts).allow_race_conditions().vectorize(overPiece, width);
  totals.never_partition_all();
  totals.update().never_partition_all();
  LoopLevel ofBlock(totals, overBlocks);
  pieces.compute_at(ofBlock)
      .bound(placeVar(), 0, places)
      .bound_extent(tile, 1)
      .bound_extent(part, 1)
      .vectorize(placeVar(), width);
  pieces.update().reorder(pieceRow, pieceKey, pieceGroup).allow_race_conditions().vectorize(pieceRow, width);
  scheduleWeights(ofBlock, LoopLevel(totals, overParts), ofBlock);
}

void AttentionGradientFamily::defineDiagonals() {
  prepareInputs({});
  makeWeights();
  makeDiagonals();
  const GradientSum &sum = g.sums[0];
  b.isStage[sum.node] = 1;
  b.values[sum.node] = [self = *this](const Index &index) {
    std::vector<Expr> args = {index.at(self.g.diagonals->into.name)};
    for (auto dim = self.p.heads.rbegin(); dim != self.p.heads.rend(); ++dim)
      args.push_back(index.at(dim->name));
    return Expr(self.totals(args));
  };
  b.fusedInto(0, [self = *this](Stage &out) mutable {
    self.scheduleDiagonals(out.func);
    out.scheduled = true;
  });
}

} // namespace quern::codegen
