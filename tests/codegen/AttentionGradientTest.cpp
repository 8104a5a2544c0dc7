// The gradient of attention in its two kernels, and the statistics that it keeps of the forward one.
#include "codegen/kernel/AttentionGradient.h"
#include "tests/codegen/support/Check.h"

using namespace quern::codegen;
using quern::ir::Size;

namespace {
using Score = std::function<int(int)>; ///< of the scaled product: what the softmax is of, or the way back of a gradient

/// q, do [B, T, G, R, K or V], k, v [B, S, G, K or V]; statistics of rows [B, T, G, R].
struct Gradient : GraphMaker {
  Dim B = dim("B"), T = dim("T"), S, G, R, K, V;
  int q, dout, k, v, most, share, delta;
  std::vector<int> extra;

  Gradient(int64_t groups, int64_t each, int64_t depth, int64_t columns,
           std::vector<std::pair<Storage, std::vector<Dim>>> more = {}, Dim keys = dim("S"))
      : S(keys), G(dim("G", groups)), R(dim("R", each)), K(dim("K", depth)), V(dim("V", columns)) {
    q = argument(Storage::F32, {B, T, G, R, K});
    k = argument(Storage::F32, {B, S, G, K});
    dout = argument(Storage::F32, {B, T, G, R, V});
    v = argument(Storage::F32, {B, S, G, V});
    most = argument(Storage::F32, {B, T, G, R}), share = argument(Storage::F32, {B, T, G, R}),
    delta = argument(Storage::F32, {B, T, G, R});
    for (auto &[storage, dims] : more)
      extra.push_back(argument(storage, dims));
  }
  int binary(Op op, int a, int b) { return elementwise(op, {a, b}); }
  int where(int mask, int a, int b) { return elementwise(Op::Where, {mask, a, b}); }
  int causal() { return compare(Predicate::Le, index(S), index(T)); }
  int none() { return constant(-INFINITY); }
  /// p and ds, where `score` is the way from the product to the softmax and `back` that of the gradient.
  std::pair<int, int> matrices(const Score &score, const Score &back, int product = -1) {
    int x = score(binary(Op::Mul, product < 0 ? contract(q, k, {"K"}) : product, constant(0.3)));
    int p = binary(Op::Mul, elementwise(Op::Exp, {binary(Op::Sub, x, most)}), share);
    int dp = contract(dout, v, {"V"});
    return {p, binary(Op::Mul, back(binary(Op::Mul, p, binary(Op::Sub, dp, delta))), constant(0.3))};
  }
  KernelGraph &queries(const Score &score, const Score &back) {
    yield(weightedSum(matrices(score, back).second, k, "S"));
    return finish("dq");
  }
  KernelGraph &keys(const Score &score, const Score &back) {
    auto [p, ds] = matrices(score, back);
    yield(weightedSum(p, dout, "T"));
    yield(weightedSum(ds, q, "T"));
    return finish("dk, dv");
  }
};

const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}, {"S", 1}},
                                      {{"B", 2}, {"T", 7}, {"S", 5}},
                                      {{"B", 1}, {"T", 50}, {"S", 50}},
                                      {{"B", 1}, {"T", 33}, {"S", 70}},
                                      {{"B", 2}, {"T", 70}, {"S", 33}}};

std::string boundsOf(const KernelGraph &graph) {
  std::optional<GradientPattern> found = readAttentionGradient(graph);
  if (!found)
    return "none";
  auto of = [](const std::optional<Position> &p) { return p ? p->size.str() : "-"; };
  return of(found->frame.lower) + " .. " + of(found->frame.upper);
}

struct Case {
  const char *what, *ofQueries, *ofKeys; ///< bounds
  int64_t groups, each, depth, columns;
  std::function<std::pair<Score, Score>(Gradient &)> expressions;
};

