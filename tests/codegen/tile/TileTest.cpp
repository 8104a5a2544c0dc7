// Tile programs against plain loops over their graphs: executed as loops of their own, and as the PTX that is made of them,
// late and early copies, warps in any order, at odd sizes and with plans drawn at random.
#include "codegen/schedule/Space.h"
#include "codegen/tile/TileProducer.h"
#include "codegen/tile/ptx/PtxModule.h"
#include "tests/codegen/support/Compare.h"
#include "tests/codegen/tile/TileCheck.h"

#include <gmock/gmock.h>
#include <random>

using namespace quern::codegen;

namespace {

using tile::Maker;

const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 5}}, {{"M", 37}}, {{"M", 131}}};

tile::Numbers drawn(std::mt19937 &random) {
  auto one = [&](std::vector<int> of) { return of[random() % of.size()]; };
  for (;;) {
    tile::Numbers n;
    n.cut = {one({16, 32, 64, 128}), one({16, 32, 64, 128}), one({16, 32, 64}),
             one({2, 3, 4}),         one({1, 2, 4}),         one({1, 2, 4})};
    n.split = one({1, 2, 4}), n.few = one({0, 1, 4, 8}), n.ahead = one({0, 1, 3, 64});
    n.slice = one({8, 16, 32, 64, 128});
    n.groups = one({0, 1, 2, 3}), n.wide = one({16, 32, 64, 128}), n.ring = one({2, 3, 4});
    n.some = one({0, 64, 256});
    PlanPart part{"tile",
                  {{"rows", n.cut.rows},
                   {"columns", n.cut.columns},
                   {"depth", n.cut.depth},
                   {"stages", n.cut.stages},
                   {"warp_rows", n.cut.warpRows},
                   {"warp_columns", n.cut.warpColumns},
                   {"few", n.few},
                   {"split", n.split},
                   {"slice", n.slice},
                   {"ahead", n.ahead},
                   {"groups", n.groups},
                   {"wide", n.wide},
                   {"ring", n.ring},
                   {"some", n.some},
                   {"exact", n.exact}}};
    if (!checkPart(part, {"tile", 0, {{"parts", 2}}}))
      return n;
  }
}

