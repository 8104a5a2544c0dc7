// The search for plans on made-up times: what it asks for, where it ends, and that it goes on where it was interrupted.
#include "codegen/schedule/PlanSearch.h"
#include "codegen/halide/HalideProducer.h"
#include "codegen/schedule/ChoosePlan.h"
#include "tests/codegen/support/GraphMaker.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <set>

using namespace quern::codegen;

namespace {

/// A product behind a norm: parts of three families.
class PlanSearchTest : public testing::Test {
protected:
  GraphMaker g;
  KernelGraph graph;
  CpuTarget target = cpuTarget("x86-64-v3");
  KernelPlan first;
  std::map<std::pair<std::string, std::string>, TrialResult> memory;
  int asked = 0;

  void SetUp() override {
    Dim M{"M", quern::ir::Size::symbol("M")}, K{"K", quern::ir::Size(48)}, N{"N", quern::ir::Size(80)};
    int x = g.argument(Storage::F32, {M, K}), w = g.weight({N, K}, 16);
    int centred = g.elementwise(Op::Sub, {x, g.reduce(Reduction::Mean, x, {"K"})});
    g.yield(g.elementwise(Op::Tanh, {g.contract(centred, w, {"K"})}));
    graph = g.finish("product");
    first = halideProducer().choose(graph, target, ScheduleTable::standard());
  }

  bool valid(const KernelPlan &plan) const { return !halideProducer().refuses(plan, graph, target); }
  PlanSearch search(int draws = 12) {
    return PlanSearch(first, [this](const KernelPlan &plan) { return valid(plan); }, 7, draws);
  }

  /// Fastest at rows 3, unroll 16, work 1024; the other numbers do not matter.
  static double timeOf(const KernelPlan &plan) {
    double time = 1;
    for (auto [part, name, best] : {std::tuple{0, "rows", 3}, {0, "unroll", 16}, {2, "work", 1024}})
      time += std::abs(std::log2(double(plan.parts[size_t(part)][name]) / best));
    return time;
  }
  TrialResult compare(const KernelPlan &incumbent, const KernelPlan &candidate) {
    ++asked;
    double ratio = timeOf(candidate) / timeOf(incumbent);
    return memory[{incumbent.text(), candidate.text()}] = {ratio < 0.99, ratio};
  }
  PlanSearch::Known known() {
    return [this](const KernelPlan &incumbent, const KernelPlan &candidate) -> std::optional<TrialResult> {
      auto found = memory.find({incumbent.text(), candidate.text()});
      return found == memory.end() ? std::nullopt : std::optional(found->second);
    };
  }
  /// Until nothing is left or so many comparisons were made. Whether it ended by itself.
  bool run(PlanSearch &search, int most = 100000) {
    for (;;) {
      std::vector<KernelPlan> candidates = search.advance(known());
      if (candidates.empty())
        return true;
      KernelPlan incumbent = search.incumbent();
      for (const KernelPlan &candidate : candidates) {
        if (!most--)
          return false;
        EXPECT_TRUE(valid(candidate)) << candidate.text();
        EXPECT_NE(candidate, incumbent);
        compare(incumbent, candidate);
      }
    }
  }
};

} // namespace

TEST(PlanSearchFromNothing, TriesEachOfFewSizes) {
  auto any = [](const KernelPlan &) { return true; };
  auto nothing = [](const KernelPlan &, const KernelPlan &) { return std::optional<TrialResult>(); };
  PlanSearch search({"scan", {{"scan", {{"chunk", 0}}}}}, any, 7, 0);
  std::set<std::string> asked;
  for (const KernelPlan &plan : search.advance(nothing))
    asked.insert(plan.text());
  EXPECT_EQ(asked, (std::set<std::string>{"scan: scan(chunk = 16)", "scan: scan(chunk = 32)", "scan: scan(chunk = 48)",
                                          "scan: scan(chunk = 64)"}));
}

TEST_F(PlanSearchTest, FindsWhatIsFastest) {
  PlanSearch one = search();
  ASSERT_TRUE(run(one));
  const KernelPlan &best = one.incumbent();
  EXPECT_EQ(best.parts[0]["rows"], 3);
  EXPECT_EQ(best.parts[0]["unroll"], 16);
  EXPECT_NEAR(best.parts[2]["work"], 1024, 50);
  EXPECT_NEAR(one.gain(), timeOf(first) / timeOf(best), 1e-9);
  EXPECT_LT(asked, 400);
  EXPECT_TRUE(one.advance(known()).empty());
}

