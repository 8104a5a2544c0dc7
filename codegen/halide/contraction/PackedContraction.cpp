// Takes: a contraction in a kernel. Gives: accumulators for a tile of rows x columns that stay in registers, and loops
// around them.
// Why packed: the innermost loop then reads whole vectors of columns one after the other, whatever the weight's shape.
//
//   for each tile of columns, block of rows (parallel)    tiles of rows within the block share the columns in L2
//     strip[columns x depth] = w                          only of what is stored in fewer bits: widened once for all of them
//     for each tile of rows                               of rows in codes, too: PackedIntegers.cpp; a deep one by parts:
//                                                         PackedParts.cpp; by AMX's: PackedTiles.cpp, CodedTiles.cpp
//       sums[rows x columns] = 0
//       for k: sums += x[rows, k] * w[k, columns]         rows beyond the last repeat it, and are not stored
//       result[tile] = epilogue(sums)
//
// Why another way for a row or two (a step): they are there when the weight has come from memory, and products of rows
// that are not there would only delay what is read next.
//
// Nor a strip for a few: columns are widened in registers, for all of them.
//
//   for some tiles of columns (parallel)
//     for each row (a few: for as many at a time as have registers)
//       sums[columns] = 0;  for k: sums += x[row, k] * w[k, columns]
//                           of codes, for each group: sums += scale * (for k: x[row, k] * code[k, columns])
//                                                             - minimum * (for k: x[row, k]), in super-blocks
//       result[tiles] = epilogue(sums)
#include "codegen/halide/contraction/PackedContraction.h"

#include "support/CodedGroups.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

PackedContraction::PackedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : Contraction(builder, std::move(pattern), plan), unroll(plan["unroll"]), mostTasks(plan["tiles"]),
      side(plan["side"]), few(plan["few"]), together(plan["together"]), ahead(plan["ahead"]), amx(plan["amx"]),
      partDepth(plan["depth"]) {
  if (amx)
    rows = amx * tileRows;
  auto upTo = [&](int64_t most, bool wide) { // known now: a case that never runs is not built
    if (!most || !row || row->fixed())
      return !row || (most && *row->fixed() <= most) ? Internal::const_true() : Internal::const_false();
    Expr length = b.extent(row->size, wide);
    return length <= Internal::make_const(length.type(), most);
  };
  isAlone = upTo(plan["alone"], false);
  isFew = Internal::is_const_one(isAlone) || few <= plan["alone"] ? Internal::const_false() : upTo(few, true);
}

/// Where the other dimensions stand, and the row.
Index PackedContraction::start(const Expr &at) const {
  Index index = KernelBuilder::varsOf(others);
  if (row)
    index[row->name] = at;
  return index;
}

std::pair<std::vector<Var>, std::vector<Expr>> PackedContraction::besideStrip(const Index &index) const {
  const Node &weight = b.graph.nodes[tableOf(w)];
  std::vector<Var> own;
  std::vector<Expr> call;
  for (auto dim = weight.dims.rbegin(); dim != weight.dims.rend(); ++dim)
    if (dim->name != column->name && dim->name != reduced[0].name) {
      own.push_back(KernelBuilder::var(dim->name));
      call.push_back(index.at(dim->name));
    }
  own.emplace_back("tile");
  call.emplace_back(Var("tile"));
  return {own, call};
}

/// A step's columns, out of a strip that all tiles of rows of a task share.
Expr PackedContraction::widened(const Index &index) {
  const Node &weight = b.graph.nodes[tableOf(w)];
  std::vector<Var> args = {lane};
  std::vector<Expr> call = {lane};
  for (auto dim = weight.dims.rbegin(); dim != weight.dims.rend(); ++dim)
    if (dim->name != column->name) {
      args.push_back(KernelBuilder::var(dim->name));
      call.push_back(index.at(dim->name));
    }
  args.emplace_back("tile");
  call.push_back(Var("tile"));
  strip = b.newFunc("strip", node);
  strip(args) = loadWeight(w, lane, Var("tile"), KernelBuilder::varsOf(weight.dims));
  return strip(call);
}

PackedContraction::Sums PackedContraction::sumsOf(const std::string &name, const Expr &at) {
  Sums sums{b.newFunc(name, node), {}, {}, {}};
  std::vector<Var> args = tileArgs();
  RDom k(reducedRegion());
  Index index = start(at);
  setReduced(index, k);
  for (int i = 0; i < k.dimensions(); ++i)
    sums.over.push_back(k[i]);
  bool shared = name == "sums" && storage != Storage::F32 && !isPicked();
  Expr column = shared ? widened(index) : loadWeight(w, lane, Var("tile"), index);
  sums.func(args) = 0.0f;
  sums.func(args) += b.real(x, index) * column;
  return sums;
}