/// At all lengths. `plans`: how many, drawn at random, the first is the standard one.
void check(const KernelGraph &graph, const std::vector<Lengths> &lengths, double tolerance, int plans = 2) {
  std::mt19937 random(unsigned(graph.text.size() + graph.name.size()));
  for (int plan = 0; plan < plans && !testing::Test::HasFailure(); ++plan) {
    tile::Numbers numbers;
    if (plan)
      numbers = drawn(random);
    else // small enough to execute often
      numbers.cut = {64, 64, 32, 3, 2, 2}, numbers.groups = 1, numbers.wide = 64;
    tile::checkVariants(graph, numbers, lengths, tolerance, "plan " + std::to_string(plan), random);
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

/// Rotary queries beside keys: an element reads two sums of its head, which several blocks have.
TEST(Tile, Together) {
  auto rotated = [](Maker &g) {
    Dim k = dim("K", 128), m = dim("M"), h = dim("H", 2), j = dim("J", 32);
    int x = g.stored({m, k}), w = g.packed({dim("N", 96), k});
    int cosine = g.argument(Storage::F32, {m, j}), sine = g.argument(Storage::F32, {m, j});
    int sums = g.contract(g.widen(x), g.widen(w), {"K"});
    int q = g.split(g.cut(sums, "N", 0, dim("Q", 64)), "Q", {h, j});
    int low = g.cut(q, "J", 0, dim("L", 16)), high = g.cut(q, "J", 16, dim("U", 16));
    int turned = g.concat({g.elementwise(Op::Neg, {high}), low}, {"U", "L"}, j);
    g.yield(g.elementwise(Op::Add, {g.elementwise(Op::Mul, {q, cosine}), g.elementwise(Op::Mul, {turned, sine})}));
    g.yield(g.narrow(g.cut(sums, "N", 64, dim("R", 32))));
  };
  Maker g;
  rotated(g);
  const KernelGraph &graph = g.finish("rotary");
  check(graph, rows, 4e-3, 4);
  for (int slice : {8, 16, 64})
    for (int split : {1, 2}) {
      SCOPED_TRACE(std::to_string(slice) + " columns, " + std::to_string(split) + " parts");
      tile::Numbers numbers;
      numbers.few = 1, numbers.slice = slice, numbers.split = split, numbers.groups = 0;
      tile::Program program;
      ASSERT_FALSE(tile::divide(graph, numbers, program));
      const std::vector<tile::Stage> &stages = program.variants[0].stages;
      ASSERT_EQ(stages.size(), 1u) << tile::text(program);
      EXPECT_EQ(stages[0].together, std::max(32, slice));
      EXPECT_EQ(stages[0].blocksThatMeet(), split * std::max(32, slice) / slice);
      std::string ptx = tile::ptxOf(program).ptx;
      tile::Faults faults(graph, program, 0, ptx, {{"M", 1}}, 1e-2);
      EXPECT_TRUE(faults.isRight(ptx));
      if (stages[0].blocksThatMeet() > 1) {
        EXPECT_TRUE(faults.shows("], 1;", "], 2;")) << "no block has the last ticket";
      }
    }
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
  for (Storage storage : {Storage::Int8, Storage::Int8G128, Storage::Int4, Storage::F8E4M3, Storage::F8E5M2})
    for (int64_t depth : {96, 75}) {
      Maker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("K", depth)}),
          w = g.weight({dim("N", 100), dim("K", depth)}, 64, storage);
      g.yield(g.contract(x, g.elementwise(Op::Dequantize, {w}), {"K"}));
      SCOPED_TRACE(depth);
      check(g.finish("codes"), {{{"M", 1}}, {{"M", 6}}, {{"M", 21}}}, 1e-5, 1);
    }
}

/// Few rows are dot products, more are not.
static void checkDots(const KernelGraph &graph) {
  tile::Program program;
  ASSERT_FALSE(tile::divide(graph, {}, program));
  EXPECT_EQ(program.variants.at(0).stages.at(0).form, tile::Stage::Form::Dots);
  check(graph, {{{"M", 1}}, {{"M", 6}}, {{"M", 21}}}, 1e-5, 1);
}

static void checkSuperBlocks(Storage storage, int64_t depth) {
  Maker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("K", depth)}),
      w = g.weight({dim("U", 2), dim("N", 40), dim("K", depth)}, 16, storage);
  int both = g.contract(x, g.elementwise(Op::Dequantize, {w}), {"K"});
  int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
  g.yield(g.elementwise(Op::Add, {gate, up}));
  SCOPED_TRACE(storageName(storage) + std::to_string(depth));
  checkDots(g.finish("blocks"));
}

/// K-quants: codes with scales of two levels, also where the last super-block is not full.
TEST(Tile, SuperBlocks) {
  checkSuperBlocks(Storage::Q4K, 512);
  for (Storage storage : {Storage::Q4K, Storage::Q5K, Storage::Q6K, Storage::Q8K, Storage::Q51, Storage::Q4Z})
    checkSuperBlocks(storage, 300);
}

TEST(MoreTile, FullSuperBlocks) { // `More`: in the tier `nightly`
  for (Storage storage : {Storage::Q5K, Storage::Q6K, Storage::Q8K, Storage::Q51, Storage::Q4Z})
    checkSuperBlocks(storage, 512);
}

