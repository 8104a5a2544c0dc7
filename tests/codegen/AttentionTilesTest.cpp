// Attention by AMX's tile registers: the numbers, where the processor has them; everywhere that it is compiled for them, and
// that nothing else asks for them.
#include "codegen/halide/HalideProducer.h"
#include "tests/codegen/support/AttentionMaker.h"
#include "tests/codegen/support/Check.h"
#include "tests/codegen/support/DrawnPlan.h"
#include "tests/codegen/support/Instructions.h"

#include <gmock/gmock.h>

#include <random>

using namespace quern::codegen;
using quern::ir::Size;

namespace {

const CpuTarget &withTiles() {
  static const CpuTarget target = cpuTarget("sapphirerapids");
  return target;
}

KernelPlan planOf(const KernelGraph &graph, const std::string &numbers, const CpuTarget &target = withTiles()) {
  ScheduleTable table = ScheduleTable::standard();
  table.add("attention : " + numbers, "mine.txt");
  return halideProducer().choose(graph, target, table);
}

void check(const KernelGraph &graph, const std::vector<Lengths> &lengths, const KernelPlan &plan,
           double tolerance = 2e-6, bool sizedByData = false) {
  SCOPED_TRACE(plan.text());
  EXPECT_GT(plan.parts[0]["amx"], 0);
  KernelRunner runner(graph, withTiles(), plan);
  if (machineRuns(withTiles()))
    checkRuns(runner, graph, lengths, tolerance, nullptr, sizedByData);
}

void check(const KernelGraph &graph, const std::vector<Lengths> &lengths, const std::string &numbers,
           double tolerance = 2e-6, bool sizedByData = false) {
  check(graph, lengths, planOf(graph, numbers), tolerance, sizedByData);
}

Lengths of(int64_t batch, int64_t queries, int64_t past) {
  return {{"B", batch}, {"T", queries}, {"past", past}};
}

const std::vector<Lengths> lengths = {of(1, 2, 0), of(1, 50, 0), of(2, 5, 70), of(1, 1, 76), of(1, 97, 31)};

} // namespace

/// Depths and columns that no tile divides; keys and values in f32, of three pieces, and in bf16.
TEST(AttentionTiles, Causal) {
  for (auto [depth, columns] : {std::pair(64, 64), std::pair(80, 24), std::pair(20, 80), std::pair(5, 3)})
    for (Storage cache : {Storage::F32, Storage::BF16}) {
      Attention g(2, 3, depth, columns, {}, cache);
      g.finishWith(g.masked());
      check(g.finish("causal"), lengths, depth == 64 ? "amx 2" : "amx 1, keys 32");
    }
}

/// What lies before the window, and parts of it, are skipped in steps of 32 keys, which do not begin where it does.
TEST(AttentionTiles, Window) {
  for (int64_t window : {1, 33, 70}) {
    Attention g(2, 1, 32, 16);
    g.finishWith(g.masked(window));
    check(g.finish("window"), lengths, "amx 3, keys 64, block 96");
  }
}

/// Several parts of the keys and tasks of rows, of which some see nothing of a part.
TEST(AttentionTiles, OverManyParts) {
  for (int64_t window : {0, 530}) {
    Attention g(1, 1, 32, 32, {}, window ? Storage::BF16 : Storage::F32);
    g.finishWith(g.masked(window));
    check(g.finish("long"), {of(1, 50, 549), of(1, 194, 0), of(1, 300, 300)}, "amx 2, keys 128, block 64");
  }
}

/// Without a mask; one that lets a row see nothing, one from data, with a bias; each row of the batch with a past of its own.
TEST(AttentionTiles, Masks) {
  Attention plain(2, 2, 8, 8);
  plain.finishWith(plain.score);
  check(plain.finish("plain"), lengths, "amx 2");

  Attention nothing(1, 1, 8, 8);
  int none = nothing.compare(Predicate::Lt, nothing.index(nothing.S), nothing.integer(0));
  nothing.finishWith(nothing.elementwise(Op::Where, {none, nothing.score, nothing.constant(-INFINITY)}));
  check(nothing.finish("nothing"), lengths, "amx 2");

  Size length = Size::symbol("T") + Size::symbol("past");
  Attention padded(
      2, 1, 40, 40,
      {{Storage::U8, {dim("B"), dim("S", length)}}, {Storage::F32, {dim("G", 2), dim("T"), dim("S", length)}}});
  int biased = padded.elementwise(Op::Add, {padded.score, padded.extra[1]});
  padded.finishWith(padded.elementwise(Op::Where, {padded.extra[0], biased, padded.constant(-INFINITY)}));
  check(padded.finish("padding"), lengths, "amx 4");

  Attention ragged(2, 1, 8, 8, {{Storage::I32, {dim("B")}}});
  int t = ragged.elementwise(Op::Add, {ragged.index(ragged.T), ragged.extra[0]}), s = ragged.index(ragged.S);
  int mask = ragged.elementwise(
      Op::And, {ragged.compare(Predicate::Le, s, t),
                ragged.compare(Predicate::Gt, s, ragged.elementwise(Op::Sub, {t, ragged.integer(3)}))});
  ragged.finishWith(ragged.elementwise(Op::Where, {mask, ragged.score, ragged.constant(-INFINITY)}));
  check(ragged.finish("ragged"), lengths, "amx 2", 2e-6, true);
}

