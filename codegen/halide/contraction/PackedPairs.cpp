// Takes: a contraction of rows and columns that are both in bf16. Gives: sums of their products in f32, two products in an
// instruction (vdpbf16ps).
//
//     strip[2][columns][depth / 2] = w                          once for a block of rows: pairs beside each other
//     for each tile of rows, for each pair of the depth: sums[rows x columns] += two products
//
// A row by itself (a step) waits for memory: it is multiplied in f32, and gives the same but for the order of sums.
#include "codegen/halide/contraction/PackedContraction.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inPair = 2;
static const Var part("part"), step("step");

/// The columns' number `which` of a pair, out of a strip of pairs.
Expr PackedContraction::pairsOfStrip(const Index &index, const Expr &which, const Expr &at) {
  Beside beside = besideStrip(index);
  beside.args.insert(beside.args.begin(), {part, lane, step});
  beside.call.insert(beside.call.begin(), {which, lane, at});
  beside.columns[reduced[0].name] = step * inPair + part;
  strip = b.newFunc("strip", node);
  strip(beside.args) = reinterpret(BFloat(16), packedBuffer()(packedArgs(lane, Var("tile"), beside.columns)));
  return strip(beside.call);
}

PackedContraction::Sums PackedContraction::pairSums(const std::string &name, const Expr &at) {
  RDom k(0, inPair, 0, static_cast<int32_t>(*reduced[0].fixed() / inPair));
  Index index = start(at);
  Expr column = pairsOfStrip(index, k.x, k.y);
  index[reduced[0].name] = k.y * inPair + k.x;
  Expr row = reinterpret(BFloat(16), b.at(b.graph.nodes[x].operands[0], index));
  Sums sums{b.newFunc(name, node), {k.x, k.y}, {}, {}};
  sums.pairs = true;
  sums.func(tileArgs()) = 0.0f;
  sums.func(tileArgs()) += cast<float>(column) * cast<float>(row);
  return sums;
}

void PackedContraction::schedulePairStrip(const LoopLevel &level) {
  strip.compute_at(level).bound_extent(part, inPair).bound_extent(lane, tile).bound_extent(Var("tile"), 1);
  strip.vectorize(part).vectorize(lane, vectorOfTile()).unroll(lane).unroll(step, 2, TailStrategy::GuardWithIf);
}

} // namespace quern::codegen
