// Takes: blocks of rows of an attention (AttentionBlocks.cpp). Gives: their products by AMX's registers, as loops that
// TileProducts.cpp replaces. Numbers of f32 are three pieces of bf16 (codegen/kernel/TileTerms.h); a word is two numbers.
//
//   queries[row][words of the depth][pieces]                      copies, turned: columns of tiles
//   for each part of the keys
//     keys[depth in 32][16 keys][pieces], values[words of 32 keys][16 columns][pieces]      copies in tiles, values turned
//     for each block
//       dot[key][row], of 32 keys at a time: keys' tiles x queries
//       words[row][words of 32 keys][pieces] of the weights; beside the pieces, the two weights' sum
//       sums[column][row]: values' tiles x words, over the keys that the block sees
//
// Keys come in steps of 32: those behind a bound are scored as the mask says, so their weights are 0.
#include "codegen/halide/attention/AttentionFamily.h"

#include "codegen/halide/words/Pieces.h"
#include "codegen/kernel/ContractionPattern.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

static constexpr int inWord = 2, wordsOfTile = depthOfTile / inWord;
static const Var word("word"), number("number"), ofTile("ofTile"), piece("piece"), depthStep("step"),
    keyTile("keyTile"), columnTile("columnTile"), inStep("inStep"), stepOfKeys("stepOfKeys");

static int32_t tilesOf(int64_t length, int64_t tile) {
  return static_cast<int32_t>((length + tile - 1) / tile);
}

static Expr pieceAmong(int count) {
  return count > 1 ? Expr(piece) : Expr(0);
}

Func AttentionFamily::tiledDot(const AttentionDot &dot, const Index &where) {
  const Dim &depth = dot.depth[0];
  const int32_t size = static_cast<int32_t>(*depth.fixed());
  const int ofQueries = piecesOf(b.graph, dot.q), ofKeys = piecesOf(b.graph, dot.k);
  const std::vector<TileTerm> products = termsOf(ofKeys, ofQueries);
  auto numberAt = [&](int node, Index index, const Expr &position) {
    if (size % depthOfTile == 0) {
      index[depth.name] = position;
      return b.real(node, index);
    }
    index[depth.name] = min(position, size - 1);
    return select(position < size, b.real(node, index), 0.0f);
  };

  Func copy = b.newFunc("queries", dot.node), across = b.newFunc("words", dot.node);
  Expr first = (depthStep * wordsOfTile + word) * inWord;
  defineTurned(copy, across, asVars(headArgs({row, word, piece, depthStep, tile})),
               wordOf(numberAt(dot.q, where, first), numberAt(dot.q, where, first + 1), pieceAmong(ofQueries)));
  queries.push_back(copy), queriesAcross.push_back(across);

  Func keyCopy = b.newFunc("keys", dot.node);
  Index ofKey = KernelBuilder::varsOf(p.heads);
  ofKey[p.key.name] = min(keyTile * tileRows + ofTile, b.extent(p.key.size) - 1);
  keyCopy(asVars(headArgs({number, ofTile, piece, depthStep, keyTile}))) =
      pieceOf(numberAt(dot.k, ofKey, depthStep * depthOfTile + number), pieceAmong(ofKeys));
  keys.push_back(keyCopy);

  RDom r(0, tilesOf(size, depthOfTile) * wordsOfTile, 0, static_cast<int32_t>(products.size()));
  Expr key = keyCopy(headArgs({r.x * inWord % depthOfTile, inStep % tileRows, rowPiece(products, r.y),
                               r.x * inWord / depthOfTile, stepOfKeys * (step / tileRows) + inStep / tileRows}));
  Expr query = copy(headArgs({row, r.x % wordsOfTile, columnPiece(products, r.y), r.x / wordsOfTile, tile}));
  Func sum = b.newFunc("dot", dot.node);
  std::vector<Expr> args = headArgs({row, inStep, stepOfKeys, tile});
  sum(asVars(args)) = undef<float>();
  sum(args) += tileProduct(key, query, step);
  steps.push_back(r.x), terms.push_back(r.y);
  return sum;
}

void AttentionFamily::makeTiledSums(const std::vector<Expr> &args) {
  const int columns = static_cast<int>(*p.column.fixed()), ofValues = piecesOf(b.graph, p.v),
            ofWeights = piecesOfWeights(p);
  const std::vector<TileTerm> products = termsOf(ofValues, ofWeights);
  valuesAcross = b.newFunc("words", p.result);
  Expr first = (stepOfKeys * wordsOfTile + word) * inWord, at = min(columnTile * tileRows + ofTile, columns - 1);
  if (columns % tileRows == 0)
    at = columnTile * tileRows + ofTile;
  defineTurned(values, valuesAcross, asVars(headArgs({word, ofTile, piece, stepOfKeys, columnTile})),
               wordOf(valueAt(at, first), valueAt(at, first + 1), pieceAmong(ofValues)));
  words = b.newFunc("weights", p.result);
  auto weightAt = [&](const Expr &of) { return rounded(weight(headArgs({row, of, part, tile}))); };
  Expr one = weightAt(first), other = weightAt(first + 1);
  words(asVars(headArgs({row, word, piece, stepOfKeys, part, tile}))) =
      select(piece == ofWeights, reinterpret<uint32_t>(one + other), wordOf(one, other, piece));
  Expr seen = seenSteps(wordsOfTile);
  total(headArgs({row, part, tile})) +=
      reinterpret<float>(words(headArgs({row, inGroup, ofWeights, seen, part, tile})));

  const int perPart = chunk / step;
  RDom r(0, perPart * wordsOfTile, 0, static_cast<int32_t>(products.size()));
  Expr begin = part * perPart, end = begin + (perPart - 1);
  Expr from = max(firstKey / step, begin), to = min(lastKey / step, end);
  // Where a part has no key that is seen, as seenKeys has it.
  Expr now = unsafe_promise_clamped(begin + r.x / wordsOfTile, clamp(firstKey / step, begin, end),
                                    clamp(lastKey / step, begin, end));
  Expr ofWord = r.x % wordsOfTile;
  Expr value = values(headArgs({ofWord, column % tileRows, rowPiece(products, r.y), now, column / tileRows}));
  Expr factor = words(headArgs({row, ofWord, columnPiece(products, r.y), now, part, tile}));
  sums(asVars(args)) = undef<float>();
  sums(args) += tileProduct(value, factor, tilesOf(columns, tileRows) * tileRows, from - begin, max(to - from + 1, 0));
  steps.push_back(r.x), terms.push_back(r.y);
}

