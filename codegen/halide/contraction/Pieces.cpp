// Takes: numbers of f32. Gives: their pieces in bf16; copies of what AMX multiplies, whose words are two of these beside each
// other along the depth. Why cut off and not rounded: each piece then has the next 8 bits, so three are the number exactly, and
// the largest is never beyond what bf16 has. What lies across in memory is turned in blocks of 16 x 16 words (TurnWords.cpp).
#include "codegen/halide/contraction/Pieces.h"

#include "codegen/halide/Math.h"
#include "codegen/halide/contraction/Contraction.h"

using namespace Halide;
using Halide::Internal::UIntImm;

namespace quern::codegen {

Expr asBF16(const Expr &number) {
  return reinterpret(BFloat(16), cast<uint16_t>(reinterpret<uint32_t>(number) >> cast<uint32_t>(16)));
}

Expr pieceOf(const Expr &number, const Expr &piece) {
  auto upper = [](const Expr &value) {
    return reinterpret<float>(reinterpret<uint32_t>(value) & UIntImm::make(UInt(32), 0xffff0000u));
  };
  const Expr first = upper(number), rest = math::sub(number, first), second = upper(rest);
  const Expr chosen = select(piece == 0, first, piece == 1, second, math::sub(rest, second));
  return cast<uint16_t>(reinterpret<uint32_t>(chosen) >> cast<uint32_t>(16));
}

Expr wordOf(const Expr &first, const Expr &second, const Expr &piece) {
  return cast<uint32_t>(pieceOf(first, piece)) | cast<uint32_t>(pieceOf(second, piece)) << cast<uint32_t>(16);
}

static Expr chosen(const std::vector<TileTerm> &terms, int TileTerm::*which, const Expr &term) {
  Expr value = terms.back().*which;
  for (size_t i = terms.size() - 1; i-- > 0;)
    value = select(term == static_cast<int32_t>(i), terms[i].*which, value);
  return value;
}

Expr rowPiece(const std::vector<TileTerm> &terms, const Expr &term) {
  return chosen(terms, &TileTerm::row, term);
}

Expr columnPiece(const std::vector<TileTerm> &terms, const Expr &term) {
  return chosen(terms, &TileTerm::column, term);
}

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

/// Defines a copy whose words lie across in memory: `across` has them as they are read there, its first two loops exchanged.
void Contraction::defineTurned(Func &copy, Func &across, std::vector<Var> args, const Expr &value) {
  std::swap(args[0], args[1]);
  across = b.newFunc("words", node);
  across(args) = value;
  Expr word = turnedWord(across(std::vector<Expr>(args.begin(), args.end())));
  std::swap(args[0], args[1]);
  copy(args) = word;
}

/// A block of what defineTurned has read, its vectors along `inner`.
void Contraction::scheduleAcross(Func &across, const LoopLevel &level, const Var &inner, const Var &outer, int pieces) {
  across.compute_at(level)
      .bound_extent(inner, wordsTurned)
      .bound_extent(outer, wordsTurned)
      .bound_extent(piece, pieces)
      .reorder(inner, piece, outer)
      .vectorize(inner)
      .unroll(piece);
}

/// Of columns, whose loops are a tile's, the depth's, pieces, perhaps others, and the one over tiles. `turned`: undefined where
/// they are side by side in memory.
void Contraction::scheduleWords(Func &strip, Func &turned, const LoopLevel &level, int tilesAtOnce, int pieces) {
  Var depth = KernelBuilder::var(reduced.back().name), wordBlock("words"), laneBlock("lanes"), wordOfBlock("word"),
      laneOfBlock("lane");
  strip.compute_at(level).bound_extent(lane, tile).bound_extent(Var("tile"), tilesAtOnce).bound_extent(piece, pieces);
  if (!turned.defined()) {
    strip.vectorize(lane, tileColumns).reorder(lane, piece, Var("tile"), depth).unroll(piece);
    return;
  }
  strip.align_bounds(depth, wordsTurned);
  strip
      .tile(lane, depth, laneBlock, wordBlock, laneOfBlock, wordOfBlock, wordsTurned, wordsTurned,
            TailStrategy::RoundUp)
      .reorder(laneOfBlock, wordOfBlock, piece, wordBlock, laneBlock);
  scheduleAcross(turned, LoopLevel(strip, wordBlock), depth, lane, pieces);
  b.turnedWords.push_back(
      {strip, lane.name() + "." + laneOfBlock.name(), depth.name() + "." + wordOfBlock.name()}); // parts of loops
}

} // namespace quern::codegen
