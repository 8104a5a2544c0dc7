// Takes: a product of values as they are stored. Gives: its sums by AMX's registers of 16 rows and 16 columns, as loops that
// TileProducts.cpp replaces. A word is two numbers beside each other along the depth, behind whose end they are 0. Numbers of
// f32 are three pieces of bf16 each, and their product six (codegen/kernel/TileTerms.h).
//
//   tiles[16 words][16 rows][pieces][depth / 32][rows / 16] = x    once: a kilobyte each, which lies together. Rows of bf16
//                                                                along a depth of whole steps are read as they are
//   strip[16 columns][16 words][pieces][columns / 16][depth / 32] = w     for a block of rows, as DenseContraction.cpp has it
//   for each tile of rows: sums[rows x columns] = products over the whole depth, or a part of it
//
// What lies across is turned in blocks of 16 x 16 words (TurnWords.cpp): rows that are side by side, columns along their depth.
#include "codegen/halide/contraction/DenseContraction.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inWord = 2;
static const Var word("word"), ofTile("ofTile"), step("step"), tileOfRows("group");

/// Whether tiles can be loaded from where x is stored.
bool DenseContraction::liesInTiles() const {
  const Node &input = b.graph.nodes[x];
  if (input.op != Op::Widen || input.dims.back().name != reduced.back().name || !wholeParts)
    return false;
  const int stored = input.operands[0];
  return b.graph.nodes[stored].op == Op::Argument && b.graph.argumentLayouts[stored].strides.back() == 1;
}

Expr DenseContraction::wordAt(int operand, const Index &index, const Expr &word, const Expr &piece) const {
  auto half = [&](int which) { return numberOf(operand, index, word * inWord + which); };
  return wordOf(half(0), half(1), pieces(operand) > 1 ? piece : 0);
}

void DenseContraction::copyTilesOfRows() {
  const Node &input = b.graph.nodes[x];
  std::vector<Var> args = copyArgs({word, ofTile, piece, step}, x, tileOfRows);
  Index index = KernelBuilder::varsOf(input.dims);
  index[row->name] = min(tileOfRows * tileRows + ofTile, b.extent(row->size) - 1);
  Expr value = wordAt(x, index, step * wordsOfTile + word, piece);
  groups = b.newFunc("tiles", node);
  if (input.dims.back().name == row->name)
    defineTurned(groups, turnedRows = b.newFunc("words", node), args, value);
  else
    groups(args) = value;
}

/// Where its rows are in place, the first number stands for a word.
Expr DenseContraction::wordOfRow(const Expr &at, const Expr &piece, Index index) const {
  Var m = KernelBuilder::var(row->name);
  if (!groups.defined()) {
    index[row->name] = tileRow(m, b.extent(row->size));
    index[reduced.back().name] = at * inWord;
    return asBF16(b.real(x, index));
  }
  return groups(copyCall({at % wordsOfTile, m % tileRows, piece, at / wordsOfTile}, x, m / tileRows, index));
}

/// From a tile's row on; copies have whole tiles.
Expr DenseContraction::rowsLeft() const {
  return groups.defined() ? Expr(rows) : b.extent(row->size) - KernelBuilder::var(row->name);
}

void DenseContraction::copyWordsOfColumns(Products &out) {
  const Node &weight = b.graph.nodes[w];
  const std::vector<Var> args = copyArgs(stripArgs(), w, Var("tile"));
  Expr value = wordAt(w, KernelBuilder::varsOf(weight.dims), step * wordsOfTile + word, piece);
  if (weight.dims.back().name == reduced.back().name)
    defineTurned(out.strip, out.turned = b.newFunc("words", node), args, value);
  else
    out.strip(args) = value;
}

void DenseContraction::scheduleTilesOfColumns(Products &out, const LoopLevel &level) {
  static_assert(wordsTurned == wordsOfTile && wordsTurned == tileColumns);
  boundStrip(out.strip, level, group);
  if (!out.turned.defined()) {
    out.strip.reorder(lane, piece, slice, Var("tile"), word, step).vectorize(lane).unroll(piece);
    return;
  }
  out.strip.reorder(lane, word, piece, step, slice);
  scheduleAcross(out.turned, LoopLevel(out.strip, step), word, lane, piece, pieces(w));
  b.turnedWords.push_back({out.strip, lane.name(), word.name()});
}

void DenseContraction::scheduleTilesOfRows() {
  Expr depth = b.extent(reduced.back().size), steps = wordsOf(depth) / wordsOfTile,
       ofParts = (depth + (partDepth - 1)) / partDepth * (partDepth / depthOfTile);
  if (totals.defined())
    steps = shallow.defined() ? select(shallow, steps, ofParts) : ofParts;
  groups.compute_root()
      .bound(word, 0, wordsOfTile)
      .bound(ofTile, 0, tileRows)
      .bound(piece, 0, pieces(x))
      .bound(step, 0, steps)
      .bound(tileOfRows, 0, tilesOfRows() * amx)
      .parallel(tileOfRows);
  if (!turnedRows.defined()) {
    groups.reorder(word, piece, ofTile).vectorize(word).unroll(piece);
    return;
  }
  static_assert(wordsTurned == wordsOfTile && wordsTurned == tileRows);
  scheduleAcross(turnedRows, LoopLevel(groups, step), ofTile, word, piece, pieces(x));
  b.turnedWords.push_back({groups, word.name(), ofTile.name()});
}

/// Plain loops, in memory of known size.
void DenseContraction::scheduleTiledProducts(Products &out, const LoopLevel &tiles) {
  Var m = KernelBuilder::var(row->name), beside("tile");
  out.sums.compute_at(tiles).bound_extent(lane, tile).bound_extent(m, rows).bound_extent(beside, 1);
  out.sums.update().reorder({out.over, out.term, lane, m});
  b.tileSums.push_back({out.sums, lane.name(), m.name(), "", out.over.name(), "", out.term.name()});
}

} // namespace quern::codegen
