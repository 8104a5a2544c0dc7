// Takes: an attention of several queries. Gives: stages that compute a block of rows of one head per task.
// Why rows in lanes: keys and values are then read as they are stored, one number for all lanes, so nothing is packed; maxima,
// sums and masks run down the lanes; and the keys of a block end where its mask ends, not at the next tile.
//
//   for each head, several blocks of rows (parallel)
//     queries[depth][row]                                         copies with the rows innermost
//     for each part of the keys that the mask lets a block see
//       keys[key][depth], values[key][column]                     copies, side by side; what follows reads them often
//       for each of the blocks
//         score[key][row] = mask(q k), in tiles of keys x rows    accumulators in registers
//         most[row]; weight[key][row] = e^(score - most); total[row]
//         partial[column][row] = sum of weight v, in tiles of columns x rows; behind the columns most and total
//     the parts together (AttentionFamily.cpp), turned in registers: columns of a row side by side
//
// Keys of a head are a row of all heads apart: read in place, each would be a page and a few sets of the cache again
// and again.
#include "codegen/halide/attention/AttentionFamily.h"

#include "codegen/halide/Math.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

void AttentionFamily::makeScores() {
  Expr length = b.extent(p.key.size);
  placeRows(p.result);
  Index where = blockIndex();
  std::vector<Expr> args = headArgs({row, key, tile});
  for (const AttentionDot &dot : p.dots) {
    if (tiles) {
      dots.push_back(tiledDot(dot, where));
      continue;
    }
    if (pairs) {
      dots.push_back(pairedDot(dot, where));
      continue;
    }
    Func copy = b.newFunc("queries", dot.node), keyCopy = b.newFunc("keys", dot.node),
         product = b.newFunc("dot", dot.node);
    std::vector<Expr> copyArgs = {row}, call = {row}, keyArgs, keyCall;
    Index from = where, inKeys = KernelBuilder::varsOf(p.heads);
    Region region;
    for (const Dim &dim : dot.depth)
      region.push_back({0, b.extent(dim.size)});
    RDom r(region);
    inKeys[p.key.name] = min(key, length - 1);
    for (size_t i = 0; i < dot.depth.size(); ++i) {
      Var d("depth" + std::to_string(i));
      copyArgs.push_back(d);
      from[dot.depth[i].name] = d;
      call.push_back(r[static_cast<int>(i)]);
      inKeys[dot.depth[i].name] = d;
      keyArgs.insert(keyArgs.begin(), d), keyCall.insert(keyCall.begin(), r[static_cast<int>(i)]);
      depths.push_back(r[static_cast<int>(i)]);
    }
    copyArgs.push_back(tile), call.push_back(tile);
    copy(asVars(headArgs(copyArgs))) = b.real(dot.q, from);
    keyArgs.push_back(key), keyCall.push_back(key);
    keyCopy(asVars(headArgs(keyArgs))) = b.real(dot.k, inKeys);
    product(asVars(args)) = 0.0f;
    product(args) += copy(headArgs(call)) * keyCopy(headArgs(keyCall));
    queries.push_back(copy), keys.push_back(keyCopy);
    dots.push_back(product);
  }
  score = b.newFunc("score", p.result);
  std::vector<Expr> call = tiles ? headArgs({row, key % step, key / step, tile}) : args;
  score(asVars(args)) = scoreAt(where, key, [&](const AttentionDot &, size_t i) { return Expr(dots[i](call)); });
}

Expr AttentionFamily::valueAt(const Expr &column, const Expr &key) {
  Index index = KernelBuilder::varsOf(p.heads);
  index[p.column.name] = column;
  index[b.graph.nodes[p.result].names[0]] = min(key, b.extent(p.key.size) - 1);
  return b.real(p.v, index);
}

