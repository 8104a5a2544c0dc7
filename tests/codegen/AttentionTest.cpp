// Attention as models write it: masks, windows, biases, grouped queries, caches, sinks.
#include "codegen/kernel/AttentionPattern.h"
#include "tests/codegen/support/AttentionMaker.h"
#include "tests/codegen/support/Check.h"

using namespace quern::codegen;
using quern::ir::Size;

static const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}, {"past", 0}},
                                             {{"B", 2}, {"T", 1}, {"past", 76}},
                                             {{"B", 1}, {"T", 7}, {"past", 0}},
                                             {{"B", 1}, {"T", 50}, {"past", 0}},
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
  int mask = g.elementwise(Op::And, {g.compare(Predicate::Gt, s, g.elementwise(Op::Sub, {t, g.integer(4)})),
                                     g.compare(Predicate::Ge, t, s)});
  g.finishWith(g.elementwise(Op::Where, {mask, g.score, g.constant(-INFINITY)}));
  std::vector<AttentionPattern> found = readAttentions(g.finish("window"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].upper->size.str(), "past");
  EXPECT_EQ(found[0].lower->size.str(), "past - 3");
}

TEST(Attention, Window) {
  for (int64_t window : {1, 4, 70}) {
    Attention g(2, 1, 8, 8);
    int t = g.queryPosition(), s = g.index(g.S);
    int mask = g.elementwise(Op::And, {g.compare(Predicate::Lt, g.elementwise(Op::Sub, {t, g.integer(window)}), s),
                                       g.compare(Predicate::Le, s, t)});
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
  Attention g(2, 1, 8, 8,
              {{Storage::U8, {dim("B"), dim("S", length)}}, {Storage::F32, {dim("G", 2), dim("T"), dim("S", length)}}});
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
  int capped = g.elementwise(
      Op::Mul, {g.elementwise(Op::Tanh, {g.elementwise(Op::Div, {g.score, g.constant(5)})}), g.constant(5)});
  int slope = g.elementwise(
      Op::Pow,
      {g.constant(2),
       g.elementwise(Op::Neg, {g.elementwise(Op::Add, {g.elementwise(Op::ToReal, {g.index(g.G)}), g.constant(1)})})});
  int distance = g.elementwise(Op::Sub, {g.index(g.S), g.queryPosition()});
  int biased = g.elementwise(Op::Add, {capped, g.elementwise(Op::Mul, {slope, distance})});
  int mask = g.compare(Predicate::Le, g.index(g.S), g.queryPosition());
  int y = g.attention(g.elementwise(Op::Where, {mask, biased, g.constant(-INFINITY)}), g.v, "S");
  g.yield(g.merge(g.permute(y, {"B", "T", "G", "R", "V"}), {"G", "R", "V"}, dim("D", 32)));
  checkKernel(g.finish("alibi"), lengths, 1e-5);
}

/// Bounds as text, or what was said instead.
static std::string boundsOf(const KernelGraph &graph) {
  std::vector<AttentionPattern> found = readAttentions(graph);
  if (found.size() != 1)
    return "none";
  std::string text = found[0].unbounded ? *found[0].unbounded + "; " : "";
  auto of = [](const std::optional<Position> &p) {
    return p ? p->size.str() + (p->terms.empty() ? "" : " + data") : "-";
  };
  return text + of(found[0].lower) + " .. " + of(found[0].upper);
}

TEST(Attention, MasksInEverySpelling) {
  struct Spelling {
    const char *bounds;
    std::function<int(Attention &, int, int)> score; // of key and query positions
  };
  auto where = [](Attention &g, int mask, int a, int b) { return g.elementwise(Op::Where, {mask, a, b}); };
  std::vector<Spelling> spellings = {
      {"- .. past",
       [&](Attention &g, int s, int t) { // the other way round
         return where(g, g.compare(Predicate::Gt, s, t), g.constant(-INFINITY), g.score);
       }},
      {"- .. past",
       [&](Attention &g, int s, int t) { // added
         return g.elementwise(
             Op::Add, {g.score, where(g, g.compare(Predicate::Ge, t, s), g.constant(0), g.constant(-INFINITY))});
       }},
      {"- .. past",
       [&](Attention &g, int s, int t) { // a large negative number where every query sees itself
         return where(g, g.compare(Predicate::Le, s, t), g.score, g.constant(-1e9));
       }},
      {"past - 3 .. past",
       [&](Attention &g, int s, int t) { // not (too late or too early), scaled afterwards
         int late = g.compare(Predicate::Lt, t, s),
             early = g.compare(Predicate::Le, s, g.elementwise(Op::Sub, {t, g.integer(4)}));
         int mask = g.elementwise(Op::Not, {g.elementwise(Op::Or, {late, early})});
         return g.elementwise(Op::Mul, {where(g, mask, g.score, g.constant(-INFINITY)), g.constant(2)});
       }},
      {"past - 4 .. past",
       [&](Attention &g, int s, int t) { // within blocks of five
         auto block = [&](int x) { return g.elementwise(Op::FloorDiv, {x, g.integer(5)}); };
         int mask =
             g.elementwise(Op::And, {g.compare(Predicate::Eq, block(s), block(t)), g.compare(Predicate::Le, s, t)});
         return where(g, mask, g.score, g.constant(-INFINITY));
       }},
      {"past - 3 .. past + 3",
       [&](Attention &g, int s, int t) { // to both sides
         int away = g.elementwise(Op::Abs, {g.elementwise(Op::Sub, {t, s})});
         return where(g, g.compare(Predicate::Lt, away, g.integer(4)), g.score, g.constant(-INFINITY));
       }},
      {"- .. -",
       [&](Attention &g, int s, int t) { // capped after the mask: nothing is certain
         return g.elementwise(Op::Tanh, {where(g, g.compare(Predicate::Le, s, t), g.score, g.constant(-INFINITY))});
       }},
      {"masked scores are computed: a query that sees no key would attend to them, as the mask is a finite number; "
       "-inf lets "
       "them be skipped; - .. -",
       [&](Attention &g, int s, int t) { // the first four queries see nothing
         return where(g, g.compare(Predicate::Le, s, g.elementwise(Op::Sub, {t, g.integer(4)})), g.score,
                      g.constant(-1e9));
       }},
  };
  for (Spelling &spelling : spellings) {
    Attention g(1, 1, 8, 8);
    g.finishWith(spelling.score(g, g.index(g.S), g.queryPosition()));
    EXPECT_EQ(boundsOf(g.finish("mask")), spelling.bounds);
    checkKernel(g.graph, lengths, 1e-5);
  }
}

TEST(Attention, BoundsFromData) { // each row of the batch has a past of its own
  Attention g(2, 1, 8, 8, {{Storage::I32, {dim("B")}}});
  int t = g.elementwise(Op::Add, {g.index(g.T), g.extra[0]});
  int mask =
      g.elementwise(Op::And, {g.compare(Predicate::Le, g.index(g.S), t),
                              g.compare(Predicate::Gt, g.index(g.S), g.elementwise(Op::Sub, {t, g.integer(3)}))});
  g.finishWith(g.elementwise(Op::Where, {mask, g.score, g.constant(-INFINITY)}));
  EXPECT_EQ(boundsOf(g.finish("ragged")), "-2 + data .. 0 + data");
  checkKernel(g.graph, lengths, 1e-5, cpuTarget("native"), nullptr, /*sizedByData=*/true);
}

TEST(Attention, LatentKeys) { // the sum of two products: one per head, one with keys that heads share
  Dim P = dim("P", 6);
  Attention g(2, 3, 8, 8,
              {{Storage::F32, {dim("B"), dim("T"), dim("G", 2), dim("R", 3), P}},
               {Storage::F32, {dim("B"), dim("S", Size::symbol("past") + Size::symbol("T")), P}}});
  int both = g.elementwise(Op::Add, {g.score, g.contract(g.extra[0], g.extra[1], {"P"})});
  int mask = g.compare(Predicate::Le, g.index(g.S), g.queryPosition());
  g.finishWith(g.elementwise(Op::Where, {mask, both, g.constant(-INFINITY)}));
  EXPECT_EQ(boundsOf(g.finish("latent")), "- .. past");
  checkKernel(g.graph, lengths, 1e-5);
}

TEST(Attention, InPlainOperations) { // weights that are a result of their own
  Attention g(1, 1, 8, 8);
  int weights = g.softmax(g.score, {"S"});
  g.yield(weights);
  g.yield(g.contract(weights, g.v, {"S"}));
  EXPECT_EQ(boundsOf(g.finish("weights")), "none");
  checkKernel(g.graph, {lengths[4]}, 1e-5);
}

TEST(Attention,
     LongOverManyParts) { // more keys than are held at a time, for several tasks of queries and for one query
  Attention g(1, 1, 4, 4);
  int t = g.queryPosition();
  int mask =
      g.elementwise(Op::And, {g.compare(Predicate::Le, g.index(g.S), t),
                              g.compare(Predicate::Gt, g.index(g.S), g.elementwise(Op::Sub, {t, g.integer(530)}))});
  g.finishWith(g.elementwise(Op::Where, {mask, g.score, g.constant(-INFINITY)}));
  checkKernel(
      g.finish("long"),
      {{{"B", 1}, {"T", 50}, {"past", 549}}, {{"B", 1}, {"T", 194}, {"past", 0}}, {{"B", 1}, {"T", 1}, {"past", 598}}},
      1e-5);
}

TEST(Attention, Sink) { // one more score without a value
  Attention g(2, 1, 8, 8, {{Storage::F32, {dim("G", 2)}}});
  Dim one = dim("U", 1);
  int mask = g.compare(Predicate::Le, g.index(g.S), g.queryPosition());
  int score = g.elementwise(Op::Where, {mask, g.score, g.constant(-INFINITY)});
  g.yield(g.attention(score, g.v, "S", {{g.unit(g.extra[0], one), "U"}}));
  EXPECT_EQ(boundsOf(g.finish("sink")), "- .. past");
  checkKernel(g.graph, lengths, 1e-5);
}

TEST(Attention, EveryTarget) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    Attention g(2, 2, 16, 16);
    int mask = g.compare(Predicate::Le, g.index(g.S), g.queryPosition());
    g.finishWith(g.elementwise(Op::Where, {mask, g.score, g.constant(-INFINITY)}));
    checkKernel(g.finish("target"), lengths, 1e-5, cpuTarget(name));
  }
}