/// One more score without a value.
TEST(AttentionTiles, Sinks) {
  Attention g(2, 1, 8, 8, {{Storage::F32, {dim("G", 2)}}});
  g.yield(g.attention(g.masked(), g.v, "S", {{g.unit(g.extra[0], dim("U", 1)), "U"}}));
  check(g.finish("sink"), lengths, "amx 2");
}

/// The sum of two products, one with keys that heads share; of which one is in bf16.
TEST(AttentionTiles, SeveralProducts) {
  Attention g(2, 3, 48, 8,
              {{Storage::F32, {dim("B"), dim("T"), dim("G", 2), dim("R", 3), dim("P", 6)}},
               {Storage::BF16, {dim("B"), dim("S", Size::symbol("past") + Size::symbol("T")), dim("P", 6)}}});
  g.score = g.elementwise(Op::Add, {g.score, g.contract(g.extra[0], g.elementwise(Op::Widen, {g.extra[1]}), {"P"})});
  g.finishWith(g.masked());
  check(g.finish("latent"), lengths, "amx 2");
}

/// More heads that share keys than a tile has rows.
TEST(AttentionTiles, ManyHeadsShareKeys) {
  Attention g(1, 20, 16, 16);
  g.finishWith(g.masked());
  check(g.finish("shared"), lengths, "amx 1");
}

/// Queries of bf16 as well: one product.
TEST(AttentionTiles, OfBF16) {
  GraphMaker g;
  Dim S = dim("S", Size::symbol("past") + Size::symbol("T"));
  int q = g.argument(Storage::BF16, {dim("B"), dim("T"), dim("H", 2), dim("K", 32)}),
      k = g.argument(Storage::BF16, {dim("B"), S, dim("H", 2), dim("K", 32)}),
      v = g.argument(Storage::BF16, {dim("B"), S, dim("H", 2), dim("V", 32)});
  auto real = [&](int value) { return g.elementwise(Op::Widen, {value}); };
  g.yield(g.attention(g.contract(real(q), real(k), {"K"}), real(v), "S"));
  check(g.finish("bf16"), lengths, "amx 2");
}

/// Weights that are rounded are one piece, too.
TEST(AttentionTiles, Narrow) {
  Attention g(2, 3, 64, 48, {}, Storage::BF16, 600, /*narrow=*/true);
  g.finishWith(g.masked());
  check(g.finish("narrow"), lengths, "amx 2, keys 32", 5e-6);
}

static void checkAnyPoint(int draws) {
  std::mt19937 random(7);
  Attention g(2, 2, 40, 24, {}, Storage::BF16);
  KernelGraph &graph = (g.finishWith(g.masked(200)), g.finish("drawn"));
  for (int used = 0; used < draws;) {
    KernelPlan plan = drawnPlan(graph, withTiles(), ScheduleTable::standard(), [&](size_t n) { return random() % n; });
    if (!plan.parts[0]["amx"])
      continue;
    ++used;
    check(graph, {of(1, 130, 70), of(2, 9, 0)}, plan);
  }
}

TEST(AttentionTiles, AnyPointOfTheSpace) {
  checkAnyPoint(3);
}

TEST(MoreAttentionTiles, AnyPointOfTheSpace) { // `More`: in the tier `nightly`
  checkAnyPoint(12);
}

/// What a kernel asks of a processor, by its assembly: on machines that can run it and on others.
TEST(AttentionTiles, AreInstructionsOfTheTargetAlone) {
  Attention g(2, 1, 64, 64, {}, Storage::BF16);
  g.finishWith(g.masked());
  KernelGraph &graph = g.finish("causal");
  CpuTarget without = cpuTarget("sapphirerapids-noamx");
  EXPECT_EQ(foreignInstructions(graph, without, without), "");
  std::vector<std::string> found = foreignToEach(graph, withTiles(), {withTiles(), without});
  EXPECT_EQ(found[0], "");
  for (const char *instruction : {"tdpbf16ps", "ldtilecfg", "tileloadd", "tilestored", "tilerelease"})
    EXPECT_THAT(found[1], testing::HasSubstr(instruction));
}

/// A single query, and a product over several dimensions, have no use for the number; a schedule for all is fitted to them.
TEST(AttentionTiles, AreRefusedElsewhere) {
  Attention g(2, 1, 64, 64);
  g.finishWith(g.masked());
  KernelGraph &graph = g.finish("causal");
  KernelPlan plan = planOf(graph, "amx 2");
  EXPECT_EQ(plan.parts[0]["amx"], 2);
  CpuTarget without = cpuTarget("sapphirerapids-noamx");
  EXPECT_EQ(planOf(graph, "amx 2", without).parts[0]["amx"], 0);
  EXPECT_EQ(halideProducer().refuses(plan, graph, without).value_or(""),
            "attention: amx 2, but only several queries whose products sum over one fixed dimension are multiplied so, "
            "on processors that have it");
  plan.parts[0].numbers["keys"] = 16;
  EXPECT_EQ(halideProducer().refuses(plan, graph, withTiles()).value_or(""),
            "attention: keys 16, but AMX multiplies 32 at a time");
  GraphMaker one;
  int q = one.argument(Storage::F32, {dim("T", 1), dim("K", 32)}),
      k = one.argument(Storage::F32, {dim("S"), dim("K", 32)}),
      v = one.argument(Storage::F32, {dim("S"), dim("V", 32)});
  one.yield(one.attention(one.contract(q, k, {"K"}), v, "S"));
  EXPECT_EQ(planOf(one.finish("one"), "amx 2").parts[0]["amx"], 0);
}
