// Gradients of weights that rows are routed to (experts): for each expert the sum of the outer products of its rows.
#include "tests/codegen/support/Check.h"

#include <cmath>
#include <limits>

using namespace quern::codegen;

namespace {

/// dw[E, O, I] = sum of dy[M, C, O] x[M, I] over the pairs routed to each expert.
struct WeightGradient {
  GraphMaker g;
  int dy, x, chosen;

  WeightGradient(int64_t experts, int64_t choices, int64_t out, int64_t in, Dim rows = dim("M")) {
    dy = g.argument(Storage::F32, {rows, dim("C", choices), dim("O", out)});
    x = g.argument(Storage::F32, {rows, dim("I", in)});
    chosen = g.argument(Storage::I32, {rows, dim("C", choices)});
    sum = g.scatterAdd(g.elementwise(Op::Mul, {dy, x}), chosen, {rows.name, "C"}, dim("E", experts));
  }
  int inOrder() { return g.permute(sum, {"E", "O", "I"}); }
  std::vector<DenseTensor> numbers(const Lengths &lengths = {}) const {
    std::vector<DenseTensor> given;
    for (int i = 0; i < g.graph.argumentCount(); ++i)
      given.push_back(randomTensor(g.graph.nodes[i], lengths, i + 1));
    return given;
  }

  int sum;
};

const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 2}}, {{"M", 7}}, {{"M", 40}}};

} // namespace

/// Random positions are integers in [0, 7): some are outside of few experts, some of many experts have no rows.
TEST(ByExpert, AnyNumberOfExpertsChoicesAndRows) {
  for (auto [experts, choices] : {std::pair<int64_t, int64_t>(1, 1), {3, 2}, {40, 3}}) {
    WeightGradient gradient(experts, choices, 13, 33);
    gradient.g.yield(gradient.inOrder());
    checkKernel(gradient.g.finish("experts" + std::to_string(experts)), rows, 1e-5);
  }
}

TEST(ByExpert, SizesOfAnyRelationToATile) {
  for (auto [out, in] : {std::pair<int64_t, int64_t>(1, 1), {128, 3}, {6, 64}, {13, 300}}) {
    WeightGradient gradient(5, 2, out, in);
    gradient.g.yield(gradient.inOrder());
    checkKernel(gradient.g.finish("sizes"), {{{"M", 9}}, {{"M", 50}}}, 1e-5);
  }
}

TEST(ByExpert, EveryTarget) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    WeightGradient gradient(5, 2, 20, 100);
    gradient.g.yield(gradient.inOrder());
    checkKernel(gradient.g.finish("target"), rows, 1e-5, cpuTarget(name));
  }
}

TEST(ByExpert, AllRowsRoutedToOneOrEachToItsOwn) { // experts without rows get zeros
  WeightGradient gradient(9, 1, 24, 40, dim("M", 9));
  gradient.g.yield(gradient.inOrder());
  KernelRunner runner(gradient.g.finish("one"));
  std::vector<DenseTensor> given = gradient.numbers();
  for (auto pick : {+[](int) { return 0; }, +[](int) { return 8; }, +[](int i) { return i; },
                    +[](int i) { return 8 - i; }, +[](int i) { return i / 8; }}) {
    for (int i = 0; i < 9; ++i)
      given[gradient.chosen].data[i] = pick(i);
    runner.bind({}, given);
    ASSERT_EQ(runner.run(), 0);
    const KernelGraph &graph = gradient.g.graph;
    compareTensors(runner.result(0), evaluate(graph, {}, given)[graph.results[0]], 1e-5, "picked");
  }
}

TEST(ByExpert, ARowMayRouteToOneTwiceAndPositionsAreClamped) {
  WeightGradient gradient(4, 2, 16, 32, dim("M", 4));
  gradient.g.yield(gradient.inOrder());
  std::vector<DenseTensor> given = gradient.numbers();
  given[gradient.chosen].data = {2, 2, -7, 0, 1 << 30, 3, 2, 2};
  checkKernel(gradient.g.finish("twice"), {{}}, 1e-5, cpuTarget("native"), &given);
}