void AttentionFamily::makeBlocks() {
  Expr length = b.extent(p.key.size);
  boundKeys();
  makeScores();

  std::vector<Expr> rowArgs = headArgs({row, part, tile}), args = headArgs({row, column, part, tile});
  int columns = static_cast<int>(*p.column.fixed());
  Expr seen = seenKeys();
  ofMost = {inGroup, overGroups};
  most = b.newFunc("most", p.result);
  most(asVars(rowArgs)) = math::negativeInfinity();
  most(rowArgs) = math::max(most(rowArgs), score(headArgs({row, seen, tile})));
  Expr largest = shiftOf(most(rowArgs));
  Expr shift = math::choose(math::isNegativeInfinity(largest), 0.0f, largest);
  weight = b.newFunc("weight", p.result);
  weight(asVars(headArgs({row, key, part, tile}))) =
      math::expOfDifference(math::sub(score(headArgs({row, key, tile})), shift));
  total = b.newFunc("total", p.result), values = b.newFunc("values", p.result), sums = b.newFunc("sums", p.result);
  total(asVars(rowArgs)) = 0.0f;
  std::vector<Expr> summed = args;
  if (tiles) {
    makeTiledSums(args);
    summed = headArgs({row, min(column, columns - 1), part, tile});
  } else if (pairs) {
    makePairedSums(args);
  } else {
    Expr factor = rounded(weight(headArgs({row, seen, part, tile})));
    total(rowArgs) += factor;
    values(asVars(headArgs({column, key}))) = valueAt(column, key);
    sums(asVars(args)) = 0.0f;
    sums(args) += factor * values(headArgs({columnOf(columns), seen}));
  }
  partial = b.newFunc("partial", p.result);
  partial(asVars(args)) =
      math::choose(column < columns, sums(summed), math::choose(column == columns, largest, total(rowArgs)));

  AttentionParts parts{[this, columns](const Expr &n, AttentionParts::Field field, const Expr &at) {
                         Expr where = field == AttentionParts::Sum ? at : columns + (field == AttentionParts::Total);
                         return Expr(partial(headArgs({row, where, n, tile})));
                       },
                       firstKey / chunk, lastKey / chunk, (length + (chunk - 1)) / chunk};
  const std::vector<Expr> ofRow = headArgs({row, column, tile});
  attended = combine("attended", parts, blockIndex(), ofRow, headArgs({row, tile}), blockRows);
  if (columns % width)
    return;
  attendedWords = b.newFunc("words", p.result), lying = b.newFunc("lying", p.result);
  const std::vector<Expr> across = headArgs({column, row, tile});
  defineTurned(lying, attendedWords, asVars(across), reinterpret<uint32_t>(attended(ofRow)));
  attended = b.newFunc("turned", p.result); // a name for what is read there
  attended(asVars(ofRow)) = reinterpret<float>(lying(across));
}

void AttentionFamily::scheduleAttended(const LoopLevel &level) {
  if (!lying.defined()) {
    attended.compute_at(level).bound_extent(row, lanes).vectorize(row, width);
    return;
  }
  Var rowBlock("rows"), rowOfBlock("row"), columnBlock("columns"), columnOfBlock("column");
  lying.compute_at(level)
      .bound_extent(row, lanes)
      .bound(column, 0, static_cast<int32_t>(*p.column.fixed()))
      .split(row, rowBlock, rowOfBlock, width)
      .split(column, columnBlock, columnOfBlock, width)
      .reorder(columnOfBlock, rowOfBlock, columnBlock, rowBlock);
  attendedWords.compute_at(lying, columnBlock)
      .bound_extent(row, width)
      .bound_extent(column, width)
      .reorder(row, column)
      .vectorize(row);
  b.turnedWords.push_back(
      {lying, column.name() + "." + columnOfBlock.name(), row.name() + "." + rowOfBlock.name(), width});
}

