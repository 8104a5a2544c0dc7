// Tile programs against plain loops over their graphs: executed as loops of their own, and as the PTX that is made of them,
// late and early copies, warps in any order, at odd sizes and with plans drawn at random.
#include "codegen/schedule/Space.h"
#include "codegen/tile/PtxModule.h"
#include "codegen/tile/TileProducer.h"
#include "tests/codegen/support/Compare.h"
#include "tests/codegen/support/KernelCall.h"
#include "tests/codegen/tile/TileRun.h"

#include <gmock/gmock.h>
#include <random>

using namespace quern::codegen;

namespace {

struct Maker : GraphMaker {
  int widen(int x) { return elementwise(Op::Widen, {x}); }
  int narrow(int x) { return elementwise(Op::Narrow, {x}); }
  int stored(std::vector<Dim> dims) { return argument(Storage::BF16, std::move(dims)); }
  int packed(std::vector<Dim> dims, int64_t tile = 64) { return weight(std::move(dims), tile, Storage::BF16); }
};

const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 5}}, {{"M", 37}}, {{"M", 131}}};

tile::Numbers drawn(std::mt19937 &random) {
  auto one = [&](std::vector<int> of) { return of[random() % of.size()]; };
  for (;;) {
    tile::Numbers n;
    n.cut = {one({16, 32, 64, 128}), one({16, 32, 64, 128}), one({16, 32, 64}),
             one({2, 3, 4}),         one({1, 2, 4}),         one({1, 2, 4})};
    n.split = one({1, 2, 4}), n.few = one({0, 1, 4, 8});
    PlanPart part{"tile",
                  {{"rows", n.cut.rows},
                   {"columns", n.cut.columns},
                   {"depth", n.cut.depth},
                   {"stages", n.cut.stages},
                   {"warp_rows", n.cut.warpRows},
                   {"warp_columns", n.cut.warpColumns},
                   {"few", n.few},
                   {"split", n.split}}};
    if (!checkPart(part, {"tile", 0, {{"parts", 2}}}))
      return n;
  }
}

/// Both lowerings of every variant, at all lengths. `plans`: how many, drawn at random, the first is the standard one.
void check(const KernelGraph &graph, const std::vector<Lengths> &lengths, double tolerance, int plans = 2) {
  std::mt19937 random(unsigned(graph.text.size() + graph.name.size()));
  for (int plan = 0; plan < plans; ++plan) {
    tile::Numbers numbers;
    if (plan)
      numbers = drawn(random);
    else
      numbers.cut = {64, 64, 32, 3, 2, 2}; // small enough to execute often
    tile::Program program;
    std::optional<std::string> refused = tile::divide(graph, numbers, program);
    ASSERT_FALSE(refused) << graph.name << ": " << *refused;
    tile::PtxModule made = tile::ptxOf(program);
    std::unique_ptr<quern::ptx::Module> module;
    try {
      module = quern::ptx::parse(made.ptx);
    } catch (const std::exception &error) {
      FAIL() << error.what() << "\n" << made.ptx;
    }
    for (const Lengths &now : lengths) {
      std::vector<DenseTensor> arguments;
      for (int i = 0; i < graph.argumentCount(); ++i)
        arguments.push_back(randomTensor(graph.nodes[i], now, i + 1));
      std::vector<DenseTensor> want = evaluate(graph, now, arguments);
      for (size_t v = 0; v < program.variants.size(); ++v) {
        if (!tile::fits(program.variants[v], now))
          continue;
        std::string what = graph.name + " " + program.variants[v].name + " plan " + std::to_string(plan);
        for (const auto &[symbol, length] : now)
          what += " " + symbol + "=" + std::to_string(length);
        auto compare = [&](const std::vector<DenseTensor> &got, const std::string &how) {
          for (size_t r = 0; r < graph.results.size(); ++r)
            compareTensors(got[r], want[graph.results[r]], tolerance, what + how + " result " + std::to_string(r));
        };
        SCOPED_TRACE(what + "\n" + tile::text(program));
        compare(tile::runLoops(program, graph, now, arguments, v), " as loops");
        for (uint64_t seed : {uint64_t(0), uint64_t(1 + random() % 1000)}) {
          try {
            compare(tile::runPtx(program, *module, graph, now, arguments, v, seed),
                    " as PTX, seed " + std::to_string(seed));
          } catch (const std::exception &error) {
            FAIL() << what << " seed " << seed << ": " << error.what();
          }
        }
        if (testing::Test::HasFailure())
          return;
      }
    }
  }
}

} // namespace

TEST(Tile, Linear) {
  Maker g;
  int x = g.stored({dim("M"), dim("K", 96)}), w = g.packed({dim("N", 200), dim("K", 96)});
  g.yield(g.contract(g.widen(x), g.widen(w), {"K"}));
  check(g.finish("linear"), rows, 1e-5, 3);
}

