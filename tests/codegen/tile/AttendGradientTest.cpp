// The gradient of attention by tensor cores, in its two kernels, against plain loops over their graphs.
#include "codegen/tile/TileProducer.h"
#include "codegen/tile/attend/DivideAttention.h"
#include "tests/codegen/tile/TileCheck.h"

#include <gmock/gmock.h>

using namespace quern::codegen;

namespace {
using Score = std::function<int(int)>; ///< of the scaled product: what the softmax is of, or the way back of a gradient

/// q, do [B, T, G, R, K or V], k, v [B, S, G, K or V]; statistics of rows [B, T, G, R].
struct Gradient : tile::Maker {
  Dim B = dim("B"), T = dim("T"), S = dim("S"), G, R, K, V;
  int q, dout, k, v, most, share, delta;

  Gradient(Storage kept, int64_t groups, int64_t each, int64_t depth, int64_t columns)
      : G(dim("G", groups)), R(dim("R", each)), K(dim("K", depth)), V(dim("V", columns)) {
    q = argument(kept, {B, T, G, R, K}), k = argument(kept, {B, S, G, K});
    dout = argument(Storage::F32, {B, T, G, R, V}), v = argument(kept, {B, S, G, V});
    most = argument(Storage::F32, {B, T, G, R}), share = argument(Storage::F32, {B, T, G, R}),
    delta = argument(Storage::F32, {B, T, G, R});
    if (kept == Storage::BF16)
      q = widen(q), k = widen(k), v = widen(v);
  }
  int binary(Op op, int a, int b) { return elementwise(op, {a, b}); }
  int where(int mask, int a, int b) { return elementwise(Op::Where, {mask, a, b}); }
  /// p and ds, where `score` is the way from the product to the softmax and `back` that of the gradient.
  std::pair<int, int> matrices(const Score &score, const Score &back) {
    int x = score(binary(Op::Mul, contract(q, k, {"K"}), constant(0.3)));
    int p = binary(Op::Mul, elementwise(Op::Exp, {binary(Op::Sub, x, most)}), share);
    int dp = contract(dout, v, {"V"});
    return {p, binary(Op::Mul, back(binary(Op::Mul, p, binary(Op::Sub, dp, delta))), constant(0.3))};
  }
  const KernelGraph &queries(const Score &score, const Score &back) {
    yield(weightedSum(matrices(score, back).second, k, "S"));
    return finish("dq");
  }
  const KernelGraph &keys(const Score &score, const Score &back) {
    auto [p, ds] = matrices(score, back);
    yield(weightedSum(p, dout, "T"));
    yield(narrow(weightedSum(ds, q, "T")));
    return finish("dk, dv");
  }
};

const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}, {"S", 1}},
                                      {{"B", 2}, {"T", 7}, {"S", 5}},
                                      {{"B", 1}, {"T", 33}, {"S", 70}},
                                      {{"B", 1}, {"T", 50}, {"S", 50}}};

void check(const KernelGraph &graph, double tolerance, int pieces = 3) {
  std::mt19937 random(unsigned(graph.nodes.size()));
  for (tile::AttendNumbers numbers : {tile::AttendNumbers{32, 32, 2, 2, 16, 4, 3}, {64, 16, 3, 2, 0, 1, 3}}) {
    numbers.pieces = pieces;
    tile::Numbers all;
    all.attend = numbers;
    tile::checkVariants(graph, all, lengths, tolerance, "keys " + std::to_string(numbers.keys), random);
    if (testing::Test::HasFailure())
      return;
  }
}

/// Keys of a mask and what is beyond it counts nothing.
std::pair<Score, Score> masked(Gradient &g, int mask) {
  return {[&g, mask](int s) { return g.where(mask, s, g.constant(-INFINITY)); },
          [&g, mask](int d) { return g.where(mask, d, g.constant(0)); }};
}

/// Both kernels; the mask is made by `mask`, or there is none.
void bothKernels(Storage kept, int64_t groups, int64_t each, int64_t depth, int64_t columns,
                 const std::function<int(Gradient &)> &mask, double tolerance = 1e-4, int pieces = 3) {
  for (bool ofKeys : {false, true}) {
    SCOPED_TRACE(ofKeys ? "of keys" : "of queries");
    Gradient g(kept, groups, each, depth, columns);
    auto same = [](int x) { return x; };
    auto [score, back] = mask ? masked(g, mask(g)) : std::pair<Score, Score>(same, same);
    check(ofKeys ? g.keys(score, back) : g.queries(score, back), ofKeys ? std::max(tolerance, 8e-3) : tolerance,
          pieces);
  }
}
int causal(Gradient &g) {
  return g.compare(Predicate::Le, g.index(g.S), g.index(g.T));
}
} // namespace

TEST(AttendGradient, Causal) {
  bothKernels(Storage::BF16, 2, 1, 16, 16, causal);
}

TEST(AttendGradient, WithoutMask) {
  bothKernels(Storage::F32, 1, 1, 8, 8, nullptr);
}

TEST(AttendGradient, GroupedAtOddSizes) {
  bothKernels(Storage::F32, 1, 3, 5, 3, causal);
}

TEST(AttendGradient, Window) {
  bothKernels(Storage::BF16, 2, 2, 8, 24, [](Gradient &g) {
    int early = g.binary(Op::Sub, g.index(g.T), g.integer(5));
    return g.binary(Op::And, causal(g), g.compare(Predicate::Gt, g.index(g.S), early));
  });
}

TEST(AttendGradient, OnePiece) {
  bothKernels(Storage::BF16, 1, 1, 32, 32, causal, 1e-4, 1);
}

TEST(AttendGradient, DiagonalsAreNoTiles) {
  Gradient g(Storage::F32, 1, 1, 8, 8);
  int ds = g.matrices([](int s) { return s; }, [](int d) { return d; }).second;
  g.yield(g.distanceSum(ds, "S", "T", "S", quern::ir::Size::symbol("T"),
                        dim("D", quern::ir::Size::symbol("S") + quern::ir::Size::symbol("T"))));
  tile::Program program;
  EXPECT_THAT(tile::divide(g.finish("diagonals"), {}, program).value_or("nothing"), testing::HasSubstr("diagonals"));
}
