// Every operation alone, at awkward sizes.
#include "tests/codegen/support/Check.h"

#include <algorithm>
#include <limits>

using namespace quern::codegen;
using quern::ir::Size;

static const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}}, {{"B", 2}, {"T", 7}}, {{"B", 3}, {"T", 33}}};

/// Values that show the edges of functions.
static std::vector<DenseTensor> edges(std::vector<double> values) {
  return {{{static_cast<int64_t>(values.size())}, values}};
}

/// Functions of one real number, and where each of them is interesting.
static std::vector<Op> functions() {
  std::vector<Op> ops = {Op::Neg, Op::Abs};
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) ops.push_back(Op::NAME);
  QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
  return ops;
}
static std::vector<double> numbers() {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> all = {0,         -0.0, 1e-30, 1e-6f,  0.1f,  0.5f,  0.62f, 0.63f,   0.99f, 1.01f,
                             1.5f,      2,    3.7f,  4.2f,   10,    20.5f, 80,    88.5f,   100,   1000,
                             31415.93f, inf,  nan,   -1e-6f, -0.1f, -0.5f, -0.7f, -0.999f, -1,    -1.5f,
                             -2.5f,     -5,   -10,   -87,    -95,   -110,  -inf};
  for (double &v : all)
    v = static_cast<float>(v);
  return all;
}

TEST(Elementwise, Functions) {
  std::vector<double> all = numbers();
  for (Op op : functions()) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("N", all.size())});
    g.yield(g.elementwise(op, {x}));
    std::vector<DenseTensor> given = edges(all);
    checkKernel(g.finish("unary" + std::to_string(int(op))), {{}}, 4e-7, cpuTarget("native"), &given);
  }
}

/// The same in LLVM IR: a body that counts positions beside.
TEST(Elementwise, FunctionsInRecurrences) {
  std::vector<double> all = numbers();
  const int64_t count = int64_t(all.size());
  for (Op op : functions()) {
    GraphMaker g, body;
    Dim t = dim("T", 1), n = dim("N", count);
    int state = body.argument(Storage::F32, {n}), x = body.argument(Storage::F32, {n});
    int next = body.elementwise(Op::Add, {state, body.constant(1)});
    for (int result : g.scan(t, false, body, {g.argument(Storage::F32, {n}), g.argument(Storage::F32, {t, n})}, 1, 1,
                             {next, body.elementwise(op, {x})}))
      g.yield(result);
    std::vector<DenseTensor> given = {{{count}, std::vector<double>(all.size(), 0)}, {{1, count}, all}};
    checkKernel(g.finish("recurrent" + std::to_string(int(op))), {{}}, 4e-7, cpuTarget("native"), &given);
  }
}

TEST(Elementwise, ToIntegers) {
  std::vector<double> all = {0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.2f, -3.2f, 7.9f, -7.9f, 100000.5, -0.1f};
  for (Op op : {Op::Floor, Op::Ceil, Op::Round, Op::ToInt}) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("N", all.size())});
    g.yield(g.elementwise(op, {x}));
    std::vector<DenseTensor> given = edges(all);
    checkKernel(g.finish("toint" + std::to_string(int(op))), {{}}, 0, cpuTarget("native"), &given);
  }
}

TEST(Elementwise, BinaryByName) {
  for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Max, Op::Min}) {
    GraphMaker g;
    int a = g.argument(Storage::F32, {dim("B"), dim("T"), dim("D", 19)}),
        b = g.argument(Storage::F32, {dim("D", 19), dim("T")});
    g.yield(g.elementwise(op, {a, b}));
    checkKernel(g.finish("binary" + std::to_string(int(op))), lengths);
  }
}

TEST(Elementwise, IntegersDivideDown) {
  for (Op op : {Op::FloorDiv, Op::Mod, Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Min, Op::Div}) {
    GraphMaker g;
    int a = g.argument(Storage::I32, {dim("N", 8)}), b = g.argument(Storage::I32, {dim("N", 8)});
    g.yield(g.elementwise(op, {a, b}));
    std::vector<DenseTensor> given = {{{8}, {7, -7, 7, -7, 6, -6, 0, 5}}, {{8}, {2, 2, -2, -2, 3, 3, 5, 7}}};
    checkKernel(g.finish("integers" + std::to_string(int(op))), {{}}, 1e-7, cpuTarget("native"), &given);
  }
}

