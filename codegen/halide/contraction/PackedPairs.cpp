// Takes: a contraction of rows and columns that are both in bf16. Gives: sums of their products in f32, two products in an
// instruction (vdpbf16ps).
//
//     for each tile of rows, for each pair of the depth: sums[rows x columns] += two products
//
// Columns are packed in pairs (beside = 2), which are the instruction's operand.
//
// A row by itself (a step) waits for memory: it is multiplied in f32, and gives the same but for the order of sums.
#include "codegen/halide/contraction/PackedContraction.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inPair = 2;

/// The columns' number `which` of pair `at`: a half of a word, read as one. The buffer's elements are words, so all places are counted
/// in halves.
Expr PackedContraction::halfOfPair(Index index, const Expr &which, const Expr &at) const {
  index[reduced[0].name] = at;
  std::vector<Expr> args = packedArgs(lane, Var("tile"), index);
  for (Expr &arg : args)
    arg = arg * inPair;
  args[0] = args[0] + which;
  const ImageParam &words = packedBuffer();
  return reinterpret(BFloat(16), Internal::Call::make(UInt(16), words.name(), args, Internal::Call::Image,
                                                      Internal::FunctionPtr(), 0, Buffer<>(), words.parameter()));
}

PackedContraction::Sums PackedContraction::pairSums(const std::string &name, const Expr &at) {
  RDom k(0, inPair, 0, static_cast<int32_t>(*reduced[0].fixed() / inPair));
  Index index = start(at);
  Expr column = halfOfPair(index, k.x, k.y);
  index[reduced[0].name] = k.y * inPair + k.x;
  Expr row = reinterpret(BFloat(16), b.at(b.graph.nodes[x].operands[0], index));
  Sums sums{b.newFunc(name, node), {k.x, k.y}, {}, {}};
  sums.pairs = true;
  sums.func(tileArgs()) = 0.0f;
  sums.func(tileArgs()) += cast<float>(column) * cast<float>(row);
  return sums;
}

} // namespace quern::codegen