std::vector<Case> cases() {
  auto masked = [](std::function<int(Gradient &)> mask, double nothing = -INFINITY) {
    return [mask, nothing](Gradient &g) -> std::pair<Score, Score> {
      int m = mask(g);
      return {[&g, m, nothing](int s) { return g.where(m, s, g.constant(nothing)); },
              [&g, m](int d) { return g.where(m, d, g.constant(0)); }};
    };
  };
  auto causal = [](Gradient &g) { return g.causal(); };
  auto window = [](Gradient &g) { // the last five
    return g.binary(Op::And, g.causal(),
                    g.compare(Predicate::Gt, g.index(g.S), g.binary(Op::Sub, g.index(g.T), g.integer(5))));
  };
  auto early = [](Gradient &g) {
    return g.compare(Predicate::Lt, g.index(g.S), g.binary(Op::Sub, g.index(g.T), g.integer(40)));
  };
  auto capped = [](Gradient &g) -> std::pair<Score, Score> { // c tanh(s / c), and slopes by distance
    int m = g.causal(),
        slope = g.binary(Op::Pow, g.constant(2), g.elementwise(Op::Neg, {g.elementwise(Op::ToReal, {g.index(g.G)})}));
    int distance = g.binary(Op::Mul, slope, g.binary(Op::Sub, g.index(g.S), g.index(g.T)));
    auto cap = std::make_shared<int>();
    return {[&g, m, distance, cap](int s) {
              *cap = g.elementwise(Op::Tanh, {g.binary(Op::Div, s, g.constant(5))});
              return g.where(m, g.binary(Op::Add, g.binary(Op::Mul, *cap, g.constant(5)), distance), g.none());
            },
            [&g, m, cap](int d) {
              int slopeOfCap = g.binary(Op::Sub, g.constant(1), g.binary(Op::Mul, *cap, *cap));
              return g.binary(Op::Mul, g.where(m, d, g.constant(0)), slopeOfCap);
            }};
  };
  auto same = [](Gradient &) -> std::pair<Score, Score> { return {[](int s) { return s; }, [](int d) { return d; }}; };
  return {{"no mask", "- .. -", "- .. -", 2, 1, 8, 8, same},
          {"causal", "- .. 0", "0 .. -", 2, 1, 16, 16, masked(causal)},
          {"grouped", "- .. 0", "0 .. -", 2, 3, 8, 8, masked(causal)},
          {"odd sizes", "- .. 0", "0 .. -", 1, 2, 5, 3, masked(causal)},
          {"wider values", "- .. 0", "0 .. -", 1, 1, 24, 40, masked(causal)},
          {"window", "-4 .. 0", "0 .. 4", 2, 1, 8, 8, masked(window)},
          {"a finite number as mask", "- .. 0", "0 .. -", 1, 1, 8, 8, masked(causal, -1e9)},
          {"a finite mask that leaves rows nothing", "- .. -", "- .. -", 1, 1, 8, 8, masked(early, -1e9)},
          {"rows that see nothing", "- .. -41", "41 .. -", 1, 1, 8, 8, masked(early)},
          {"cap and slopes", "- .. 0", "0 .. -", 4, 1, 8, 8, capped}};
}
} // namespace

TEST(AttentionGradient, OfQueries) {
  for (Case &one : cases()) {
    SCOPED_TRACE(one.what);
    Gradient g(one.groups, one.each, one.depth, one.columns);
    auto [score, back] = one.expressions(g);
    KernelGraph &graph = g.queries(score, back);
    EXPECT_EQ(boundsOf(graph), one.ofQueries);
    checkKernel(graph, lengths, 2e-5);
  }
}

TEST(AttentionGradient, OfKeysAndValues) {
  for (Case &one : cases()) {
    SCOPED_TRACE(one.what);
    Gradient g(one.groups, one.each, one.depth, one.columns);
    auto [score, back] = one.expressions(g);
    KernelGraph &graph = g.keys(score, back);
    EXPECT_EQ(boundsOf(graph), one.ofKeys);
    checkKernel(graph, lengths, 2e-5);
  }
}