TEST(Elementwise, Powers) {
  for (double e : {2.0, 3.0, 0.5, -0.5, -1.0, 7.0, 0.3}) {
    GraphMaker g;
    int a = g.elementwise(Op::Abs, {g.argument(Storage::F32, {dim("T"), dim("N", 9)})});
    g.yield(g.elementwise(Op::Pow, {a, g.constant(e)}));
    checkKernel(g.finish("power"), lengths, 1e-6);
  }
}

TEST(Elementwise, PowersAtEdges) {
  GraphMaker g;
  Dim N = dim("N", 56);
  g.yield(g.elementwise(Op::Pow, {g.argument(Storage::F32, {N}), g.argument(Storage::F32, {N})}));
  std::vector<double> bases, exponents;
  for (double base : {0.0, 1.0, -1.0, 1e-40, 1e-20, 2.5, -3.0, 1e30})
    for (double exponent : {0.0, 1.0, -3.0, 0.37, -0.61, 2e9, 5.0})
      bases.push_back(static_cast<float>(base)), exponents.push_back(static_cast<float>(exponent));
  std::vector<DenseTensor> given = {edges(bases)[0], edges(exponents)[0]};
  checkKernel(g.finish("edges"), {{}}, 1e-6, cpuTarget("native"), &given);
}

TEST(Elementwise, ComparisonsAndChoice) {
  for (Predicate p : {Predicate::Lt, Predicate::Le, Predicate::Gt, Predicate::Ge, Predicate::Eq, Predicate::Ne}) {
    GraphMaker g;
    int a = g.argument(Storage::I32, {dim("T"), dim("N", 21)}), b = g.argument(Storage::I32, {dim("N", 21)});
    int m = g.argument(Storage::U8, {dim("T")});
    int c = g.elementwise(Op::Or, {g.elementwise(Op::And, {g.compare(p, a, b), m}), g.elementwise(Op::Not, {m})});
    g.yield(c);
    g.yield(g.elementwise(Op::Where, {c, g.elementwise(Op::ToReal, {a}), g.constant(0.25)}));
    checkKernel(g.finish("compare"), lengths);
  }
}

TEST(Elementwise, WhereTakesNothingFromTheOtherSide) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("N", 5)});
  int good = g.compare(Predicate::Gt, x, g.constant(0));
  g.yield(g.elementwise(Op::Where, {good, g.elementwise(Op::Log, {x}), g.constant(-INFINITY)}));
  std::vector<DenseTensor> given = edges({1, -1, 0, 2, NAN});
  checkKernel(g.finish("where"), {{}}, 1e-6, cpuTarget("native"), &given);
}

TEST(Elementwise, PositionsSizesAndTables) {
  GraphMaker g;
  Size past = Size::symbol("past"), T = Size::symbol("T");
  int t = g.elementwise(Op::Add, {g.index(dim("T")), g.size(past)});
  int table = g.values(dim("J", 3), {0.5, 1.5, -2});
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::ToReal, {t}), table}));
  g.yield(g.elementwise(Op::Add, {t, g.size(T * Size(2) - Size(1))}));
  checkKernel(g.finish("positions"), {{{"T", 1}, {"past", 5}}, {{"T", 18}, {"past", 0}}});
}

TEST(Reduce, EveryKindAlongEveryDim) {
  for (Reduction r : {Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min})
    for (std::vector<std::string> over :
         std::vector<std::vector<std::string>>{{"D"}, {"T"}, {"T", "D"}, {"B", "D"}, {"B", "T", "D"}})
      for (int64_t width : {5, 48}) {
        GraphMaker g;
        int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("D", width)});
        g.yield(g.reduce(r, x, over));
        checkKernel(g.finish("reduce"), lengths, 5e-6);
      }
}

TEST(Reduce, FewSumsOfManyNumbers) { // on a device each is made in parts
  const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}}, {{"B", 3}, {"T", 700}}, {{"B", 1}, {"T", 1025}}};
  for (Reduction r : {Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min}) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("D", 5)});
    g.yield(g.reduce(r, x, {"B", "T"}));
    g.yield(g.reduce(r, x, {"B", "T", "D"}));
    checkKernel(g.finish("few"), lengths, 5e-6);
  }
  GraphMaker g;
  int x = g.argument(Storage::I32, {dim("B"), dim("T")});
  int large = g.compare(Predicate::Gt, x, g.integer(2));
  g.yield(g.reduce(Reduction::Sum, x, {"B", "T"}));
  g.yield(g.reduce(Reduction::Any, large, {"B", "T"}));
  g.yield(g.reduce(Reduction::All, large, {"T"}));
  checkKernel(g.finish("few"), lengths);
}

