// Plans of kernels: what is chosen, what is refused, and that any point of a space computes the same.
#include "codegen/halide/HalideProducer.h"
#include "codegen/schedule/ChoosePlan.h"
#include "tests/codegen/support/Check.h"
#include "tests/codegen/support/DrawnPlan.h"

#include <random>

using namespace quern::codegen;

/// A contraction with a packed weight, a norm before it and something elementwise behind.
static KernelGraph &product(GraphMaker &g, int64_t tile) {
  int x = g.argument(Storage::F32, {dim("M"), dim("K", 48)});
  int w = g.weight({dim("N", 80), dim("K", 48)}, tile);
  int mean = g.reduce(Reduction::Mean, x, {"K"});
  int centred = g.elementwise(Op::Sub, {x, mean});
  int sum = g.contract(centred, w, {"K"});
  g.yield(g.elementwise(Op::Tanh, {sum}));
  return g.finish("product");
}

static std::string refusal(const KernelPlan &plan, const KernelGraph &graph, const std::string &target) {
  return halideProducer().refuses(plan, graph, cpuTarget(target)).value_or("");
}

TEST(Plan, SaysWhatIsComputed) {
  GraphMaker g;
  KernelGraph &graph = product(g, 16);
  ScheduleTable schedules = ScheduleTable::standard();
  KernelPlan plan = halideProducer().choose(graph, cpuTarget("x86-64-v3"), schedules);
  EXPECT_EQ(
      plan.text(),
      "halide: contract(ahead = 512, alone = 1, amx = 0, columns = 16, depth = 48, few = 0, group = 1, row_block = 12, "
      "rows = 6, side = 1, tiles = 4, together = 4, "
      "unroll = 4), "
      "row(inside = 512, lanes = 32, most = 64, work = 16384), map(most = 4096, work = 32768)");
  EXPECT_EQ(refusal(plan, graph, "x86-64-v3"), "");
  // A narrower tile leaves registers for more rows; schedules are what plans are made from.
  EXPECT_EQ(halideProducer().choose(graph, cpuTarget("x86-64-v4"), schedules).parts[0]["rows"], 9);
  schedules.add("contract inner = 48 : rows 3, unroll 32", "mine.txt");
  plan = halideProducer().choose(graph, cpuTarget("x86-64-v3"), schedules);
  EXPECT_EQ(plan.parts[0]["rows"], 3);
  EXPECT_EQ(plan.parts[0]["unroll"], 16); // of a depth of 48
}

TEST(Plan, WhatCannotBeIsRefusedByName) {
  GraphMaker g;
  KernelGraph &graph = product(g, 16);
  KernelPlan plan = halideProducer().choose(graph, cpuTarget("x86-64-v3"), ScheduleTable::standard());
  auto with = [&](const std::string &name, int64_t value) {
    KernelPlan edited = plan;
    edited.parts[0].numbers[name] = value;
    return refusal(edited, graph, "x86-64-v3");
  };
  EXPECT_EQ(with("rows", 4), "");
  EXPECT_EQ(with("rows", 0), "contract: rows 0 is not among 1 to 64");
  EXPECT_EQ(with("rows", 7), "contract: rows 7 x columns 16 do not fit the target's 16 registers of 8 floats");
  EXPECT_EQ(with("columns", 32), "contract: columns 32, but the weight is packed in tiles of 16");
  EXPECT_EQ(with("unroll", 3), "contract: unroll 3 is not among 1, 2 ... 64");
  EXPECT_EQ(with("unroll", 32), "contract: unroll 32 does not divide the depth of 48");
  EXPECT_EQ(with("row", 3), "contract: 'row' is none of its numbers; it has rows, columns, unroll, row_block, depth, "
                            "tiles, alone, side, few, together, group, ahead and amx");
  KernelPlan edited = plan;
  edited.parts[0].numbers.erase("rows");
  EXPECT_EQ(refusal(edited, graph, "x86-64-v3"),
            "contract: 'rows' is missing; it has rows, columns, unroll, "
            "row_block, depth, tiles, alone, side, few, together, group, ahead and amx");
  edited = plan;
  edited.parts.pop_back();
  EXPECT_EQ(refusal(edited, graph, "x86-64-v3"),
            "its parts are contract and row; the kernel has contract, row and map");
}

/// What a plan's kernel computes, beside plain loops.
static void checkPlan(const KernelGraph &graph, const KernelPlan &plan, const Lengths &lengths, double tolerance) {
  std::vector<DenseTensor> arguments;
  for (int i = 0; i < graph.argumentCount(); ++i)
    arguments.push_back(randomTensor(graph.nodes[i], lengths, i + 1));
  std::vector<DenseTensor> want = evaluate(graph, lengths, arguments);
  KernelRunner runner(graph, cpuTarget("native"), plan);
  runner.bind(lengths, arguments);
  ASSERT_EQ(runner.run(), 0) << plan.text();
  for (size_t r = 0; r < graph.results.size(); ++r)
    compareTensors(runner.result(r), want[graph.results[r]], tolerance, plan.text());
}

static KernelPlan planBy(const std::string &schedule, const KernelGraph &graph) {
  ScheduleTable table = ScheduleTable::standard();
  table.add(schedule, "mine.txt");
  return halideProducer().choose(graph, cpuTarget("native"), table);
}

static void checkDrawn(const KernelGraph &graph, const Lengths &lengths, double tolerance) {
  std::mt19937 random(7);
  CpuTarget target = cpuTarget("native");
  for (int i = 0; i < 4; ++i) {
    KernelPlan plan = drawnPlan(graph, target, ScheduleTable::standard(), [&](size_t n) { return random() % n; });
    ASSERT_EQ(halideProducer().refuses(plan, graph, target).value_or(""), "") << plan.text();
    checkPlan(graph, plan, lengths, tolerance);
  }
}