/// The sum of a row's numbers in a group, which the columns' minimums multiply: by halves, as a chain of additions would
/// take as long as the group's products.
Expr PackedContraction::rowSum(Sums &sums, const Expr &at, const Expr &ofGroup) {
  Var group("group");
  std::vector<Var> args;
  if (row)
    args.push_back(KernelBuilder::var(row->name));
  for (const Dim &dim : others)
    if (b.graph.nodes[x].has(dim.name))
      args.push_back(KernelBuilder::var(dim.name));
  std::vector<Expr> call(args.begin(), args.end());
  args.push_back(group);
  call.push_back(ofGroup);
  std::vector<Expr> parts;
  for (int i = 0; i < support::groupOf(storage); ++i) {
    CodePlace place = codePlace(storage, i);
    place.group = group;
    Index index = start(at);
    setDepth(index, place);
    parts.push_back(withinDepth(b.real(x, index), place));
  }
  for (size_t half = parts.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i)
      parts[i] = parts[i] + parts[i + half];
  sums.ofRow = b.newFunc("row_sum", node);
  sums.ofRow(args) = parts[0];
  return sums.ofRow(call);
}

/// For rows that are multiplied by themselves with columns in codes.
PackedContraction::Sums PackedContraction::codedSums(const std::string &name, const Expr &at) {
  Sums sums{b.newFunc(name, node), {}, b.newFunc("group", node), {}};
  std::vector<Var> args = tileArgs(), ofGroup = args;
  Var group("group");
  ofGroup.push_back(group);
  const int inBlock = support::blockOf(storage) / support::groupOf(storage); // groups that share units of scales
  Region region = codedRegion();
  RDom k(Region{region[0], region[1]}), g(Region{{0, inBlock}, {0, region[2].extent / inBlock}});
  CodePlace place{k[0], k[1], group};
  Index index = start(at);
  setDepth(index, place);
  sums.overGroup = {k[0], k[1]};
  sums.ofGroup(ofGroup) = 0.0f;
  sums.ofGroup(ofGroup) += b.real(x, index) * raisedCodeAt(columnsAt(lane, Var("tile"), index), place);
  sums.over = {g[0], g[1]};
  std::vector<Expr> call(args.begin(), args.end());
  place.group = g[1] * inBlock + g[0];
  call.push_back(place.group);
  CodedColumns columns = columnsAt(lane, Var("tile"), index);
  Expr product = sums.ofGroup(call) * loweredScaleAt(columns, place);
  if (support::superBlocksOf(storage))
    product -= minimumAt(columns, place) * rowSum(sums, at, place.group);
  sums.func(args) = 0.0f;
  sums.func(args) += product;
  return sums;
}

/// Returns the loop over tasks.
template <typename Loops> Var PackedContraction::scheduleLoops(Loops out, const std::vector<Dim> &outside, Rows of) {
  const bool single = of == Rows::Alone, many = of == Rows::Many;
  Var o = KernelBuilder::var(column->name), outer("co"), inner("ci"), beside("ct"), blockOuter("rb"), blockInner("rt"),
      within("ri");
  std::vector<VarOrRVar> order = {inner}, around;
  out.split(o, outer, inner, tile, TailStrategy::GuardWithIf);
  if (single) {
    out.split(outer, outer, beside, side, TailStrategy::GuardWithIf);
    order.push_back(beside);
    if (row)
      order.push_back(KernelBuilder::var(row->name));
  } else if (!many) {
    out.split(KernelBuilder::var(row->name), fewTiles, within, together, TailStrategy::GuardWithIf);
    order.insert(order.end(), {within, fewTiles});
  } else {
    Var tiles("rows");
    out.split(KernelBuilder::var(row->name), tiles, within, rows, TailStrategy::GuardWithIf);
    out.split(tiles, blockOuter, blockInner, rowBlock, TailStrategy::GuardWithIf);
    order.push_back(within);
    if (manyColumns() < tile) {
      out.split(inner, beside, inner, manyColumns());
      order.push_back(beside);
    }
    order.push_back(blockInner);
  }
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    around.push_back(KernelBuilder::var(dim->name));
  order.insert(order.end(), around.begin(), around.end());
  if (many)
    order.push_back(blockOuter);
  order.push_back(outer);
  out.reorder(order);
  Var task = outer;
  if (many) {
    task = Var("task");
    out.fuse(blockOuter, outer, task);
  }
  bool fewTasks = column->fixed() && *column->fixed() / tile < mostTasks;
  if (fewTasks && row) // too few tasks along rows and columns alone
    for (const VarOrRVar &v : around) {
      Var next(task.name() + "_");
      out.fuse(v, task, next);
      task = next;
    }
  out.parallel(task).vectorize(inner, vectorOfTile()).unroll(inner);
  const bool stored = many && tiles.byTiles &&
                      (!tiles.ofGroup.defined() || totals.defined()); // sums that are no registers' are read in a loop
  if (!stored)
    out.unroll(single ? beside : within);
  if (many && copied.defined()) // as in DenseContraction.cpp: LLVM would join two loops' tiles
    out.never_partition(blockInner, task);
  return task;
}