TEST(Reduce, LongRowsAndColumns) { // on a device neighbouring work-items are parts of a row, or columns
  const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}}, {{"B", 2}, {"T", 37}}, {{"B", 1}, {"T", 600}}};
  for (Reduction r : {Reduction::Sum, Reduction::Max}) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("T"), dim("D", r == Reduction::Sum ? 768 : 130)});
    g.yield(g.reduce(r, x, {"T"}));
    g.yield(g.reduce(r, x, {"D"}));
    checkKernel(g.finish("long"), lengths, 5e-6);
  }
  GraphMaker g; // whose rows may be few
  g.yield(g.reduce(Reduction::Sum, g.argument(Storage::F32, {dim("B"), dim("T")}), {"B"}));
  checkKernel(g.finish("batch"), lengths, 5e-6);
}

TEST(Reduce, LogicAndIntegers) {
  for (Reduction r : {Reduction::Any, Reduction::All}) {
    GraphMaker g;
    int x = g.argument(Storage::U8, {dim("T"), dim("D", 3)});
    g.yield(g.reduce(r, x, {"D"}));
    g.yield(g.reduce(r, x, {"T"}));
    checkKernel(g.finish("logic"), lengths);
  }
  for (Reduction r : {Reduction::Sum, Reduction::Max, Reduction::Min, Reduction::Mean}) {
    GraphMaker g;
    int x = g.argument(Storage::I32, {dim("T"), dim("D", 37)});
    g.yield(g.reduce(r, x, {"D"}));
    checkKernel(g.finish("integers"), lengths);
  }
}

TEST(Reduce, MaskedMaximumIsMinusInfinity) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("D", 32)}), m = g.argument(Storage::U8, {dim("T")});
  g.yield(g.reduce(Reduction::Max, g.elementwise(Op::Where, {m, x, g.constant(-INFINITY)}), {"D"}));
  checkKernel(g.finish("masked"), lengths);
}

TEST(Softmax, OneAndSeveralDims) {
  for (std::vector<std::string> over : std::vector<std::vector<std::string>>{{"D"}, {"T"}, {"T", "D"}})
    for (int64_t width : {3, 100}) {
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("D", width)});
      g.yield(g.softmax(x, over));
      checkKernel(g.finish("softmax"), lengths);
    }
}

TEST(Softmax, OverNothingIsZero) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("D", 20)}), m = g.argument(Storage::U8, {dim("T")});
  g.yield(g.softmax(g.elementwise(Op::Where, {m, x, g.constant(-INFINITY)}), {"D"}));
  checkKernel(g.finish("softmax0"), lengths);
}

TEST(Scan, CumsumArgmaxTopK) {
  for (Storage storage : {Storage::F32, Storage::I32}) {
    GraphMaker g;
    int x = g.argument(storage, {dim("B"), dim("T"), dim("D", 11)});
    g.yield(g.cumsum(x, "T"));
    g.yield(g.cumsum(x, "D"));
    g.yield(g.cumsum(x, "T", /*reverse=*/true));
    g.yield(g.cumsum(x, "D", /*reverse=*/true));
    g.yield(g.argmax(x, "D"));
    g.yield(g.argmax(x, "T"));
    auto [values, positions] = g.topK(x, "D", dim("C", 4));
    g.yield(values);
    g.yield(positions);
    checkKernel(g.finish("scan"), lengths, 5e-6);
  }
}

TEST(ScatterAdd, EveryPlaceOfTheNewDimension) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("D", 11)});
  int positions = g.elementwise(Op::Mod, {g.argument(Storage::I32, {dim("B"), dim("T")}), g.integer(7)});
  g.yield(g.scatterAdd(x, positions, {"B", "T"}, dim("V", 7))); // an embedding's gradient
  g.yield(g.permute(g.scatterAdd(x, positions, {"B", "T"}, dim("V", 7)), {"D", "V"}));
  g.yield(g.scatterAdd(x, positions, {"T"}, dim("T", 7)));           // B goes together; the new T is another
  g.yield(g.scatterAdd(x, positions, {"B", "T", "D"}, dim("V", 7))); // to one dimension alone
  g.yield(g.scatterAdd(g.reduce(Reduction::Sum, x, {"B"}), positions, {"B", "T"}, dim("V", 9))); // x lacks B
  checkKernel(g.finish("scatter"), lengths, 5e-6);
}