TEST(AttentionGradient, PaddingAndLatentKeys) { // a mask from data; two products, one with keys that heads share
  for (bool ofKeys : {false, true}) {
    Dim P = dim("P", 6);
    Gradient g(2, 2, 8, 8,
               {{Storage::U8, {dim("B"), dim("S")}},
                {Storage::F32, {dim("B"), dim("T"), dim("G", 2), dim("R", 2), P}},
                {Storage::F32, {dim("B"), dim("S"), P}}});
    int product = g.binary(Op::Add, g.contract(g.q, g.k, {"K"}), g.contract(g.extra[1], g.extra[2], {"P"}));
    auto [p, ds] = g.matrices([&](int s) { return g.where(g.extra[0], s, g.none()); },
                              [&](int d) { return g.where(g.extra[0], d, g.constant(0)); }, product);
    if (ofKeys) {
      g.yield(g.weightedSum(p, g.dout, "T"));
      g.yield(g.weightedSum(ds, g.extra[1], "T"));
      g.yield(g.weightedSum(ds, g.q, "T"));
    } else {
      g.yield(g.weightedSum(ds, g.extra[2], "S"));
      g.yield(g.weightedSum(ds, g.k, "S"));
    }
    KernelGraph &graph = g.finish("latent");
    EXPECT_EQ(boundsOf(graph), "- .. -");
    checkKernel(graph, lengths, 2e-5);
  }
}

TEST(AttentionGradient, LongOverManyParts) { // more than is held at a time, several tasks
  for (bool ofKeys : {false, true}) {
    Gradient g(1, 1, 4, 4);
    int m = g.causal();
    Score score = [&](int s) { return g.where(m, s, g.none()); },
          back = [&](int d) { return g.where(m, d, g.constant(0)); };
    checkKernel(ofKeys ? g.keys(score, back) : g.queries(score, back), {{{"B", 1}, {"T", 600}, {"S", 600}}}, 5e-5);
  }
}

TEST(MoreAttentionGradient, EveryTarget) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"})
    for (bool ofKeys : {false, true}) {
      Gradient g(2, 2, 16, 16);
      int m = g.causal();
      Score score = [&](int s) { return g.where(m, s, g.none()); },
            back = [&](int d) { return g.where(m, d, g.constant(0)); };
      checkKernel(ofKeys ? g.keys(score, back) : g.queries(score, back), {lengths[2]}, 2e-5, cpuTarget(name));
    }
}

TEST(AttentionGradient,
     SumsOfTheWeightsAlone) { // a column of ones beside others, or by itself: what scores have for each query or key
  for (bool ofKeys : {false, true})
    for (bool alone : {false, true}) {
      Gradient g(2, 3, 8, 8);
      int m = g.causal();
      auto [p, ds] = g.matrices([&](int s) { return g.where(m, s, g.none()); },
                                [&](int d) { return g.where(m, d, g.constant(0)); });
      int ones = g.expand(g.constant(1), {ofKeys ? g.T : g.S, dim("one", 1)});
      g.yield(g.weightedSum(ds, ones, ofKeys ? "T" : "S"));
      if (!alone)
        g.yield(g.weightedSum(ds, ofKeys ? g.q : g.k, ofKeys ? "T" : "S"));
      KernelGraph &graph = g.finish("ones");
      EXPECT_EQ(boundsOf(graph), ofKeys ? "0 .. -" : "- .. 0");
      checkKernel(graph, {lengths[1], lengths[3]}, 2e-5);
    }
}

// ---- along diagonals

/// ds summed for each distance of a key from a query, as Differentiate writes it; `near` [N, G, R] is what is learned
/// for each. `rising`: by key - query, else by query - key.
static KernelGraph &diagonals(Gradient &g, const std::function<std::pair<Score, Score>(Gradient &)> &expressions,
                              bool rising, bool learned) {
  Dim N = dim("N", Size::symbol("S") + Size::symbol("T"));
  int apart = rising ? g.binary(Op::Sub, g.index(g.S), g.index(g.T)) : g.binary(Op::Sub, g.index(g.T), g.index(g.S));
  int positions = g.binary(Op::Add, apart, g.size(Size::symbol(rising ? "T" : "S")));
  auto [score, back] = expressions(g);
  int product = g.contract(g.q, g.k, {"K"});
  if (learned)
    product = g.binary(Op::Add, product, g.expand(g.gather(g.extra[0], positions, "N"), {g.B, g.T, g.G, g.R, g.S}));
  int ds = g.matrices(score, back, product).second;
  g.yield(g.distanceSum(ds, rising ? "S" : "T", rising ? "T" : "S", "S", Size::symbol(rising ? "T" : "S"), N));
  return g.finish("diagonals");
}