TEST(Tile, EveryFormOfFactors) {
  Dim m = dim("M"), k = dim("K", 72), n = dim("N", 88);
  struct Form {
    const char *what;
    std::vector<Dim> x, w;
    std::string over;
  };
  for (const Form &form :
       {Form{"x w[N, K]", {m, k}, {n, k}, "K"}, Form{"x w[K, N]", {m, k}, {k, n}, "K"},
        Form{"sum over rows", {m, k}, {m, n}, "M"}, Form{"two row dims", {dim("B", 3), m, k}, {k, n}, "K"}})
    for (int narrow : {0, 1, 2, 3}) {
      Maker g;
      int x = g.argument(narrow & 1 ? Storage::BF16 : Storage::F32, form.x),
          w = g.argument(narrow & 2 ? Storage::BF16 : Storage::F32, form.w);
      g.yield(g.contract(narrow & 1 ? g.widen(x) : x, narrow & 2 ? g.widen(w) : w, {form.over}));
      SCOPED_TRACE(std::string(form.what) + " " + std::to_string(narrow));
      check(g.finish("form"), {{{"M", narrow % 2 ? 9 : 70}}}, 1e-5, 1);
    }
}

TEST(Tile, PackedInFloats) {
  Maker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("K", 40)}), w = g.weight({dim("N", 100), dim("K", 40)}, 64);
  int bias = g.argument(Storage::F32, {dim("N", 100)});
  g.yield(g.elementwise(Op::Tanh, {g.elementwise(Op::Add, {g.contract(x, w, {"K"}), bias})}));
  check(g.finish("floats"), rows, 1e-5);
}

TEST(Tile, Epilogue) {
  Maker g;
  Dim b = dim("B", 2), t = dim("T"), n = dim("N", 96);
  int x = g.stored({b, t, dim("K", 64)}), w = g.packed({n, dim("K", 64)});
  int bias = g.argument(Storage::F32, {n}), residual = g.argument(Storage::F32, {b, t, n});
  int y = g.elementwise(Op::Add, {g.contract(g.widen(x), g.widen(w), {"K"}), bias});
  int gelu = g.elementwise(Op::Mul, {y, g.elementwise(Op::Add, {g.constant(1), g.elementwise(Op::Erf, {y})})});
  g.yield(g.elementwise(Op::Add, {gelu, residual}));
  g.yield(g.narrow(g.elementwise(Op::Exp, {y})));
  check(g.finish("epilogue"), {{{"T", 1}}, {{"T", 4}}, {{"T", 45}}}, 4e-3);
}

TEST(Tile, GateAndUp) {
  Maker g;
  Dim k = dim("K", 64);
  int x = g.stored({dim("M"), k}), w = g.packed({dim("U", 2), dim("N", 72), k}, 16);
  int both = g.contract(g.widen(x), g.widen(w), {"K"});
  int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {gate, g.elementwise(Op::Sigmoid, {gate})}), up}));
  check(g.finish("gated"), rows, 1e-5, 3);
}

/// Queries, keys and values of one product: three results of other shapes than the sums.
TEST(Tile, Cuts) {
  Maker g;
  Dim k = dim("K", 48);
  int x = g.stored({dim("M"), k}), w = g.packed({dim("N", 96), k});
  int sums = g.contract(g.widen(x), g.widen(w), {"K"});
  g.yield(g.split(g.cut(sums, "N", 0, dim("Q", 64)), "Q", {dim("H", 4), dim("J", 16)}));
  g.yield(g.narrow(g.cut(sums, "N", 64, dim("R", 32))));
  check(g.finish("cuts"), rows, 4e-3);
}

TEST(Tile, Heads) {
  Maker g; // a matrix for each head, and the result's dimensions in another order
  int x = g.stored({dim("M"), dim("H", 3), dim("K", 32)}), w = g.packed({dim("H", 3), dim("N", 40), dim("K", 32)}, 16);
  g.yield(g.permute(g.contract(g.widen(x), g.widen(w), {"K"}), {"H", "M", "N"}));
  check(g.finish("heads"), rows, 1e-5);
  Maker s; // the sum goes over heads as well; columns are split
  int y = s.stored({dim("M"), dim("H", 3), dim("K", 16)}), v = s.packed({dim("N", 48), dim("D", 48)});
  int merged = s.merge(s.widen(y), {"H", "K"}, dim("D", 48));
  s.yield(s.split(s.contract(merged, s.widen(v), {"D"}), "N", {dim("G", 4), dim("L", 12)}));
  check(s.finish("merged"), rows, 1e-5);
}

TEST(Tile, Prologue) {
  Maker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("K", 50)}), w = g.packed({dim("N", 64), dim("K", 50)});
  g.yield(g.contract(g.widen(g.narrow(g.elementwise(Op::Tanh, {x}))), g.widen(w), {"K"}));
  check(g.finish("prologue"), rows, 4e-3);
}

TEST(Tile, TwoProducts) {
  Maker g;
  Dim k = dim("K", 32), n = dim("N", 48), o = dim("O", 24);
  int x = g.stored({dim("M"), k}), w = g.packed({n, k}), v = g.packed({o, n}, 8);
  int inner = g.narrow(g.elementwise(Op::Max, {g.contract(g.widen(x), g.widen(w), {"K"}), g.constant(0)}));
  g.yield(g.contract(g.widen(inner), g.widen(v), {"N"}));
  check(g.finish("two"), rows, 4e-3);
}