/// Bit for bit, and behind what was there: numbers of which each order has another sum. Positions beyond the ends are clamped.
TEST(ScatterAdd, WhatMeetsIsAddedInOrder) {
  constexpr int64_t tokens = 301, width = 5, rows = 9;
  const float numbers[] = {1e8f, 1.0f, -1e8f, 0.3f, 7e7f, -0.7f, 3.14f, -7e7f, 1e-3f};
  DenseTensor x{{tokens, width}, {}}, positions{{tokens}, {}}, table{{rows, width}, {}};
  for (int64_t t = 0; t < tokens; ++t) {
    positions.data.push_back(t % 50 == 0 ? -3 : t % 50 == 1 ? 1000 : double(t * t % 7));
    for (int64_t d = 0; d < width; ++d)
      x.data.push_back(double(numbers[(t * 5 + t / 9 + d) % 9]));
  }
  for (int64_t i = 0; i < rows * width; ++i)
    table.data.push_back(double(numbers[i % 9]));
  auto expected = [&](bool onTable) {
    std::vector<float> sums(size_t(rows * width), 0);
    if (onTable)
      sums.assign(table.data.begin(), table.data.end());
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t d = 0; d < width; ++d)
        sums[size_t(std::clamp<int64_t>(int64_t(positions.data[size_t(t)]), 0, rows - 1) * width + d)] +=
            float(x.data[size_t(t * width + d)]);
    return DenseTensor{{rows, width}, {sums.begin(), sums.end()}};
  };
  Dim T = dim("T"), D = dim("D", width), V = dim("V", rows);
  GraphMaker g;
  int y = g.argument(Storage::F32, {T, D}), at = g.argument(Storage::I32, {T});
  g.yield(g.scatterAdd(y, at, {"T"}, V));
  KernelRunner alone(g.finish("alone"), cpuTarget("native"));
  alone.bind({{"T", tokens}}, {x, positions});
  ASSERT_EQ(alone.run(), 0);
  compareTensors(alone.result(0), expected(false), 0, "alone");
  for (bool inPlace : {false, true}) {
    GraphMaker h;
    int a = h.argument(Storage::F32, {T, D}), p = h.argument(Storage::I32, {T}),
        there = h.argument(Storage::F32, {V, D});
    h.yield(h.elementwise(Op::Add, {there, h.scatterAdd(a, p, {"T"}, V)}));
    KernelGraph graph = h.finish(inPlace ? "added_in_place" : "added");
    if (inPlace)
      graph.inPlace = there;
    KernelRunner added(graph, cpuTarget("native"));
    added.bind({{"T", tokens}}, {x, positions, table});
    if (inPlace)
      added.shareResult(there);
    ASSERT_EQ(added.run(), 0);
    compareTensors(added.result(0), expected(true), 0, graph.name);
  }
}

/// As an update of parameters with copies in bf16: p reads m, m reads p, and both are where they were.
TEST(Elementwise, ResultsReplaceWhatTheyAreMadeOf) {
  GraphMaker g;
  const std::vector<Dim> all = {dim("T")};
  int p = g.argument(Storage::F32, all), m = g.argument(Storage::F32, all), s = g.argument(Storage::F32, all);
  int next = g.elementwise(Op::Add, {g.elementwise(Op::Mul, {m, g.constant(0.5)}), g.elementwise(Op::Mul, {p, s})});
  int moved = g.elementwise(Op::Sub, {p, g.elementwise(Op::Div, {next, g.elementwise(Op::Add, {s, g.constant(3)})})});
  for (int result : {moved, next, g.elementwise(Op::Mul, {next, next}), g.elementwise(Op::Narrow, {moved})})
    g.yield(result);
  const KernelGraph graph = g.finish("update");
  for (const char *name : {"native", "x86-64-v3", "x86-64-v2"}) {
    KernelRunner runner(graph, cpuTarget(name));
    if (!machineRuns(cpuTarget(name)))
      continue; // it was compiled
    for (int length : {1, 16, 37, 70003}) {
      const Lengths here = {{"T", length}};
      std::vector<DenseTensor> arguments;
      for (int i = 0; i < graph.argumentCount(); ++i)
        arguments.push_back(randomTensor(graph.nodes[i], here, i + 1));
      const std::vector<DenseTensor> want = evaluate(graph, here, arguments);
      runner.bind(here, arguments);
      runner.shareResult(p, 0);
      runner.shareResult(m, 1);
      ASSERT_EQ(runner.run(), 0);
      for (int i : {0, 1, 2, 3})
        compareTensors(runner.result(i), want[graph.results[i]], i == 3 ? 5e-3 : 1e-6, name + std::to_string(length));
    }
  }
}

