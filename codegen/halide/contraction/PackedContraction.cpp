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
//
// Where such tiles are several for a row by itself, they are not neighbours: a task takes the next tile of each of `side` streams, so
// that memory is read in as many long runs, and not in one that starts anew for each task.
//
//   for each tile of a stream (parallel):  whole[tiles of all streams] = sums
//   result = epilogue(whole)
#include "codegen/halide/contraction/PackedContraction.h"

using namespace Halide;

namespace quern::codegen {

PackedContraction::PackedContraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : PackedSums(builder, std::move(pattern), plan), mostTasks(plan["tiles"]), side(plan["side"]), few(plan["few"]),
      together(plan["together"]), ahead(plan["ahead"]), amx(plan["amx"]), group(plan["group"]),
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

/// Where rows and columns alone are too few tasks, `task` becomes the loop over the loops `around`, too.
template <typename Loops>
void PackedContraction::fuseTasks(Loops out, const std::vector<VarOrRVar> &around, Var &task) const {
  if (!row || !column->fixed() || *column->fixed() / tile >= mostTasks)
    return;
  for (const VarOrRVar &v : around) {
    Var next(task.name() + "_");
    out.fuse(v, task, next);
    task = next;
  }
}

/// Where sums of one row belong, in the loops over the dimensions `around` within those over tasks.
Var PackedContraction::loopOfRow(const std::vector<Dim> &around) const {
  return row ? KernelBuilder::var(row->name) : around.empty() ? Var("co") : KernelBuilder::var(around.back().name);
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
    } else if (group > 1) {
      out.split(outer, outer, beside, group);
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
  fuseTasks(out, around, task);
  out.parallel(task).vectorize(inner, vectorOfTile()).unroll(inner);
  const bool ofTiles = tiles.byTiles && (!tiles.ofGroup.defined() || totals.defined());
  if (!many || !(ofTiles || keepsParts(outside))) // sums that are no registers' are read in a loop
    out.unroll(single ? beside : within);
  if (many && copied.defined()) // as in DenseContraction.cpp: LLVM would join two loops' tiles
    out.never_partition(blockInner, task);
  return task;
}

/// Tasks of a row by itself that reads several streams: the next tile of each.
void PackedContraction::scheduleWhole(const Func &out) {
  Var task("co"), beside("ct"), tiles("tile");
  std::vector<VarOrRVar> order = {lane, beside}, around;
  if (row)
    order.push_back(KernelBuilder::var(row->name));
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    around.push_back(KernelBuilder::var(dim->name));
  order.insert(order.end(), around.begin(), around.end());
  order.push_back(task);
  whole.bound(lane, 0, tile).bound(tiles, 0, ofAlone.count * ofAlone.tiles).split(tiles, task, beside, side);
  whole.reorder(order).vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  fuseTasks(whole, around, task);
  whole.parallel(task).compute_at(out, Var::outermost());
  scheduleSums(singles, LoopLevel(whole, loopOfRow(others)), others, 1, side);
  b.fetchAhead(singles.func, tableOf(w), ahead);
}

/// What is computed from these sums: so little that only many columns are worth tasks.
template <typename Loops> void PackedContraction::scheduleEnds(Loops out, const std::vector<Dim> &outside) {
  constexpr int columnsOfTask = 4096;
  Var o = KernelBuilder::var(column->name), tiles("co"), inner("ci"), task("task");
  std::vector<VarOrRVar> order = {inner, tiles};
  out.split(o, tiles, inner, tile, TailStrategy::GuardWithIf);
  out.split(tiles, task, tiles, std::max(1, columnsOfTask / tile), TailStrategy::GuardWithIf);
  if (row)
    order.push_back(KernelBuilder::var(row->name));
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  order.push_back(task);
  out.reorder(order).parallel(task).vectorize(inner, vectorOfTile()).unroll(inner);
}

/// Once for a task where all that it computes shares it, else for each of the matrices that stand beside each other.
LoopLevel PackedContraction::levelOf(const Var &task, const std::vector<Dim> &outside, const Func &out) const {
  const Node &weight = b.graph.nodes[tableOf(w)];
  bool several = !outside.empty() && weight.has(outside.back().name) && task.name() == "task";
  return {out, several ? KernelBuilder::var(outside.back().name) : task};
}

void PackedContraction::scheduleStrip(const LoopLevel &level) {
  if (tiles.byTiles && bits)
    scheduleTiledStrip(level);
  else if (tiles.byTiles)
    scheduleWordsOfColumns(level);
  else
    scheduleStrips(level);
}

/// Whether a tile's parts (gate and up) fill the registers one after the other. The sums of one stand in memory while the next is
/// summed: LLVM leaves some of them in registers, and takes one of the next part's sums through memory at every step instead.
bool PackedContraction::keepsParts(const std::vector<Dim> &outside) const {
  return kept.defined() && !partsWithin(outside).empty();
}

/// Returns where the sums of a part belong.
LoopLevel PackedContraction::scheduleKept(const LoopLevel &level, const std::vector<Dim> &outside) {
  const Var m = KernelBuilder::var(row->name), beside("tile");
  kept.compute_at(level).bound_extent(lane, tile).bound_extent(beside, 1).bound_extent(m, rows);
  std::vector<VarOrRVar> order = {lane, beside, m};
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  kept.reorder(order).vectorize(lane, vectorOfTile()).unroll(lane).unroll(m);
  const std::vector<Dim> parts = partsWithin(outside);
  for (const Dim &dim : parts)
    kept.unroll(KernelBuilder::var(dim.name));
  return {kept, KernelBuilder::var(parts.back().name)};
}

void PackedContraction::scheduleTile(const LoopLevel &level, const std::vector<Dim> &outside) {
  if (!tiles.byTiles)
    return scheduleSums(tiles, keepsParts(outside) ? scheduleKept(level, outside) : level, outside, rows, 1);
  if (!tiles.ofGroup.defined())
    return scheduleTiled(tiles, level);
  scheduleSum(tiles, level, outside, rows, 1, manyColumns());
  scheduleTiledGroups(tiles);
}

void PackedContraction::schedule(Stage &target) {
  Func out = target.func;
  std::vector<Dim> outside = aroundOf(target.dims);
  auto where = [&](const Expr &condition, auto scheduled) {
    if (Internal::is_const_one(condition))
      scheduled(out);
    else
      scheduled(out.specialize(condition));
  };
  auto loopsOf = [&](Rows of, const Expr &condition) {
    where(condition, [&](auto loops) { scheduleLoops(loops, outside, of); });
  };
  if (whole.defined()) {
    where(isAlone, [&](auto loops) { scheduleEnds(loops, outside); });
    scheduleWhole(out);
  } else if (singles.func.defined()) {
    loopsOf(Rows::Alone, isAlone);
    scheduleSums(singles, LoopLevel(out, loopOfRow(outside)), outside, 1, side);
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
      LoopLevel ofSums = tiles.byTiles && bits ? scheduleTiledTotals(level)
                         : tiles.byTiles       ? scheduleTotalsOfWords(level)
                                               : scheduleTotals(totals, parts, level, 1);
      if (strip.defined())
        scheduleStrip(LoopLevel(totals, parts.x));
      scheduleTile(ofSums, outside);
    } else {
      if (strip.defined() || stripScale.defined())
        scheduleStrip(levelOf(task, outside, out));
      scheduleTile(LoopLevel(out, Var(manyColumns() < tile || group > 1 ? "ct" : "rt")), outside);
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

/// Sums as a Func that may be in memory.
Func PackedContraction::copyOf(const std::string &name, const Sums &sums) const {
  Func copy = b.newFunc(name, node);
  const std::vector<Var> args = tileArgs();
  copy(args) = sums.func(std::vector<Expr>(args.begin(), args.end()));
  return copy;
}

void PackedContraction::define() {
  prepareOperands(b, *this);
  const bool integers = b.multipliesIntegers(*this);
  Expr at = row ? Expr(KernelBuilder::var(row->name)) : Expr();
  if (!Internal::is_const_zero(isAlone)) {
    PackedSums alone = *this;
    const int atOnce = side * tile, columns = packed ? static_cast<int>(column->fixed().value_or(0)) : 0;
    if (side > 1 && columns > atOnce && columns % atOnce == 0)
      ofAlone = {side, columns / atOnce};
    alone.readIn(ofAlone);
    singles = integers ? alone.integerSums("single", at, Codes::Stored)
              : bits   ? alone.codedSums("single", at, true)
                       : alone.sumsOf("single", at, alone.storedColumns());
    if (ofAlone.count > 1)
      whole = copyOf("whole", singles);
  }
  Expr last = row ? min(KernelBuilder::var(row->name), b.extent(row->size) - 1) : Expr();
  if (!Internal::is_const_zero(isFew))
    fews = bits ? codedSums("few", last, false) : sumsOf("few", last, storedColumns());
  const bool copies = storage != Storage::F32 && !isPicked();
  if (!Internal::is_const_one(isAlone) && !Internal::is_const_one(isFew))
    tiles = amx && bits                      ? tiledCodes()
            : amx && storage == Storage::F32 ? tiledWords()
            : amx                            ? tiledPairs()
            : integers                       ? integerSums("sums", last, Codes::Copied)
            : b.multipliesPairs(*this)       ? pairSums("sums", last)
            : partDepth < *reduced[0].fixed() && !isPicked()
                ? sumsOfParts(last)
                : sumsOf("sums", last, copies ? copiedColumns() : storedColumns());
  if (row && tiles.func.defined() && !totals.defined() && !tiles.byTiles && !tiles.integers && !others.empty())
    kept = copyOf("kept", tiles);
  write(
      [self = *this](const Index &position) {
        std::vector<Expr> call = self.tileCall(position), ofMany = self.tileCall(position, self.manyColumns());
        Expr value;
        auto choose = [&](const Func &sums, const Expr &condition) {
          if (sums.defined())
            value = value.defined() ? select(condition, sums(call), value) : Expr(sums(call));
        };
        if (self.tiles.func.defined())
          value = self.many()(ofMany);
        choose(self.fews.func, self.isFew);
        call.back() = self.ofAlone.placeOf(call.back());
        choose(self.whole.defined() ? self.whole : self.singles.func, self.isAlone);
        return value;
      },
      [self = *this](Stage &out) mutable { self.schedule(out); });
}

} // namespace quern::codegen
