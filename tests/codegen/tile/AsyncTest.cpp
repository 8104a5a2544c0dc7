// Products by Hopper's warp groups: every layout that copies and tensor cores must agree on, and what shows where they do not.
#include "codegen/schedule/Space.h"
#include "codegen/tile/TileProducer.h"
#include "codegen/tile/ptx/PtxModule.h"
#include "tests/codegen/tile/TileCheck.h"

#include <regex>

using namespace quern::codegen;
using tile::Maker;

namespace {

tile::Numbers numbersOf(int groups, int wide, int ring) {
  tile::Numbers numbers;
  numbers.cut = {16, 16, 16, 2, 1, 1}, numbers.few = 0, numbers.some = 0;
  numbers.groups = groups, numbers.wide = wide, numbers.ring = ring;
  return numbers;
}

/// The kernel's program has such a product; both lowerings of it are right.
void check(const KernelGraph &graph, const tile::Numbers &numbers, const std::vector<Lengths> &lengths) {
  std::mt19937 random(7);
  tile::Program program;
  ASSERT_EQ(tile::divide(graph, numbers, program).value_or(""), "");
  EXPECT_EQ(program.variants[0].capability, 90) << tile::text(program);
  tile::checkVariants(graph, numbers, lengths, 1e-5, "wide " + std::to_string(numbers.wide), random);
}

} // namespace

TEST(Async, EveryTileOfWeights) {
  for (int64_t rows : {16, 32, 64, 128})
    for (int wide : {16, 32, 64, 256}) {
      if (wide > rows && wide % rows)
        continue;
      Maker g;
      int x = g.stored({dim("M"), dim("K", 144)}), w = g.packed({dim("N", 200), dim("K", 144)}, rows);
      g.yield(g.contract(g.widen(x), g.widen(w), {"K"}));
      SCOPED_TRACE(rows);
      check(g.finish("tiles"), numbersOf(1, wide, 2), {{{"M", 70}}});
    }
}

TEST(Async, EveryOrderOfFactors) {
  Dim m = dim("M"), k = dim("K", 136), n = dim("N", 72);
  for (bool columnsInner : {false, true})
    for (int wide : {16, 64, 128}) {
      Maker g; // rows of two dimensions, which follow each other
      int x = g.stored({dim("B", 3), m, k}),
          w = g.stored(columnsInner ? std::vector<Dim>{k, n} : std::vector<Dim>{n, k});
      g.yield(g.contract(g.widen(x), g.widen(w), {"K"}));
      SCOPED_TRACE(columnsInner);
      check(g.finish("orders"), numbersOf(2, wide, 3), {{{"M", 1}}, {{"M", 50}}});
    }
}

/// A weight's gradient: what is summed is the outer dimension of both factors. Rows that are side by side are read as they are,
/// or, from f32, are written side by side.
TEST(Async, RowsSideBySide) {
  Dim t = dim("T"), m = dim("M", 136), n = dim("N", 72);
  for (Storage of : {Storage::BF16, Storage::F32})
    for (int groups : {1, 2, 3}) {
      Maker g;
      int x = g.argument(of, {t, m}), w = g.stored({t, n});
      g.yield(g.contract(g.widen(of == Storage::F32 ? g.narrow(x) : x), g.widen(w), {"T"}));
      const KernelGraph &graph = g.finish("gradient");
      SCOPED_TRACE(groups);
      check(graph, numbersOf(groups, 64, 2), {{{"T", 1}}, {{"T", 131}}});
      tile::Program program;
      ASSERT_FALSE(tile::divide(graph, numbersOf(groups, 64, 2), program));
      const std::vector<tile::Stage> &stages = program.variants[0].stages;
      ASSERT_EQ(stages.size(), of == Storage::F32 ? 3u : 2u) << tile::text(program);
      const tile::Stage &product = stages[stages.size() - 2];
      EXPECT_FALSE(product.x.depthInner) << tile::text(program);
      EXPECT_EQ(product.split, 4) << "parts of the depth, which a map adds up";
    }
}

TEST(Async, MatricesAndParts) {
  Maker h; // a matrix for each head
  int x = h.stored({dim("M"), dim("H", 3), dim("K", 32)}), w = h.packed({dim("H", 3), dim("N", 40), dim("K", 32)}, 16);
  h.yield(h.contract(h.widen(x), h.widen(w), {"K"}));
  check(h.finish("heads"), numbersOf(1, 32, 2), {{{"M", 67}}});
  Maker g; // a gate and what it opens
  Dim k = dim("K", 72);
  int y = g.stored({dim("M"), k}), u = g.packed({dim("U", 2), dim("N", 72), k}, 64);
  int both = g.contract(g.widen(y), g.widen(u), {"K"});
  int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Sigmoid, {gate}), up}));
  check(g.finish("gated"), numbersOf(3, 64, 2), {{{"M", 200}}});
}

