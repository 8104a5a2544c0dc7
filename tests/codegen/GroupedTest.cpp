// Contractions whose weight is routed row by row (experts): any number of rows, experts and choices.
#include "tests/codegen/support/Check.h"

#include <limits>

using namespace quern::codegen;

static const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 2}},  {{"M", 5}},  {{"M", 6}},
                                          {{"M", 7}}, {{"M", 13}}, {{"M", 200}}};

/// Random positions are integers in [0, 7): some are outside of few experts, some of many experts have no rows.
TEST(Grouped, AnyNumberOfExpertsChoicesAndRows) {
  for (auto [experts, choices] : {std::pair<int64_t, int64_t>(1, 1), {3, 2}, {8, 1}, {40, 3}}) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 33)});
    int w = g.weight({dim("E", experts), dim("O", 71), dim("I", 33)}, 64);
    int chosen = g.argument(Storage::I32, {dim("M"), dim("C", choices)});
    g.yield(g.contract(x, g.gather(w, chosen, "E"), {"I"}));
    checkKernel(g.finish("experts" + std::to_string(experts)), rows, 1e-5);
  }
}

TEST(Grouped, EveryTarget) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    CpuTarget target = cpuTarget(name);
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 40)});
    int w = g.weight({dim("E", 5), dim("O", 100), dim("I", 40)}, target.vector == 16 ? 64 : 2 * target.vector);
    int chosen = g.argument(Storage::I32, {dim("M"), dim("C", 2)});
    g.yield(g.elementwise(Op::Sigmoid, {g.contract(x, g.gather(w, chosen, "E"), {"I"})}));
    checkKernel(g.finish("target"), rows, 1e-5, target);
  }
}

TEST(Grouped, RowsThatArePairsAlready) { // the second matrix of an expert
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("P"), dim("I", 64)});
  int w = g.weight({dim("E", 4), dim("O", 128), dim("I", 64)}, 64);
  int chosen = g.argument(Storage::I32, {dim("P")});
  g.yield(g.contract(x, g.gather(w, chosen, "E"), {"I"}));
  checkKernel(g.finish("pairs"), {{{"P", 1}}, {{"P", 2}}, {{"P", 50}}, {{"P", 301}}}, 1e-5);
}

TEST(Grouped, RowsOfABatch) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("I", 20)});
  int w = g.weight({dim("E", 6), dim("O", 40), dim("I", 20)}, 16);
  int chosen = g.argument(Storage::I32, {dim("B"), dim("T"), dim("C", 2)});
  g.yield(g.contract(x, g.gather(w, chosen, "E"), {"I"}), {4096, 80, 40, 1});
  checkKernel(g.finish("batch"), {{{"B", 1}, {"T", 1}}, {{"B", 3}, {"T", 1}}, {{"B", 2}, {"T", 19}}}, 1e-5);
}

TEST(Grouped, AllRowsRoutedToOneOrEachToItsOwn) { // most chunks are empty, or all hold one row
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M", 9), dim("I", 24)});
  int w = g.weight({dim("E", 9), dim("O", 24), dim("I", 24)}, 16);
  int chosen = g.argument(Storage::I32, {dim("M", 9)});
  g.yield(g.contract(x, g.gather(w, chosen, "E"), {"I"}));
  KernelRunner runner(g.finish("one"));
  std::vector<DenseTensor> given;
  for (int i = 0; i < g.graph.argumentCount(); ++i)
    given.push_back(randomTensor(g.graph.nodes[i], {}, i + 1));
  for (auto pick : {+[](int) { return 0; }, +[](int) { return 8; }, +[](int i) { return i; },
                    +[](int i) { return 8 - i; }, +[](int i) { return i / 8; }}) {
    for (int i = 0; i < 9; ++i)
      given[chosen].data[i] = pick(i);
    runner.bind({}, given);
    ASSERT_EQ(runner.run(), 0);
    compareTensors(runner.result(0), evaluate(g.graph, {}, given)[g.graph.results[0]], 1e-5, "picked");
  }
}

TEST(Grouped, PositionsAreClampedAndUnroutedWeightsNeverMatter) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M", 4), dim("I", 8)});
  int w = g.weight({dim("E", 5), dim("O", 16), dim("I", 8)}, 16);
  int chosen = g.argument(Storage::I32, {dim("M", 4)});
  g.yield(g.contract(x, g.gather(w, chosen, "E"), {"I"}));
  std::vector<DenseTensor> given;
  for (int i = 0; i < g.graph.argumentCount(); ++i)
    given.push_back(randomTensor(g.graph.nodes[i], {}, i + 1));
  given[chosen].data = {-7, 4, 1 << 30, 0}; // experts 0, 4, 4, 0
  for (int64_t i = 1 * 16 * 8; i < 4 * 16 * 8; ++i)
    given[w].data[i] = std::numeric_limits<double>::quiet_NaN();
  checkKernel(g.finish("clamped"), {{}}, 1e-5, cpuTarget("native"), &given);
}

