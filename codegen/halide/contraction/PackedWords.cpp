// Takes: a contraction of packed columns in f32. Gives: sums of products by AMX's registers of 16 rows and 16 columns, as loops that
// TileProducts.cpp replaces. A number is the sum of three of bf16, and a product six of theirs (codegen/kernel/TileTerms.h).
//
//   copied[32][16 rows][pieces][depth / 32][rows / 16] = x          once
//   for each `group` of tiles of columns, block of rows (parallel), part of the depth
//     strip[16 columns][16 words][pieces][columns / 16][depth / 32] = w     a word is two numbers along the depth; a tile of
//     for each tile of rows, of columns                                     these is a kilobyte that lies together
//       sums[rows x columns] = products over the part
//
// Few rows do not pay for a strip: they are multiplied by vectors (PackedContraction.cpp).
#include "codegen/halide/contraction/PackedContraction.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inWord = 2;
static const Var word("word"), step("step"), part("part");

/// A column's word of the depth, at a tile of sums.
Expr PackedContraction::wordOfColumn(const Expr &at, const Expr &which) {
  const Beside beside = besideStrip(KernelBuilder::varsOf(b.graph.nodes[tableOf(w)].dims));
  const bool whole = *reduced[0].fixed() % depthOfTile == 0 && *reduced[0].fixed() % partDepth == 0;
  auto half = [&](int half) {
    return orZero(beside.columns, step * depthOfTile + word * inWord + half, whole,
                  [&](const Index &index) { return loadWeight(w, slice * tileColumns + lane, Var("tile"), index); });
  };
  std::vector<Var> args = stripArgs();
  std::vector<Expr> call = stripCall(at, which);
  args.insert(args.end(), beside.args.begin(), beside.args.end());
  const std::vector<Expr> place = besideStrip(start(KernelBuilder::var(row->name))).call;
  call.insert(call.end(), place.begin(), place.end());
  strip = b.newFunc("strip", node);
  strip(args) = wordOf(half(0), half(1), piece);
  return strip(call);
}

PackedContraction::Sums PackedContraction::tiledWords() {
  const auto depth = static_cast<int>(*reduced[0].fixed());
  const bool inParts = partDepth < depth;
  const int words = (std::min(partDepth, depth) + depthOfTile - 1) / depthOfTile * wordsOfTile;
  const std::vector<TileTerm> terms = termsOf(piecesOf(b.graph, x), piecesOfF32);
  Var m = KernelBuilder::var(row->name);
  RDom k(0, words, 0, static_cast<int32_t>(terms.size()));
  Sums sums{b.newFunc("sums", node), {k.x, k.y}, {}, {}};
  sums.byTiles = true;
  const std::vector<Var> all = tileArgs();
  std::vector<Var> args = all;
  if (inParts)
    args.push_back(part);
  Expr at = inParts ? part * words + k.x : Expr(k.x);
  Expr number = copiedRow(at * inWord % depthOfTile, at / wordsOfTile, depthOfTile, rowPiece(terms, k.y),
                          start(tileRow(m, b.extent(row->size))));
  sums.func(args) = undef<float>();
  sums.func(args) += tileProduct(number, wordOfColumn(at, columnPiece(terms, k.y)), Expr(rows));
  if (inParts)
    addParts(sums.func, all, (depth + partDepth - 1) / partDepth);
  return sums;
}

void PackedContraction::scheduleWordsOfColumns(const LoopLevel &level) {
  boundStrip(strip, level, group);
  strip.reorder(lane, piece, slice, word, step).vectorize(lane).unroll(piece).unroll(slice);
}

/// All tiles of a task's columns within a tile of rows, which is near from the first of them on.
LoopLevel PackedContraction::scheduleTotalsOfWords(const LoopLevel &level) {
  Var rowTiles("rt"), within("ri"), beside("tile");
  totals.compute_at(level).bound_extent(lane, tile).bound_extent(beside, group).vectorize(lane, vectorOfTile());
  std::vector<VarOrRVar> order = {lane, within, beside, rowTiles};
  for (const Dim &dim : others)
    order.push_back(KernelBuilder::var(dim.name));
  order.emplace_back(parts.x);
  totals.update().split(KernelBuilder::var(row->name), rowTiles, within, rows, TailStrategy::GuardWithIf);
  totals.update()
      .reorder(order)
      .vectorize(lane, vectorOfTile())
      .unroll(lane)
      .never_partition(rowTiles, beside, parts.x);
  return {totals, beside};
}

} // namespace quern::codegen
