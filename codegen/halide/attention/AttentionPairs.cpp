// Takes: blocks of rows of an attention whose products multiply bf16 (AttentionBlocks.cpp). Gives: these products two at a time
// (vdpbf16ps), in the same loops: a word is two numbers, of the depth or of two keys.
//
//   queries[word of the depth][row], keys[key][word of the depth]
//   dot[key][row] += the products of two words
//   words[two keys][row] of the weights, values[two keys][column]
//   sums[column][row] += the products of two words; a row's total is the sum of its words' numbers
#include "codegen/halide/attention/AttentionFamily.h"

#include "codegen/halide/Math.h"
#include "codegen/halide/words/PairProducts.h"
#include "codegen/halide/words/Pieces.h"

using namespace Halide;

namespace quern::codegen {

static const Var word("word");

/// Whether whole blocks of its words are turned in registers.
bool AttentionFamily::turnsQueries(const Dim &depth) const {
  return width == wordsTurned && *depth.fixed() % (inPair * wordsTurned) == 0;
}

Func AttentionFamily::pairedDot(const AttentionDot &dot, const Index &where) {
  const Dim &depth = dot.depth[0];
  auto wordAt = [&](int node, Index index) {
    auto number = [&](int half) {
      index[depth.name] = word * inPair + half;
      return b.real(node, index);
    };
    return wordOf(number(0), number(1), 0);
  };
  Func copy = b.newFunc("queries", dot.node), across = b.newFunc("words", dot.node),
       keyCopy = b.newFunc("keys", dot.node), product = b.newFunc("dot", dot.node);
  const std::vector<Var> places = asVars(headArgs({row, word, tile}));
  if (turnsQueries(depth))
    defineTurned(copy, across, places, wordAt(dot.q, where));
  else
    copy(places) = wordAt(dot.q, where);
  Index ofKey = KernelBuilder::varsOf(p.heads);
  ofKey[p.key.name] = min(key, b.extent(p.key.size) - 1);
  keyCopy(asVars(headArgs({word, key}))) = wordAt(dot.k, ofKey);
  RDom r(0, static_cast<int32_t>(*depth.fixed() / inPair));
  std::vector<Expr> args = headArgs({row, key, tile});
  product(asVars(args)) = 0.0f;
  product(args) += pairProduct(keyCopy(headArgs({r, key})), copy(headArgs({row, r, tile})));
  depths.push_back(r.x);
  queries.push_back(copy), queriesAcross.push_back(across), keys.push_back(keyCopy);
  return product;
}

void AttentionFamily::makePairedSums(const std::vector<Expr> &args) {
  const int columns = static_cast<int>(*p.column.fixed());
  words = b.newFunc("weights", p.result);
  auto weightAt = [&](const Expr &of) { return cast<uint32_t>(math::narrow(weight(headArgs({row, of, part, tile})))); };
  words(asVars(headArgs({row, word, part, tile}))) = weightAt(word * inPair) | weightAt(word * inPair + 1)
                                                                                   << cast<uint32_t>(16);
  values(asVars(headArgs({column, word}))) =
      wordOf(valueAt(column, word * inPair), valueAt(column, word * inPair + 1), 0);
  const int inStep = step / inPair;
  Expr seen = seenSteps(inStep), at = seen * inStep + inGroup, factor = words(headArgs({row, at, part, tile}));
  auto upper = [](const Expr &bits) {
    return reinterpret<float>(bits & Internal::UIntImm::make(UInt(32), 0xffff0000u));
  };
  total(headArgs({row, part, tile})) += upper(factor) + upper(factor << cast<uint32_t>(16));
  sums(asVars(args)) = 0.0f;
  sums(args) += pairProduct(values(headArgs({columnOf(columns), at})), factor);
}

void AttentionFamily::scheduleTurned(size_t i, const LoopLevel &level) {
  Var rows("rows"), rowOfBlock("row"), wordsOf("words"), wordOfBlock("word");
  queries[i]
      .compute_at(level)
      .bound_extent(row, lanes)
      .bound(word, 0, static_cast<int32_t>(*p.dots[i].depth[0].fixed() / inPair))
      .split(row, rows, rowOfBlock, wordsTurned, TailStrategy::RoundUp)
      .split(word, wordsOf, wordOfBlock, wordsTurned)
      .reorder(rowOfBlock, wordOfBlock, wordsOf, rows);
  queriesAcross[i]
      .compute_at(queries[i], wordsOf)
      .bound_extent(word, wordsTurned)
      .bound_extent(row, wordsTurned)
      .reorder(word, row)
      .vectorize(word);
  b.turnedWords.push_back({queries[i], row.name() + "." + rowOfBlock.name(), word.name() + "." + wordOfBlock.name()});
}

} // namespace quern::codegen