/// Once for a task where all that it computes shares it, else for each of the matrices that stand beside each other.
LoopLevel PackedContraction::levelOf(const Var &task, const std::vector<Dim> &outside, const Func &out) const {
  const Node &weight = b.graph.nodes[tableOf(w)];
  bool several = !outside.empty() && weight.has(outside.back().name) && task.name() == "task";
  return {out, several ? KernelBuilder::var(outside.back().name) : task};
}

void PackedContraction::scheduleStrip(const LoopLevel &level) {
  if (tiles.byTiles && bits)
    return scheduleTiledStrip(level);
  if (stripScale.defined())
    return scheduleIntegerStrip(level);
  if (tiles.pairs)
    return schedulePairStrip(level);
  auto depth = KernelBuilder::var(reduced[0].name);
  strip.compute_at(level);
  strip.bound_extent(lane, tile).bound_extent(Var("tile"), 1).vectorize(lane, vectorOfTile()).unroll(lane);
  strip.reorder(lane, depth);
  if (bits) // a last step's codes beyond the depth are there
    strip.unroll(depth, support::stepOf(storage), TailStrategy::RoundUp);
  else
    strip.unroll(depth, 4, TailStrategy::GuardWithIf);
}

void PackedContraction::scheduleSums(Sums &sums, const LoopLevel &level, const std::vector<Dim> &outside,
                                     int rowsAtOnce, int tilesAtOnce) {
  if (sums.byTiles && !sums.ofGroup.defined())
    return scheduleTiled(sums, level);
  Var beside("tile");
  std::vector<VarOrRVar> loops = {lane, beside};
  if (sums.pairs)
    loops.insert(loops.begin(), sums.over[0]);
  const int tile = sums.byTiles ? manyColumns() : this->tile;
  // Known extents keep the sums on the stack.
  sums.func.compute_at(level).bound_extent(lane, tile).bound_extent(beside, tilesAtOnce);
  sums.func.vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  if (row) {
    Var m = KernelBuilder::var(row->name);
    sums.func.bound_extent(m, rowsAtOnce).unroll(m);
    loops.push_back(m);
  }
  loops.insert(loops.end(), sums.over.begin() + sums.pairs, sums.over.end());
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim) // outside: sums of one part at a time stay in registers
    loops.push_back(KernelBuilder::var(dim->name));
  sums.func.update().reorder(loops);
  if (sums.pairs)
    sums.func.update().atomic().vectorize(sums.over[0]);
  sums.func.update().vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  if (row)
    sums.func.update().unroll(KernelBuilder::var(row->name));
  unrollParts(sums.func, outside);
  if (sums.byTiles)
    return scheduleTiledGroups(sums);
  if (sums.integers)
    return scheduleIntegers(sums, rowsAtOnce, tilesAtOnce);
  if (sums.ofGroup.defined())
    return scheduleGroup(sums, rowsAtOnce, tilesAtOnce);
  if (unroll > 1)
    sums.func.update().unroll(sums.over.back(), unroll);
}

/// One group at a time: its codes are taken apart in registers.
void PackedContraction::scheduleGroup(Sums &sums, int rowsAtOnce, int tilesAtOnce) {
  Func group = sums.ofGroup;
  Var beside("tile");
  std::vector<VarOrRVar> loops = {lane, beside};
  group.compute_at(sums.func, sums.over[0]).bound_extent(lane, tile).bound_extent(beside, tilesAtOnce);
  group.vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  if (row) {
    Var m = KernelBuilder::var(row->name);
    group.bound_extent(m, rowsAtOnce).unroll(m);
    loops.push_back(m);
  }
  loops.insert(loops.end(), sums.overGroup.begin(), sums.overGroup.end());
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    loops.push_back(KernelBuilder::var(dim->name));
  loops.emplace_back(Var("group"));
  Halide::Stage update = group.update();
  update.reorder(loops).vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  // Of a single row that is added up as well, LLVM would choose another order for these additions.
  const bool last = rowsAtOnce > 1 || !sums.ofRow.defined();
  auto writeOut = [&](const VarOrRVar &loop) {
    if (last)
      b.unrollLast(group, {loop});
    else
      update.unroll(loop);
  };
  writeOut(sums.overGroup[0]);
  if (row)
    writeOut(KernelBuilder::var(row->name));
  if (!sums.ofRow.defined())
    return;
  writeOut(sums.overGroup[1]); // where a code's high bits are is then known
  sums.ofRow.compute_at(sums.func, sums.over[0]);
}

