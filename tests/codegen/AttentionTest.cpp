// Attention as models write it: masks, windows, biases, grouped queries, caches, sinks.
#include "codegen/AttentionPattern.h"
#include "tests/codegen/Check.h"

using namespace quern::codegen;
using quern::ir::Size;

namespace {
/// q [B, T, G, R, K], k and v [B, S, G, K] with S = past + T; K may differ for v.
struct Attention : GraphMaker {
  Size past = Size::symbol("past"), length = Size::symbol("T") + past;
  Dim B = dim("B"), T = dim("T"), S = dim("S", length), G, R, K, V;
  int q, k, v, score;

  Attention(int64_t groups, int64_t each, int64_t depth, int64_t columns, std::vector<std::pair<Kind, std::vector<Dim>>> more = {})
      : G(dim("G", groups)), R(dim("R", each)), K(dim("K", depth)), V(dim("V", columns)) {
    q = argument(Kind::Real, {B, T, G, R, K});
    int64_t row = groups * depth, vrow = groups * columns;
    k = argument(Kind::Real, {B, S, G, K}, {row * 600, row, depth, 1}); // in a cache of 600 positions
    v = argument(Kind::Real, {B, S, G, V}, {vrow * 600, vrow, columns, 1});
    for (auto &[kind, dims] : more)
      extra.push_back(argument(kind, dims));
    score = elementwise(Op::Mul, {contract(q, k, {"K"}), constant(0.3)});
  }
  std::vector<int> extra;
  int queryPosition() { return elementwise(Op::Add, {index(T), size(past)}); }
  void finishWith(int scores) { yield(contract(softmax(scores, {"S"}), v, {"S"})); }
};
} // namespace

static const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}, {"past", 0}},  {{"B", 2}, {"T", 1}, {"past", 76}},
                                             {{"B", 1}, {"T", 7}, {"past", 0}},  {{"B", 1}, {"T", 50}, {"past", 0}},
                                             {{"B", 2}, {"T", 5}, {"past", 70}}};

TEST(Attention, Causal) {
  for (auto [depth, columns] : std::vector<std::pair<int64_t, int64_t>>{{16, 16}, {8, 8}, {5, 3}, {64, 16}, {24, 40}}) {
    Attention g(2, 3, depth, columns);
    int mask = g.compare(Predicate::Le, g.index(g.S), g.queryPosition());
    g.finishWith(g.elementwise(Op::Where, {mask, g.score, g.constant(-INFINITY)}));
    checkKernel(g.finish("causal"), lengths, 1e-5);
  }
}

TEST(Attention, BoundsAreSeen) {
  Attention g(1, 1, 8, 8);
  int t = g.queryPosition(), s = g.index(g.S);
  int mask = g.elementwise(Op::And, {g.compare(Predicate::Gt, s, g.elementwise(Op::Sub, {t, g.integer(4)})), g.compare(Predicate::Ge, t, s)});
  g.finishWith(g.elementwise(Op::Where, {mask, g.score, g.constant(-INFINITY)}));
  std::vector<AttentionPattern> found = findAttention(g.finish("window"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].upper->str(), "past");
  EXPECT_EQ(found[0].lower->str(), "past - 3");
}

TEST(Attention, Window) {
  for (int64_t window : {1, 4, 70}) {
    Attention g(2, 1, 8, 8);
    int t = g.queryPosition(), s = g.index(g.S);
    int mask = g.elementwise(Op::And, {g.compare(Predicate::Lt, g.elementwise(Op::Sub, {t, g.integer(window)}), s), g.compare(Predicate::Le, s, t)});
    g.finishWith(g.elementwise(Op::Where, {mask, g.score, g.constant(-INFINITY)}));
    checkKernel(g.finish("window"), lengths, 1e-5);
  }
}

TEST(Attention, WithoutMask) {
  Attention g(2, 2, 8, 8);
  g.finishWith(g.score);
  checkKernel(g.finish("plain"), lengths, 1e-5);
}

TEST(Attention, PaddingMaskAndBias) {
  Size length = Size::symbol("T") + Size::symbol("past");
  Attention g(2, 1, 8, 8, {{Kind::Bool, {dim("B"), dim("S", length)}}, {Kind::Real, {dim("G", 2), dim("T"), dim("S", length)}}});
  int biased = g.elementwise(Op::Add, {g.score, g.extra[1]});
  g.finishWith(g.elementwise(Op::Where, {g.extra[0], biased, g.constant(-INFINITY)}));
  checkKernel(g.finish("padding"), lengths, 1e-5);
}

TEST(Attention, EverythingMasked) {
  Attention g(1, 1, 8, 8);
  int none = g.compare(Predicate::Lt, g.index(g.S), g.integer(0));
  g.finishWith(g.elementwise(Op::Where, {none, g.score, g.constant(-INFINITY)}));
  checkKernel(g.finish("nothing"), lengths, 1e-5);
}

TEST(Attention, SlopesCapAndEpilogue) { // ALiBi, soft cap, then merged heads
  Attention g(4, 1, 8, 8);
  int capped = g.elementwise(Op::Mul, {g.elementwise(Op::Tanh, {g.elementwise(Op::Div, {g.score, g.constant(5)})}), g.constant(5)});
  int slope = g.elementwise(Op::Pow, {g.constant(2), g.elementwise(Op::Neg, {g.elementwise(Op::Add, {g.elementwise(Op::ToReal, {g.index(g.G)}), g.constant(1)})})});
  int distance = g.elementwise(Op::Sub, {g.index(g.S), g.queryPosition()});
  int biased = g.elementwise(Op::Add, {capped, g.elementwise(Op::Mul, {slope, distance})});
  int mask = g.compare(Predicate::Le, g.index(g.S), g.queryPosition());
  int y = g.contract(g.softmax(g.elementwise(Op::Where, {mask, biased, g.constant(-INFINITY)}), {"S"}), g.v, {"S"});
  g.yield(g.merge(g.permute(y, {"B", "T", "G", "R", "V"}), {"G", "R", "V"}, dim("D", 32)));
  checkKernel(g.finish("alibi"), lengths, 1e-5);
}

TEST(Attention, Sink) { // one more score without a value: no family fits
  Attention g(2, 1, 8, 8, {{Kind::Real, {dim("G", 2)}}});
  Dim N = dim("N", g.length + Size(1)), one = dim("U", 1);
  int all = g.softmax(g.concat({g.score, g.unit(g.extra[0], one)}, {"S", "U"}, N), {"N"});
  g.yield(g.contract(g.cut(all, "N", Size(0), g.S), g.v, {"S"}));
  checkKernel(g.finish("sink"), lengths, 1e-5);
}

TEST(Attention, EveryTarget) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    Attention g(2, 2, 16, 16);
    int mask = g.compare(Predicate::Le, g.index(g.S), g.queryPosition());
    g.finishWith(g.elementwise(Op::Where, {mask, g.score, g.constant(-INFINITY)}));
    checkKernel(g.finish("target"), lengths, 1e-5, cpuTarget(name));
  }
}