/// One query, and many: a key that is no number reaches the queries that see it.
TEST(Attention, ANaNReachesWhatSeesItAlone) {
  Attention g(1, 1, 16, 16);
  g.finishWith(g.masked());
  const KernelGraph &graph = g.finish("nan");
  for (const char *target : {"native", "x86-64-v2"})
    for (auto [queries, past, at] : {std::tuple(1, 76, 30), std::tuple(50, 3, 40)}) {
      Lengths lengths = {{"B", 1}, {"T", queries}, {"past", past}};
      std::vector<DenseTensor> inputs;
      for (int i = 0; i < graph.argumentCount(); ++i)
        inputs.push_back(randomTensor(graph.nodes[i], lengths, i + 1));
      KernelRunner runner(graph, cpuTarget(target));
      runner.bind(lengths, inputs);
      ASSERT_EQ(runner.run(), 0);
      const DenseTensor before = runner.result(0);
      inputs[1].data[at * 16 + 2] = NAN;
      runner.bind(lengths, inputs);
      ASSERT_EQ(runner.run(), 0);
      const DenseTensor after = runner.result(0);
      for (int i = 0; i < queries * 16; ++i)
        if (past + i / 16 < at)
          ASSERT_EQ(before.data[i], after.data[i]) << target << ' ' << i;
        else
          ASSERT_TRUE(std::isnan(after.data[i])) << target << ' ' << i;
    }
}