static std::vector<std::pair<Storage, std::vector<Dim>>> tableOf(int64_t groups, int64_t each) {
  return {{Storage::F32, {dim("N", Size::symbol("S") + Size::symbol("T")), dim("G", groups), dim("R", each)}}};
}

static void checkDiagonals(bool first) { // of each case in one direction: in turns
  bool rising = first;
  for (Case &one : cases()) {
    SCOPED_TRACE(one.what);
    Gradient g(one.groups, one.each, one.depth, one.columns, tableOf(one.groups, one.each));
    KernelGraph &graph = diagonals(g, one.expressions, rising, /*learned=*/rising);
    EXPECT_EQ(boundsOf(graph), one.ofQueries);
    std::optional<GradientPattern> found = readAttentionGradient(graph);
    ASSERT_TRUE(found && found->diagonals);
    EXPECT_EQ(found->diagonals->sign, rising ? 1 : -1);
    checkKernel(graph, lengths, 2e-5);
    rising = !rising;
  }
}

TEST(AttentionGradient, AlongDiagonals) {
  checkDiagonals(true);
}

TEST(MoreAttentionGradient, AlongDiagonals) {
  checkDiagonals(false);
}

TEST(MoreAttentionGradient, AlongLongDiagonalsOnEveryTarget) { // several parts of keys, many blocks of queries
  auto causal = [](Gradient &g) -> std::pair<Score, Score> {
    int m = g.causal();
    return {[&g, m](int s) { return g.where(m, s, g.none()); },
            [&g, m](int d) { return g.where(m, d, g.constant(0)); }};
  };
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    Gradient g(1, 1, 4, 4, tableOf(1, 1));
    checkKernel(diagonals(g, causal, true, true),
                {{{"B", 1}, {"T", 290}, {"S", 300}}, {{"B", 2}, {"T", 1}, {"S", 300}}}, 1e-4, cpuTarget(name));
  }
}

// ---- what is kept of the softmax

TEST(AttentionGradient, StatisticsOfTheSoftmax) {
  for (bool sink : {false, true})
    for (int64_t shift : {0, 3}) { // the first three queries see nothing
      GraphMaker g;
      Dim B = dim("B"), T = dim("T"), S = dim("S"), G = dim("G", 2), R = dim("R", 2), K = dim("K", 8), V = dim("V", 12);
      int q = g.argument(Storage::F32, {B, T, G, R, K}), k = g.argument(Storage::F32, {B, S, G, K}),
          v = g.argument(Storage::F32, {B, S, G, V});
      int z = sink ? g.argument(Storage::F32, {G}) : -1;
      int mask = g.compare(Predicate::Le, g.index(S), g.elementwise(Op::Sub, {g.index(T), g.integer(shift)}));
      int score = g.elementwise(Op::Where, {mask, g.contract(q, k, {"K"}), g.constant(-INFINITY)});
      std::vector<std::pair<int, std::string>> sinks;
      if (sink)
        sinks = {{g.unit(z, dim("U", 1)), "U"}};
      int y = g.attention(score, v, "S", sinks);
      auto [most, share] = g.statistics(y);
      for (int result : {y, most, share})
        g.yield(result);
      KernelGraph &graph = g.finish("statistics");
      std::vector<AttentionPattern> found = readAttentions(graph);
      ASSERT_EQ(found.size(), 1u);
      EXPECT_GE(found[0].shift, 0);
      checkKernel(graph, lengths, 1e-5);
    }
}