void AttentionFamily::scheduleTiles(const LoopLevel &level) {
  Var rowTile("rt"), stepTile("kt"), inRow("ri"), inKey("ki"), rowBlock("rows"), rowOfBlock("row");
  auto takeTiles = [&](Func &func, size_t i, const Var &ofRow) {
    func.update().reorder({steps[i], terms[i], row, ofRow});
    b.tileSums.push_back({func, row.name(), ofRow.name(), "", steps[i].name(), "", terms[i].name()});
  };
  partial.split(row, rowTile, inRow, span);
  partial.reorder(inRow, column, rowTile, tile, part).vectorize(inRow, width).unroll(inRow);
  score.align_bounds(key, step);
  score.split(row, rowTile, inRow, span).split(key, stepTile, inKey, step, TailStrategy::RoundUp);
  score.reorder(inRow, inKey, rowTile, stepTile)
      .vectorize(inRow, width)
      .unroll(inRow)
      .unroll(inKey, std::min(unroll, step));
  for (size_t i = 0; i < dots.size(); ++i) {
    const int ofQueries = piecesOf(b.graph, p.dots[i].q), ofKeys = piecesOf(b.graph, p.dots[i].k);
    const int32_t ofDepth = tilesOf(*p.dots[i].depth[0].fixed(), depthOfTile);
    queries[i]
        .compute_at(level)
        .bound_extent(row, lanes)
        .bound(word, 0, wordsOfTile)
        .bound(piece, 0, ofQueries)
        .bound(depthStep, 0, ofDepth)
        .split(row, rowBlock, rowOfBlock, wordsTurned, TailStrategy::RoundUp)
        .reorder(rowOfBlock, word, piece, depthStep, rowBlock);
    scheduleAcross(queriesAcross[i], LoopLevel(queries[i], depthStep), word, row, piece, ofQueries);
    b.turnedWords.push_back({queries[i], row.name() + "." + rowOfBlock.name(), word.name()});
    keys[i]
        .compute_at(partial, part)
        .bound(number, 0, depthOfTile)
        .bound(ofTile, 0, tileRows)
        .bound(piece, 0, ofKeys)
        .bound(depthStep, 0, ofDepth)
        .reorder(number, piece, depthStep, ofTile, keyTile)
        .vectorize(number)
        .unroll(piece);
    b.fetchRowsAhead(keys[i], ofTile, p.dots[i].k);
    dots[i]
        .compute_at(score, rowTile)
        .bound_extent(tile, 1)
        .bound_extent(row, span)
        .bound(inStep, 0, step)
        .bound_extent(stepOfKeys, 1);
    takeTiles(dots[i], i, inStep);
  }

  const int ofValues = piecesOf(b.graph, p.v);
  const int32_t ofColumns = tilesOf(*p.column.fixed(), tileRows);
  values.compute_at(partial, part)
      .bound(word, 0, wordsOfTile)
      .bound(ofTile, 0, tileRows)
      .bound(piece, 0, ofValues)
      .bound(columnTile, 0, ofColumns)
      .reorder(word, ofTile, piece, columnTile, stepOfKeys);
  scheduleAcross(valuesAcross, LoopLevel(values, columnTile), ofTile, word, piece, ofValues);
  b.turnedWords.push_back({values, word.name(), ofTile.name()});
  b.fetchRowsAhead(values, stepOfKeys, p.v, step);
  words.compute_at(partial, tile)
      .bound_extent(tile, 1)
      .bound_extent(row, lanes)
      .bound(word, 0, wordsOfTile)
      .bound(piece, 0, piecesOfWeights(p) + 1)
      .reorder(row, piece, word, stepOfKeys)
      .vectorize(row, width)
      .unroll(row)
      .unroll(piece);
  weight.compute_at(words, word).bound_extent(row, lanes).vectorize(row, width).unroll(row).unroll(key);
  sums.compute_at(partial, rowTile)
      .bound_extent(tile, 1)
      .bound_extent(row, span)
      .bound(column, 0, ofColumns * tileRows);
  takeTiles(sums, dots.size(), column);
}

} // namespace quern::codegen