/// Few rows read each weight once, in halves, too.
TEST(Tile, Halves) {
  for (int64_t columns : {100, 64}) {
    Maker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("K", 75)}),
        w = g.weight({dim("N", columns), dim("K", 75)}, 16, Storage::F16);
    g.yield(g.contract(x, g.widen(w), {"K"}));
    SCOPED_TRACE(columns);
    checkDots(g.finish("halves"));
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
  tile::Faults faults(graph, program, 0, ptx, {{"M", 32}});
  EXPECT_TRUE(faults.isRight(ptx));
  EXPECT_TRUE(faults.shows("cp.async.wait_group \t1;", "cp.async.wait_group \t2;")) << "a wait for one copy too few";
  EXPECT_TRUE(faults.shows("bar.sync \t0;", "")) << "a slot is filled while warps read it";
  EXPECT_TRUE(faults.shows("cp.async.commit_group;", "")) << "copies of two steps are one group";
  EXPECT_TRUE(faults.shows("ldmatrix.sync.aligned.m8n8.x4.trans", "ldmatrix.sync.aligned.m8n8.x4"))
      << "columns for rows";
}

/// Of few rows the first weights are asked for, before anything is read; other addresses show.
TEST(Tile, FetchesAhead) {
  Maker g;
  int x = g.stored({dim("M"), dim("K", 160)}), w = g.packed({dim("N", 64), dim("K", 160)});
  g.yield(g.contract(g.widen(x), g.widen(w), {"K"}));
  const KernelGraph &graph = g.finish("ahead");
  for (int ahead : {0, 2}) {
    tile::Numbers numbers;
    numbers.few = 1, numbers.ahead = ahead;
    tile::Program program;
    ASSERT_FALSE(tile::divide(graph, numbers, program));
    std::string ptx = tile::ptxOf(program).ptx, name = tile::kernelName(program, 0, 0);
    size_t begin = ptx.find(".entry " + name), wait = ptx.find(tile::waitHere, begin);
    ASSERT_LT(wait, ptx.find("ld.global", begin)) << ptx;
    EXPECT_EQ(ptx.find("prefetch.global.L2", begin) < wait, ahead > 0) << ptx;
    if (!ahead)
      continue;
    tile::Faults faults(graph, program, 0, ptx, {{"M", 1}});
    EXPECT_TRUE(faults.isRight(ptx));
    size_t at = ptx.find("prefetch.global.L2", begin);
    std::string asks = ptx.substr(at, ptx.find(']', at) - at);
    EXPECT_TRUE(faults.shows(asks, asks + "+8")) << "other weights than those that are read";
  }
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

/// Rows of a cache: codes of one byte, and a scale for each head.
TEST(Tile, CodesOfHeads) {
  Maker g;
  Dim H = dim("H", 3), K = dim("K", 24);
  int x = g.stored({dim("M"), dim("D", 64)}), w = g.packed({dim("N", 72), dim("D", 64)}, 8);
  int rows = g.split(g.contract(g.widen(x), g.widen(w), {"D"}), "N", {H, K});
  int largest = g.reduce(Reduction::Max, g.elementwise(Op::Abs, {rows}), {"K"});
  int scale = g.narrow(g.elementwise(Op::Mul, {largest, g.constant(1.0 / 127)}));
  int by = g.elementwise(Op::Div, {g.constant(1), g.widen(scale)});
  g.yield(scale);
  g.yield(g.narrow(g.elementwise(Op::Round, {g.elementwise(Op::Mul, {rows, by})})));
  check(g.finish("codes"), {{{"M", 1}}, {{"M", 5}}, {{"M", 37}}}, 1e-2);
}

TEST(Tile, ReducedAfter) {
  Maker g; // a row's largest sum is taken from all of them
  int x = g.stored({dim("M"), dim("K", 64)}), w = g.packed({dim("N", 40), dim("K", 64)}, 8);
  int sums = g.contract(g.widen(x), g.widen(w), {"K"});
  g.yield(g.elementwise(Op::Sub, {sums, g.reduce(Reduction::Max, sums, {"N"})}));
  check(g.finish("largest"), rows, 1e-5, 1);
}