/// Up to so many rows blocks share the depth, and a map adds up what they have: of one sum, of a gate and what it opens, of what
/// is cut from one product. Codes beside bf16 are one number of it or three, and are written side by side.
TEST(Async, SomeRowsShareTheDepth) {
  const Dim k = dim("K", 1024), m = dim("M");
  const std::vector<Lengths> lengths = {{{"M", 3}}, {{"M", 20}}};
  auto numbers = [](bool exact) {
    tile::Numbers made = numbersOf(1, 128, 2);
    made.some = 16, made.exact = exact;
    return made;
  };
  auto shared = [&](const KernelGraph &graph, bool exact, double tolerance) {
    std::mt19937 random(7);
    tile::Program program;
    ASSERT_EQ(tile::divide(graph, numbers(exact), program).value_or(""), "");
    ASSERT_EQ(program.variants[0].name, "some") << tile::text(program);
    EXPECT_EQ(program.variants[0].mostRows, 16);
    const std::vector<tile::Stage> &stages = program.variants[0].stages;
    const tile::Stage &product = stages[stages.size() - 2 - (graph.results.size() > 1)];
    EXPECT_EQ(product.form, tile::Stage::Form::Async) << tile::text(program);
    EXPECT_EQ(product.split, 4);
    EXPECT_EQ(product.cut.columns, 64);
    EXPECT_EQ(program.variants[1].name, "groups");
    tile::checkVariants(graph, numbers(exact), lengths, tolerance, "", random);
  };
  Maker g;
  int x = g.stored({m, k}), w = g.packed({dim("N", 96), k}), bias = g.argument(Storage::F32, {dim("N", 96)});
  g.yield(g.elementwise(Op::Add, {g.contract(g.widen(x), g.widen(w), {"K"}), bias}));
  shared(g.finish("one"), true, 1e-5);
  Maker t;
  int y = t.stored({m, k}), u = t.packed({dim("U", 2), dim("N", 64), k});
  int both = t.contract(t.widen(y), t.widen(u), {"K"});
  int gate = t.squeeze(t.cut(both, "U", 0, dim("G", 1)), "G"), up = t.squeeze(t.cut(both, "U", 1, dim("V", 1)), "V");
  t.yield(t.elementwise(Op::Mul, {t.elementwise(Op::Sigmoid, {gate}), up}));
  shared(t.finish("gate"), true, 1e-5);
  Maker c;
  int z = c.stored({m, k}), v = c.packed({dim("N", 96), k}), sums = c.contract(c.widen(z), c.widen(v), {"K"});
  c.yield(c.split(c.cut(sums, "N", 0, dim("Q", 64)), "Q", {dim("H", 4), dim("J", 16)}));
  c.yield(c.cut(sums, "N", 64, dim("R", 32)));
  shared(c.finish("cuts"), true, 1e-5);
  for (bool exact : {true, false}) {
    Maker q;
    int a = q.stored({m, k}), codes = q.weight({dim("N", 64), k}, 64, Storage::Int4);
    q.yield(q.contract(q.widen(a), q.elementwise(Op::Dequantize, {codes}), {"K"}));
    shared(q.finish("codes"), exact, exact ? 1e-5 : 5e-2);
  }
}

/// Factors in f32 are written in three pieces; those that are in memory in another order are not, and are no asynchronous product's.
TEST(Async, WhatItLeavesToOthers) {
  Maker g;
  Dim k = dim("K", 64);
  int x = g.argument(Storage::F32, {dim("M"), k}), w = g.packed({dim("N", 64), k});
  g.yield(g.contract(x, g.widen(w), {"K"}));
  tile::Program program;
  ASSERT_FALSE(tile::divide(g.finish("pieces"), numbersOf(1, 64, 2), program));
  for (const tile::Variant &variant : program.variants)
    EXPECT_EQ(variant.capability, 80) << tile::text(program);
  Maker narrow; // eight rows: no swizzle has lines of 16 bytes
  int y = narrow.stored({dim("M"), k}), v = narrow.packed({dim("N", 64), k}, 8);
  narrow.yield(narrow.contract(narrow.widen(y), narrow.widen(v), {"K"}));
  tile::Program other;
  ASSERT_FALSE(tile::divide(narrow.finish("narrow"), numbersOf(1, 64, 2), other));
  EXPECT_EQ(other.variants[0].capability, 80) << tile::text(other);
}

