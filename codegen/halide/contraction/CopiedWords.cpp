// Takes: an operand that AMX multiplies and that is not packed. Gives: copies of it in words of two numbers beside each other along
// the depth. What lies across in memory is turned in square blocks of words (lowered/TurnWords.cpp).
#include "codegen/halide/contraction/Contraction.h"

using namespace Halide;

namespace quern::codegen {

static const Var word("word"), step("step");

/// Of whole steps of a tile.
Expr Contraction::wordsOf(const Expr &depth) {
  return (depth + (depthOfTile - 1)) / depthOfTile * wordsOfTile;
}

/// A number at a position of the last depth, behind whose end it is 0. `whole`: all that is copied is before it.
Expr Contraction::orZero(Index index, const Expr &position, bool whole,
                         const std::function<Expr(const Index &)> &number) const {
  const Dim &depth = reduced.back();
  index[depth.name] = whole ? position : min(likely(position), b.extent(depth.size) - 1);
  return whole ? number(index) : select(position < b.extent(depth.size), number(index), 0.0f);
}

std::vector<Var> Contraction::stripArgs() const {
  return {lane, word, piece, slice, step};
}

std::vector<Expr> Contraction::stripCall(const Expr &at, const Expr &which) const {
  return {lane % tileColumns, at % wordsOfTile, which, lane / tileColumns, at / wordsOfTile};
}

void Contraction::boundStrip(Func &strip, const LoopLevel &level, int tilesAtOnce) const {
  strip.compute_at(level)
      .bound_extent(lane, tileColumns)
      .bound_extent(word, wordsOfTile)
      .bound_extent(piece, pieces(w))
      .bound_extent(slice, tile / tileColumns)
      .bound_extent(Var("tile"), tilesAtOnce);
}

/// Of columns, whose loops are a tile's, the depth's, pieces, perhaps others, and the one over tiles. `turned`: undefined where
/// they are side by side in memory.
void Contraction::scheduleWords(Func &strip, Func &turned, const LoopLevel &level, int tilesAtOnce, int pieces,
                                int words) {
  Var depth = KernelBuilder::var(reduced.back().name), wordBlock("words"), laneBlock("lanes"), wordOfBlock("word"),
      laneOfBlock("lane");
  strip.compute_at(level).bound_extent(lane, tile).bound_extent(Var("tile"), tilesAtOnce).bound_extent(piece, pieces);
  if (!turned.defined()) {
    strip.vectorize(lane, tileColumns).reorder(lane, piece, Var("tile"), depth).unroll(piece);
    return;
  }
  strip.align_bounds(depth, words);
  strip.tile(lane, depth, laneBlock, wordBlock, laneOfBlock, wordOfBlock, words, words, TailStrategy::RoundUp)
      .reorder(laneOfBlock, wordOfBlock, piece, wordBlock, laneBlock);
  scheduleAcross(turned, LoopLevel(strip, wordBlock), depth, lane, piece, pieces, words);
  b.turnedWords.push_back({strip, lane.name() + "." + laneOfBlock.name(), depth.name() + "." + wordOfBlock.name(),
                           words}); // parts of loops
}

} // namespace quern::codegen