TEST(Grouped, EpilogueWithBiasesOfExperts) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 48)});
  int w = g.weight({dim("E", 8), dim("O", 96), dim("I", 48)}, 64);
  int chosen = g.argument(Storage::I32, {dim("M"), dim("C", 2)}),
      biases = g.argument(Storage::F32, {dim("E", 8), dim("O", 96)});
  int up = g.argument(Storage::F32, {dim("M"), dim("C", 2), dim("O", 96)});
  int y = g.elementwise(Op::Add, {g.contract(x, g.gather(w, chosen, "E"), {"I"}), g.gather(biases, chosen, "E")});
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {y, g.elementwise(Op::Sigmoid, {y})}), up}));
  checkKernel(g.finish("epilogue"), rows, 1e-5);
}

TEST(Grouped, GateAndUpInOneWeight) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 32)});
  int w = g.weight({dim("U", 2), dim("E", 5), dim("O", 71), dim("I", 32)}, 16);
  int both = g.contract(x, g.gather(w, g.argument(Storage::I32, {dim("M"), dim("C", 2)}), "E"), {"I"});
  int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {gate, g.elementwise(Op::Sigmoid, {gate})}), up}));
  checkKernel(g.finish("gated"), rows, 1e-5);
}

TEST(Grouped, SummedInTheSameKernel) { // no one result takes its tiles
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 24)});
  int w = g.weight({dim("E", 5), dim("O", 40), dim("I", 24)}, 16);
  int chosen = g.argument(Storage::I32, {dim("M"), dim("C", 2)}),
      weight = g.argument(Storage::F32, {dim("M"), dim("C", 2)});
  int y = g.contract(x, g.gather(w, chosen, "E"), {"I"});
  g.yield(g.reduce(Reduction::Sum, g.elementwise(Op::Mul, {y, weight}), {"C"}));
  checkKernel(g.finish("summed"), rows, 1e-5);
}

TEST(Grouped, WeightsAsTheyLie) { // stored either way round, not packed before
  for (bool transposed : {false, true}) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 24)});
    std::vector<Dim> dims = transposed ? std::vector<Dim>{dim("E", 5), dim("I", 24), dim("O", 71)}
                                       : std::vector<Dim>{dim("E", 5), dim("O", 71), dim("I", 24)};
    int w = g.argument(Storage::F32, dims), chosen = g.argument(Storage::I32, {dim("M"), dim("C", 2)});
    g.yield(g.contract(x, g.gather(w, chosen, "E"), {"I"}));
    checkKernel(g.finish("lying"), rows, 1e-5);
  }
}

TEST(Grouped, RowsWithADimensionThatNothingGathersBy) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), dim("I", 24)});
  int w = g.weight({dim("E", 5), dim("O", 40), dim("I", 24)}, 16);
  g.yield(g.contract(x, g.gather(w, g.argument(Storage::I32, {dim("M"), dim("C", 2)}), "E"), {"I"}));
  checkKernel(g.finish("heads"), rows, 1e-5);
}

TEST(Grouped, TablesOfTheirOwnAreNotGrouped) { // each row of the batch picks from its own
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("B", 3), dim("M"), dim("I", 24)});
  int w = g.argument(Storage::F32, {dim("B", 3), dim("E", 5), dim("O", 40), dim("I", 24)});
  g.yield(g.contract(x, g.gather(w, g.argument(Storage::I32, {dim("B", 3), dim("M")}), "E"), {"I"}));
  checkKernel(g.finish("tables"), rows, 1e-5);
}

TEST(Grouped, ARowGetsTheSameBitsInAnyCompany) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 100)});
  int w = g.weight({dim("E", 7), dim("O", 64), dim("I", 100)}, 64);
  int chosen = g.argument(Storage::I32, {dim("M")});
  g.yield(g.contract(x, g.gather(w, chosen, "E"), {"I"}));
  KernelRunner runner(g.finish("bits"));
  Lengths many = {{"M", 61}}, one = {{"M", 1}};
  std::vector<DenseTensor> all, single(3);
  for (int i = 0; i < 3; ++i)
    all.push_back(randomTensor(g.graph.nodes[i], many, i + 1));
  runner.bind(many, all);
  ASSERT_EQ(runner.run(), 0);
  DenseTensor together = runner.result(0);
  for (int64_t m = 0; m < 61; ++m) {
    single[x] = {{1, 100}, {all[x].data.begin() + m * 100, all[x].data.begin() + (m + 1) * 100}};
    single[w] = all[w];
    single[chosen] = {{1}, {all[chosen].data[m]}};
    runner.bind(one, single);
    ASSERT_EQ(runner.run(), 0);
    DenseTensor alone = runner.result(0);
    for (int64_t o = 0; o < 64; ++o)
      ASSERT_EQ(alone.data[o], together.data[m * 64 + o]) << m << ", " << o;
  }
}