void AttentionFamily::scheduleBlocks(const LoopLevel &level) {
  schedulePlaces(level);
  scheduleAttended(level);
  for (Func &f : blockRows) {
    f.compute_at(level).bound_extent(row, lanes).vectorize(row, width);
    for (int u = 0; u < static_cast<int>(f.num_update_definitions()); ++u)
      f.update(u).vectorize(row, width);
  }

  partial.compute_at(level).bound_extent(row, lanes);
  score.compute_at(partial, tile).bound_extent(tile, 1).bound_extent(row, lanes);
  for (auto &[f, in, over] : {std::tuple(most, ofMost[0], ofMost[1]), std::tuple(total, inGroup, overGroups)}) {
    Func func = f;
    func.compute_at(partial, tile).bound_extent(tile, 1).bound_extent(row, lanes).vectorize(row, width).unroll(row);
    func.update().reorder(row, in, over).vectorize(row, width).unroll(row).unroll(in, std::min(step, 16));
  }
  if (tiles)
    scheduleTiles(level);
  else
    scheduleVectors(level);
  partial.never_partition_all(); // else all of it would stand in the kernel twice
}

void AttentionFamily::scheduleVectors(const LoopLevel &level) {
  // Names of their own: a loop that keeps its name when it is split must begin at 0.
  Var rowTile("rt"), keyTile("kt"), columnTile("ct"), inRow("ri"), inKey("ki"), inColumn("ci");
  for (size_t i = 0; i < queries.size(); ++i)
    if (pairs && turnsQueries(p.dots[i].depth[0]))
      scheduleTurned(i, level);
    else
      queries[i].compute_at(level).bound_extent(row, lanes).vectorize(row, width);
  partial.split(row, rowTile, inRow, span).split(column, columnTile, inColumn, step, TailStrategy::RoundUp);
  partial.reorder(inRow, inColumn, rowTile, columnTile, tile, part)
      .vectorize(inRow, width)
      .unroll(inRow)
      .unroll(inColumn);
  Func &weights = pairs ? words : weight;
  weights.compute_at(partial, tile).bound_extent(tile, 1).bound_extent(row, lanes).vectorize(row, width).unroll(row);
  sums.compute_at(partial, rowTile).bound_extent(tile, 1).bound_extent(row, span).bound_extent(column, step);
  sums.vectorize(row, width).unroll(row).unroll(column);
  // Keys of a group, without a rest: whole if it is short, as sums leave registers between loops.
  const int inWord = pairs ? inPair : 1, inGroups = step / inWord;
  int together = inGroups;
  while (together > 8 || inGroups % together)
    --together;
  sums.update()
      .reorder(row, column, inGroup, overGroups)
      .vectorize(row, width)
      .unroll(row)
      .unroll(column)
      .unroll(inGroup, together);

  auto copied = [&](Func &copy, const Var &inner, int64_t extent, int node) {
    int narrow = narrowed(extent);
    copy.compute_at(partial, part).bound(inner, 0, static_cast<int32_t>(extent));
    if (narrow > 1)
      copy.vectorize(inner, narrow, TailStrategy::GuardWithIf);
    if (extent % narrow == 0 && extent / narrow <= 8)
      copy.unroll(inner);
    b.fetchRowsAhead(copy, copy.args()[1], node, &copy == &values ? inWord : 1);
  };
  copied(values, column, *p.column.fixed(), p.v);
  for (size_t i = 0; i < keys.size(); ++i)
    copied(keys[i], keys[i].args()[0], *p.dots[i].depth.back().fixed() / inWord, p.dots[i].k);
  score.split(row, rowTile, inRow, span).split(key, keyTile, inKey, step, TailStrategy::RoundUp);
  score.reorder(inRow, inKey, rowTile, keyTile).vectorize(inRow, width).unroll(inRow).unroll(inKey);
  size_t next = 0;
  for (size_t i = 0; i < dots.size(); ++i) {
    dots[i].compute_at(score, rowTile).bound_extent(tile, 1).bound_extent(row, span).bound_extent(key, step);
    dots[i].vectorize(row, width).unroll(row).unroll(key);
    std::vector<VarOrRVar> loops = {row, key};
    for (size_t d = 0; d < p.dots[i].depth.size(); ++d)
      loops.push_back(depths[next++]);
    dots[i].update().reorder(loops).vectorize(row, width).unroll(row).unroll(key);
    if (*p.dots[i].depth[0].fixed() / inWord % unroll == 0)
      dots[i].update().unroll(loops[2].rvar, unroll);
  }
}

} // namespace quern::codegen