TEST(Tile, Codes) {
  for (Storage storage : {Storage::Int8, Storage::Int4})
    for (int64_t depth : {96, 75}) {
      Maker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("K", depth)}),
          w = g.weight({dim("N", 100), dim("K", depth)}, 64, storage);
      g.yield(g.contract(x, g.elementwise(Op::Dequantize, {w}), {"K"}));
      SCOPED_TRACE(depth);
      check(g.finish("codes"), {{{"M", 1}}, {{"M", 6}}, {{"M", 21}}}, 1e-5, 1);
    }
}

TEST(Tile, RefusesTheRest) {
  Maker g;
  int x = g.stored({dim("M"), dim("K", 64)}), w = g.packed({dim("N", 64), dim("K", 64)});
  g.yield(g.softmax(g.contract(g.widen(x), g.widen(w), {"K"}), {"N"}));
  tile::Program program;
  EXPECT_THAT(tile::divide(g.finish("softmax"), {}, program),
              testing::Optional(testing::HasSubstr("element by element")));
}

/// A fault in a program's text must show in some order of its threads and copies.
TEST(Tile, PlantedFaultsShow) {
  Maker g;
  int x = g.stored({dim("M"), dim("K", 160)}), w = g.packed({dim("N", 64), dim("K", 160)});
  g.yield(g.contract(g.widen(x), g.widen(w), {"K"}));
  const KernelGraph &graph = g.finish("faults");
  tile::Numbers numbers;
  numbers.cut = {32, 64, 16, 3, 2, 2}, numbers.few = 0;
  tile::Program program;
  ASSERT_FALSE(tile::divide(graph, numbers, program));
  std::string ptx = tile::ptxOf(program).ptx;
  Lengths lengths = {{"M", 32}};
  std::vector<DenseTensor> arguments = {randomTensor(graph.nodes[0], lengths, 1),
                                        randomTensor(graph.nodes[1], lengths, 2)};
  std::vector<double> want = evaluate(graph, lengths, arguments)[graph.results[0]].data;
  auto isRight = [&](const std::string &text) {
    auto module = quern::ptx::parse(text);
    for (uint64_t seed = 0; seed < 12; ++seed)
      try {
        std::vector<double> got = tile::runPtx(program, *module, graph, lengths, arguments, 0, seed)[0].data;
        for (size_t i = 0; i < got.size(); ++i)
          if (!(std::fabs(got[i] - want[i]) < 1e-3))
            return false;
      } catch (const std::runtime_error &) {
        return false;
      }
    return true;
  };
  EXPECT_TRUE(isRight(ptx));
  auto planted = [&](const std::string &what, const std::string &with) {
    std::string text = ptx;
    size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return at == std::string::npos ? text : text.replace(at, what.size(), with);
  };
  EXPECT_FALSE(isRight(planted("cp.async.wait_group \t1;", "cp.async.wait_group \t2;")))
      << "a wait for one copy too few";
  EXPECT_FALSE(isRight(planted("bar.sync \t0;", ""))) << "a slot is filled while warps read it";
  EXPECT_FALSE(isRight(planted("cp.async.commit_group;", ""))) << "copies of two steps are one group";
  EXPECT_FALSE(isRight(planted("ldmatrix.sync.aligned.m8n8.x4.trans", "ldmatrix.sync.aligned.m8n8.x4")))
      << "columns for rows";
}

/// A norm of the rows before the product, as models have it.
TEST(Tile, NormBefore) {
  for (bool narrow : {false, true}) {
    Maker g;
    Dim k = dim("K", 56);
    int x = g.argument(Storage::F32, {dim("B", 2), dim("M"), k}), scale = g.argument(Storage::F32, {k});
    int w = g.weight({dim("U", 2), dim("N", 40), k}, 16, narrow ? Storage::BF16 : Storage::F32);
    int mean = g.reduce(Reduction::Mean, g.elementwise(Op::Mul, {x, x}), {"K"});
    int root = g.elementwise(Op::Sqrt, {g.elementwise(Op::Add, {mean, g.constant(1e-5)})});
    int h = g.elementwise(Op::Mul, {g.elementwise(Op::Div, {x, root}), scale});
    int both = narrow ? g.contract(g.widen(g.narrow(h)), g.widen(w), {"K"}) : g.contract(h, w, {"K"});
    int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
    g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Sigmoid, {gate}), up}));
    check(g.finish("norm"), {{{"M", 1}}, {{"M", 4}}, {{"M", 19}}}, narrow ? 4e-3 : 1e-5);
  }
}

TEST(Tile, ReducedAfter) {
  Maker g; // a row's largest sum is taken from all of them
  int x = g.stored({dim("M"), dim("K", 64)}), w = g.packed({dim("N", 40), dim("K", 64)}, 8);
  int sums = g.contract(g.widen(x), g.widen(w), {"K"});
  g.yield(g.elementwise(Op::Sub, {sums, g.reduce(Reduction::Max, sums, {"N"})}));
  check(g.finish("largest"), rows, 1e-5, 1);
}