void PackedContraction::schedule(Stage &target) {
  Func out = target.func;
  std::vector<Dim> outside = aroundOf(target.dims);
  auto loopsOf = [&](Rows of, const Expr &condition) {
    if (Internal::is_const_one(condition))
      scheduleLoops(out, outside, of);
    else
      scheduleLoops(out.specialize(condition), outside, of);
  };
  if (singles.func.defined()) {
    loopsOf(Rows::Alone, isAlone);
    Var level = row               ? KernelBuilder::var(row->name)
                : outside.empty() ? Var("co")
                                  : KernelBuilder::var(outside.back().name);
    scheduleSums(singles, LoopLevel(out, level), outside, 1, side);
    b.fetchAhead(singles.func, tableOf(w), ahead);
  }
  if (fews.func.defined()) {
    loopsOf(Rows::Few, isFew);
    scheduleSums(fews, LoopLevel(out, fewTiles), outside, together, 1);
    b.fetchAhead(fews.func, tableOf(w), ahead);
  }
  if (tiles.func.defined()) {
    Var task = scheduleLoops(out, outside, Rows::Many);
    if (totals.defined()) {
      const LoopLevel level = levelOf(task, outside, out);
      LoopLevel ofSums = tiles.byTiles ? scheduleTiledTotals(level) : scheduleTotals(totals, parts, level, 1);
      if (strip.defined())
        scheduleStrip(LoopLevel(totals, parts.x));
      scheduleSums(tiles, ofSums, outside, rows, 1);
    } else {
      if (strip.defined() || stripScale.defined())
        scheduleStrip(levelOf(task, outside, out));
      scheduleSums(tiles, LoopLevel(out, Var(manyColumns() < tile ? "ct" : "rt")), outside, rows, 1);
    }
    if (copied.defined())
      scheduleCopiedRows();
    const bool ofFloats = !tiles.integers && !tiles.pairs && !tiles.byTiles;
    if (const int bytes = ahead && ofFloats ? aheadInTiles(b.target) : 0; strip.defined())
      b.fetchAhead(tiles.func, strip, bytes);
    else
      b.fetchAhead(tiles.func, tableOf(w), bytes);
    b.askBesideSums(tiles.func, tableOf(w));
  }
  target.scheduled = true;
}

void PackedContraction::define() {
  prepareOperands(b, *this);
  const bool integers = b.multipliesIntegers(*this);
  Expr at = row ? Expr(KernelBuilder::var(row->name)) : Expr();
  if (!Internal::is_const_zero(isAlone))
    singles = integers ? integerSums("single", at) : bits ? codedSums("single", at) : sumsOf("single", at);
  Expr last = row ? min(KernelBuilder::var(row->name), b.extent(row->size) - 1) : Expr();
  if (!Internal::is_const_zero(isFew))
    fews = bits ? codedSums("few", last) : sumsOf("few", last);
  if (!Internal::is_const_one(isAlone) && !Internal::is_const_one(isFew))
    tiles = amx && bits                                      ? tiledCodes()
            : amx                                            ? tiledPairs()
            : integers                                       ? integerSums("sums", last)
            : b.multipliesPairs(*this)                       ? pairSums("sums", last)
            : partDepth < *reduced[0].fixed() && !isPicked() ? sumsOfParts(last)
                                                             : sumsOf("sums", last);
  write(
      [self = *this](const Index &position) {
        std::vector<Expr> call = self.tileCall(position), ofMany = self.tileCall(position, self.manyColumns());
        Expr value;
        auto choose = [&](const Sums &sums, const Expr &condition) {
          if (sums.func.defined())
            value = value.defined() ? select(condition, sums.func(call), value) : Expr(sums.func(call));
        };
        if (self.tiles.func.defined())
          value = self.many()(ofMany);
        choose(self.fews, self.isFew);
        choose(self.singles, self.isAlone);
        return value;
      },
      [self = *this](Stage &out) mutable { self.schedule(out); });
}

} // namespace quern::codegen