TEST(Async, PlansThatCannotBe) {
  PlanPart part{"tile",
                {{"rows", 128},
                 {"columns", 128},
                 {"depth", 32},
                 {"stages", 3},
                 {"warp_rows", 2},
                 {"warp_columns", 4},
                 {"few", 8},
                 {"split", 1},
                 {"slice", 64},
                 {"ahead", 8},
                 {"groups", 2},
                 {"wide", 256},
                 {"ring", 4},
                 {"some", 256},
                 {"exact", 0}}};
  auto refused = [&](const char *name, int64_t value, int64_t parts) {
    PlanPart other = part;
    other.numbers[name] = value;
    return checkPart(other, {"tile", 0, {{"parts", parts}}}).value_or("");
  };
  EXPECT_EQ(refused("ring", 4, 1), "");
  EXPECT_EQ(refused("ring", 5, 1), "ring 5 takes 245840 bytes of a block's memory; there are 232448");
  EXPECT_EQ(refused("ring", 2, 2), "wide 256 does not fit the registers of 2 groups");
  EXPECT_EQ(refused("groups", 3, 1), "wide 256 does not fit the registers of 3 groups");
  EXPECT_EQ(refused("groups", 0, 2), "") << "none of it is made";
}

TEST(Async, PlantedFaultsShow) {
  Maker g;
  int x = g.stored({dim("M"), dim("K", 448)}), w = g.packed({dim("N", 64), dim("K", 448)});
  g.yield(g.contract(g.widen(x), g.widen(w), {"K"}));
  const KernelGraph &graph = g.finish("faults");
  tile::Program program;
  ASSERT_FALSE(tile::divide(graph, numbersOf(2, 64, 3), program));
  std::string ptx = tile::ptxOf(program, 90).ptx;
  tile::Faults faults(graph, program, 0, ptx, {{"M", 128}});
  EXPECT_TRUE(faults.isRight(ptx));
  EXPECT_TRUE(faults.shows("p, 1, 1, 0, 1;", "p, 1, 1, 0, 0;")) << "columns for rows";
  EXPECT_TRUE(faults.shows("wgmma.fence.sync.aligned;", "")) << "no fence before the products";
  EXPECT_TRUE(faults.shows("wgmma.commit_group.sync.aligned;", "")) << "nobody waits for what is not committed";
  EXPECT_TRUE(faults.shows("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;"))
      << "a slot is filled while it is read";
  EXPECT_TRUE(faults.shows("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;")) << "sums in flight";
  EXPECT_TRUE(faults.shows("fence.mbarrier_init.release.cluster;", "")) << "copies do not see the barriers";
  EXPECT_TRUE(faults.shows("mbarrier.arrive.shared::cta.b64", "// ")) << "no slot is ever empty again";
  EXPECT_TRUE(faults.shows("cp.async.bulk.tensor.3d", "// ")) << "bytes that never come";

  // Waits for one phase for ever: of the consumers' barriers, and of the producer's.
  auto every = [&](const char *what) {
    std::regex form(what);
    return std::vector<std::smatch>(std::sregex_iterator(ptx.begin(), ptx.end(), form), std::sregex_iterator());
  };
  auto with = [&](const std::smatch &at, const std::string &text) {
    return ptx.substr(0, size_t(at.position())) + text + ptx.substr(size_t(at.position() + at.length()));
  };
  std::vector<std::smatch> waits = every("(mbarrier.try_wait.parity.shared::cta.b64 p, .%r\\d+., )%r\\d+;");
  ASSERT_EQ(waits.size(), 2u);
  for (const std::smatch &wait : waits)
    for (const char *parity : {"0;", "1;"})
      EXPECT_FALSE(faults.isRight(with(wait, wait[1].str() + parity))) << wait.str() << " for the phase " << parity;

  // Descriptors: another swizzle than the copies', eights of rows or of the depth at another distance.
  std::vector<std::smatch> layouts = every("4611686\\d{12}");
  ASSERT_GE(layouts.size(), 2u);
  for (const std::smatch &layout : {layouts[0], layouts[1]}) {
    uint64_t bits = std::stoull(layout.str());
    EXPECT_EQ(bits >> 62, 1u) << "lines of 128 bytes";
    for (uint64_t other : {(bits & (~uint64_t(0) >> 2)) | uint64_t(2) << 62, bits + (uint64_t(8) << 32)})
      EXPECT_FALSE(faults.isRight(with(layout, std::to_string(other)))) << layout.str() << " as " << other;
  }
}