TEST(Plan, AnyPointOfASpaceComputesTheSame) {
  {
    GraphMaker g;
    checkDrawn(product(g, 16), {{"M", 13}}, 1e-5);
  }
  { // neither operand packed
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("K", 96)}),
        w = g.argument(Storage::F32, {dim("N", 40), dim("K", 96)});
    g.yield(g.contract(x, w, {"K"}));
    checkDrawn(g.finish("dense"), {{"M", 29}}, 1e-5);
  }
  { // attention
    GraphMaker g;
    Dim t = dim("T"), s = dim("S"), h = dim("H", 2), k = dim("K", 16);
    int q = g.argument(Storage::F32, {t, h, k}), keys = g.argument(Storage::F32, {s, h, k}),
        v = g.argument(Storage::F32, {s, h, k});
    int sum = g.attention(g.contract(q, keys, {"K"}), v, "S");
    g.yield(g.permute(sum, {"T", "H", "K"}));
    checkDrawn(g.finish("attention"), {{"S", 37}, {"T", 21}}, 1e-5);
  }
}

static void checkParts(const KernelGraph &graph, int64_t depth, double tolerance) {
  KernelPlan plan = planBy("contract : amx 0, row_block 2, depth " + std::to_string(depth), graph);
  EXPECT_LE(plan.parts[0]["depth"], depth);
  checkPlan(graph, plan, {{"M", 29}}, tolerance);
}

/// Parts of a packed weight's depth, the last one shorter or not; rows that no tile is full of; a gate, whose two weights share
/// tiles; weights for each head, stored in f32, bf16 and codes.
static void checkPartsOf(std::initializer_list<Storage> storages) {
  for (Storage storage : storages) {
    const bool coded = bitsOfCode(storage), narrow = storage != Storage::F32;
    auto real = [&](GraphMaker &g, int w) {
      return narrow ? g.elementwise(coded ? Op::Dequantize : Op::Widen, {w}) : w;
    };
    {
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("K", 600)});
      int w = real(g, g.weight({dim("U", 2), dim("N", 40), dim("K", 600)}, 16, storage));
      int both = g.contract(x, w, {"K"});
      auto part = [&](int64_t at, const char *name) {
        return g.squeeze(g.cut(both, "U", quern::ir::Size(at), dim(name, 1)), name);
      };
      g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Sigmoid, {part(0, "G")}), part(1, "V")}));
      SCOPED_TRACE(quern::support::storageName(storage));
      checkParts(g.finish("gate"), 256, 1e-4);
    }
    {
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), dim("K", 600)});
      int w = real(g, g.weight({dim("H", 3), dim("N", 40), dim("K", 600)}, 16, storage));
      g.yield(g.contract(x, w, {"K"}));
      SCOPED_TRACE(quern::support::storageName(storage));
      checkParts(g.finish("heads"), 256, 1e-4);
    }
  }
}

TEST(Plan, PartsOfTheDepthSumUp) {
  for (int64_t depth : {16, 20, 47}) {
    GraphMaker g;
    checkParts(product(g, 16), depth, 1e-5);
  }
  checkPartsOf({Storage::F32, Storage::BF16, Storage::Int8, Storage::Q6K});
}

TEST(MorePlan, PartsOfTheDepthSumUp) { // `More`: in the tier `nightly`
  checkPartsOf({Storage::F16, Storage::Int4, Storage::Q4K});
}

/// The gradient of a weight over two dimensions: its last block has more tiles than there are rows for.
TEST(Plan, BlocksThatReachBeyondTheRows) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("B", 3), dim("M"), dim("I", 97)}),
      dy = g.argument(Storage::F32, {dim("B", 3), dim("M"), dim("O", 71)});
  g.yield(g.contract(x, dy, {"B", "M"}));
  KernelGraph &graph = g.finish("blocks");
  for (int64_t block : {1, 5, 16}) {
    KernelPlan plan = planBy("dense : rows 4, depth 16, group 1, row_block " + std::to_string(block), graph);
    EXPECT_EQ(plan.parts[0]["row_block"], block);
    checkPlan(graph, plan, {{"M", 37}}, 1e-5);
  }
}

TEST(Plan, SchedulesOfAttentionThatCannotBeAreRefused) {
  GraphMaker g;
  Dim t = dim("T"), s = dim("S"), h = dim("H", 1), k = dim("K", 8);
  int q = g.argument(Storage::F32, {t, h, k}), keys = g.argument(Storage::F32, {s, h, k}),
      v = g.argument(Storage::F32, {s, h, k});
  g.yield(g.permute(g.attention(g.contract(q, keys, {"K"}), v, "S"), {"T", "H", "K"}));
  KernelGraph graph = g.finish("refused");
  std::pair<const char *, const char *> cases[] = {
      {"rows 2", "rows 2 are no multiple of the target's vector of 8 floats"},
      {"split 3", "split 3 is no multiple of the target's vector of 8 floats"},
      {"step 4, keys 1", "keys 1 are less than a step of 4"},
      {"rows 24, step 8", "rows 24 x step 8 do not fit the target's 16 registers of 8 floats"}};
  for (auto [numbers, reason] : cases) {
    ScheduleTable table = ScheduleTable::standard();
    table.add(std::string("attention : ") + numbers, "mine.txt");
    try {
      KernelRunner runner(graph, cpuTarget("x86-64-v3"), table);
      FAIL() << numbers;
    } catch (const std::exception &error) {
      EXPECT_EQ(std::string(error.what()), std::string("kernel refused: a schedule of attention cannot be: ") + reason);
    }
  }
}