TEST(ByExpert, WhatIsNotFiniteStaysWithItsExpert) {
  WeightGradient gradient(4, 1, 16, 32, dim("M", 5));
  gradient.g.yield(gradient.inOrder());
  KernelRunner runner(gradient.g.finish("infinite"));
  std::vector<DenseTensor> given = gradient.numbers();
  given[gradient.chosen].data = {0, 2, 1, 2, 0};
  for (int64_t i = 0; i < 16; ++i)
    given[gradient.dy].data[2 * 16 + i] = std::numeric_limits<double>::quiet_NaN(); // the row of expert 1
  runner.bind({}, given);
  ASSERT_EQ(runner.run(), 0);
  DenseTensor result = runner.result(0);
  for (int64_t i = 0; i < 4 * 16 * 32; ++i)
    EXPECT_EQ(std::isnan(result.data[i]), i / (16 * 32) == 1) << i;
}

TEST(ByExpert, StoredEitherWayRound) {
  for (bool transposed : {false, true}) {
    WeightGradient gradient(5, 2, 71, 40);
    gradient.g.yield(transposed ? gradient.g.permute(gradient.sum, {"E", "I", "O"}) : gradient.inOrder());
    checkKernel(gradient.g.finish("transposed"), {{{"M", 30}}}, 1e-5);
  }
}

TEST(ByExpert, BothFactorsOfPairs) { // the second matrix of an expert, in a batch
  GraphMaker g;
  std::vector<Dim> pairs = {dim("B"), dim("T"), dim("C", 2)};
  int dy = g.argument(Storage::F32, {pairs[0], pairs[1], pairs[2], dim("O", 20)});
  int h = g.argument(Storage::F32, {pairs[0], pairs[1], pairs[2], dim("I", 48)});
  int chosen = g.argument(Storage::I32, pairs);
  g.yield(
      g.permute(g.scatterAdd(g.elementwise(Op::Mul, {dy, h}), chosen, {"B", "T", "C"}, dim("E", 6)), {"E", "O", "I"}));
  checkKernel(g.finish("batch"), {{{"B", 1}, {"T", 1}}, {{"B", 3}, {"T", 1}}, {{"B", 2}, {"T", 19}}}, 1e-5);
}

TEST(ByExpert, RowsThatShareARoute) { // experts chosen by the text, summed over its positions too
  GraphMaker g;
  int dy = g.argument(Storage::F32, {dim("B"), dim("T"), dim("C", 2), dim("O", 20)});
  int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("I", 48)});
  int chosen = g.argument(Storage::I32, {dim("B"), dim("C", 2)});
  g.yield(
      g.permute(g.scatterAdd(g.elementwise(Op::Mul, {dy, x}), chosen, {"B", "T", "C"}, dim("E", 6)), {"E", "O", "I"}));
  checkKernel(g.finish("shared"), {{{"B", 1}, {"T", 1}}, {{"B", 5}, {"T", 7}}}, 1e-5);
}

TEST(ByExpert, MatricesOfHeads) { // a dimension that both factors keep
  GraphMaker g;
  int dy = g.argument(Storage::F32, {dim("M"), dim("H", 3), dim("O", 20)});
  int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), dim("I", 24)});
  int chosen = g.argument(Storage::I32, {dim("M")});
  g.yield(g.permute(g.scatterAdd(g.elementwise(Op::Mul, {dy, x}), chosen, {"M"}, dim("E", 5)), {"E", "H", "O", "I"}));
  checkKernel(g.finish("heads"), rows, 1e-5);
}

TEST(ByExpert, AddedToWhatIsThere) {
  GraphMaker g;
  int before = g.argument(Storage::F32, {dim("E", 5), dim("O", 20), dim("I", 70)});
  int dy = g.argument(Storage::F32, {dim("M"), dim("O", 20)}), x = g.argument(Storage::F32, {dim("M"), dim("I", 70)});
  int chosen = g.argument(Storage::I32, {dim("M")});
  int sum = g.permute(g.scatterAdd(g.elementwise(Op::Mul, {dy, x}), chosen, {"M"}, dim("E", 5)), {"E", "O", "I"});
  g.yield(g.elementwise(Op::Add, {before, sum}));
  checkKernel(g.finish("added"), rows, 1e-5);
}

TEST(ByExpert, PositionsOfOtherRowsKeepTheGeneralWay) { // each row of the batch has a table of its own
  GraphMaker g;
  int dy = g.argument(Storage::F32, {dim("B", 3), dim("M"), dim("O", 20)}),
      x = g.argument(Storage::F32, {dim("B", 3), dim("M"), dim("I", 24)});
  int chosen = g.argument(Storage::I32, {dim("B", 3), dim("M")});
  g.yield(g.permute(g.scatterAdd(g.elementwise(Op::Mul, {dy, x}), chosen, {"M"}, dim("E", 5)), {"B", "E", "O", "I"}));
  checkKernel(g.finish("tables"), rows, 1e-5);
}