TEST(Shape, Everything) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("D", 24)});
  int y = g.argument(Storage::F32, {dim("T"), dim("E", 5)});
  int split = g.split(x, "D", {dim("H", 2), dim("R", 3), dim("K", 4)});
  g.yield(g.permute(split, {"H", "B", "K", "T", "R"}));
  g.yield(g.merge(g.permute(split, {"B", "T", "K", "H", "R"}), {"H", "K"}, dim("M", 8)));
  g.yield(g.cut(x, "D", Size(7), dim("P", 9)));
  g.yield(g.concat({x, y}, {"D", "E"}, dim("N", 29)));
  g.yield(
      g.elementwise(Op::Add, {g.concat({g.cut(x, "D", Size(12), dim("P", 12)), g.cut(x, "D", Size(0), dim("Q", 12))},
                                       {"P", "Q"}, dim("D", 24)),
                              x}));
  g.yield(g.rename(x, "D", dim("W", 24)));
  g.yield(g.squeeze(g.unit(x, dim("U", 1)), "U"));
  g.yield(g.expand(y, {dim("Z", 3), dim("T"), dim("E", 5)}));
  checkKernel(g.finish("shape"), lengths);
}

TEST(Shape, GatherClampsPositions) {
  GraphMaker g;
  int table = g.argument(Storage::F32, {dim("V", 6), dim("D", 10)}), tokens = g.argument(Storage::I32, {dim("T")});
  g.yield(g.gather(table, tokens, "V"));
  checkKernel(g.finish("gather"), lengths);
  GraphMaker h;
  int t = h.argument(Storage::F32, {dim("V", 6)}), p = h.argument(Storage::I32, {dim("N", 4)});
  h.yield(h.gather(t, p, "V"));
  std::vector<DenseTensor> given = {{{6}, {0, 1, 2, 3, 4, 5}}, {{4}, {-5, 2, 6, 1 << 30}}};
  checkKernel(h.finish("clamped"), {{}}, 0, cpuTarget("native"), &given);
}

/// Scores that are looked up by the distance of two positions, clamped, before a softmax (DeBERTa): what they are picked
/// from is as large as it is, whatever positions come to.
TEST(Shape, AGatherByTwoTimesNeedsNoMoreThanItsValues) {
  GraphMaker g;
  Dim B = dim("B"), T = dim("T"), S = dim("S"), H = dim("H", 2), U = dim("U", 32);
  int q = g.argument(Storage::F32, {B, T, H, dim("K", 8)}), far = g.argument(Storage::F32, {U, H, dim("K", 8)}),
      k = g.argument(Storage::F32, {B, S, H, dim("K", 8)}), v = g.argument(Storage::F32, {B, S, H, dim("C", 8)});
  auto binary = [&](Op op, int a, int b) { return g.elementwise(op, {a, b}); };
  int apart = binary(Op::Add, binary(Op::Sub, g.index(T), g.index(S)), g.integer(16));
  int positions = binary(Op::Min, binary(Op::Max, apart, g.integer(0)), g.integer(31));
  int near = g.contract(q, g.gather(far, positions, "U"), {"K"});
  g.yield(g.contract(g.softmax(binary(Op::Add, g.contract(q, k, {"K"}), near), {"S"}), v, {"S"}));
  KernelGraph &graph = g.finish("far");
  checkKernel(graph,
              {{{"B", 1}, {"T", 1}, {"S", 1}}, {{"B", 2}, {"T", 33}, {"S", 33}}, {{"B", 1}, {"T", 70}, {"S", 60}}},
              2e-5);
  for (const char *name : {"x86-64-v3", "native"}) {
    KernelRunner runner(graph, cpuTarget(name));
    Lengths now = {{"B", 1}, {"T", 33}, {"S", 33}};
    EXPECT_LT(bytesOf(runner.scratch(), [&](const std::string &symbol) { return now.at(symbol); }).caller, 1 << 20)
        << name;
  }
}

TEST(Shape, SharedDimsOfAGatherGoTogether) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("B"), dim("E", 5), dim("D", 6)}),
      p = g.argument(Storage::I32, {dim("B"), dim("C", 2)});
  g.yield(g.gather(x, p, "E"));
  checkKernel(g.finish("together"), {{{"B", 1}}, {{"B", 4}}});
}