TEST_F(PlanSearchTest, GoesOnWhereItWasInterrupted) {
  PlanSearch whole = search();
  ASSERT_TRUE(run(whole));
  int all = asked;
  std::string best = whole.incumbent().text();
  for (int kept : {0, 1, 2, 5, 17, all / 2, all - 1}) {
    memory.clear();
    asked = 0;
    PlanSearch killed = search();
    EXPECT_FALSE(run(killed, kept));
    PlanSearch next = search();
    ASSERT_TRUE(run(next));
    EXPECT_EQ(asked, all) << kept << " were known";
    EXPECT_EQ(next.incumbent().text(), best);
  }
}

TEST_F(PlanSearchTest, AnotherProducerIsTriedAndSearched) {
  for (double handicap : {0.1, 100.0}) {
    auto time = [&](const KernelPlan &plan) {
      return plan.producer == "scan" ? handicap + std::abs(double(plan.parts[0]["chunk"]) - 32) / 100 : timeOf(plan);
    };
    auto compared = [&](const KernelPlan &incumbent, const KernelPlan &candidate) {
      double ratio = time(candidate) / time(incumbent);
      return std::optional(TrialResult{ratio < 0.99, ratio});
    };
    auto either = [&](const KernelPlan &plan) { return plan.producer == "scan" || valid(plan); };
    PlanSearch both(first, either, 7, 12, {}, {{"scan", {{"scan", {{"chunk", 0}}}}}});
    EXPECT_TRUE(both.advance(compared).empty());
    EXPECT_NEAR(both.gain(), time(first) / time(both.incumbent()), 1e-9);
    if (handicap < 1)
      EXPECT_EQ(both.incumbent().text(), "scan: scan(chunk = 32)");
    else
      EXPECT_EQ(both.incumbent().parts[0]["rows"], 3) << both.incumbent().text();
  }
}

TEST_F(PlanSearchTest, NothingThatFailsIsTaken) {
  // Whatever has another number of rows is wrong, however fast.
  PlanSearch one = search();
  for (;;) {
    std::vector<KernelPlan> candidates = one.advance(known());
    if (candidates.empty())
      break;
    KernelPlan incumbent = one.incumbent();
    for (const KernelPlan &candidate : candidates)
      if (candidate.parts[0]["rows"] == first.parts[0]["rows"])
        compare(incumbent, candidate);
      else
        memory[{incumbent.text(), candidate.text()}] = {false, std::numeric_limits<double>::infinity()};
  }
  EXPECT_EQ(one.incumbent().parts[0]["rows"], first.parts[0]["rows"]);
  EXPECT_EQ(one.incumbent().parts[0]["unroll"], 16);
}

TEST_F(PlanSearchTest, SeedsComeFirstThenTheCheapestByTheModel) {
  KernelPlan seed = first, invalid = first;
  seed.parts[0].numbers["rows"] = 3, seed.parts[0].numbers["unroll"] = 16;
  invalid.parts[0].numbers["columns"] = 32;
  auto all = [this](const KernelPlan &plan) { return valid(plan); };
  PlanSearch one(first, all, 7, 12, timeOf, {first, invalid, seed});
  ASSERT_EQ(one.advance(known()), std::vector{seed});
  compare(first, seed);
  std::vector<KernelPlan> next = one.advance(known());
  EXPECT_EQ(one.incumbent(), seed);
  ASSERT_GT(next.size(), 1u);
  EXPECT_TRUE(std::is_sorted(next.begin(), next.end(),
                             [](const KernelPlan &a, const KernelPlan &b) { return timeOf(a) < timeOf(b); }));
  ASSERT_TRUE(run(one));
  EXPECT_NEAR(one.incumbent().parts[2]["work"], 1024, 50);
}

TEST_F(PlanSearchTest, NoiseLeadsInNoCircle) {
  // Of any two plans with other rows each was measured to be faster than the other.
  PlanSearch one = search();
  std::set<std::string> incumbents;
  for (;;) {
    std::vector<KernelPlan> candidates = one.advance([&](const KernelPlan &incumbent, const KernelPlan &candidate) {
      incumbents.insert(incumbent.text());
      bool rows = incumbent.parts[0]["rows"] != candidate.parts[0]["rows"];
      return std::optional(TrialResult{rows, rows ? 0.98 : 1.5});
    });
    if (candidates.empty())
      break;
  }
  EXPECT_GT(incumbents.size(), 2u);
  EXPECT_NEAR(one.gain(), std::pow(1 / 0.98, double(incumbents.size() - 1)), 1e-9);
}

TEST_F(PlanSearchTest, WithoutNumbersNothingIsLeft) {
  PlanSearch none({"plain", {}}, [](const KernelPlan &) { return true; }, 1, 12);
  EXPECT_TRUE(none.advance(known()).empty());
  EXPECT_EQ(none.gain(), 1);
}
