// Products by AMX's tile registers: the numbers at sizes that no tile divides, where the processor has them; everywhere
// that they are compiled, and that nothing else asks for them.
#include "codegen/halide/HalideProducer.h"
#include "tests/codegen/support/Check.h"
#include "tests/codegen/support/DrawnPlan.h"
#include "tests/codegen/support/Instructions.h"

#include <gmock/gmock.h>

#include <random>

using namespace quern::codegen;

namespace {

const CpuTarget &withTiles() {
  static const CpuTarget target = cpuTarget("sapphirerapids");
  return target;
}

int real(GraphMaker &g, int value) {
  if (g.graph.nodes[value].storage == Storage::F32)
    return value;
  return g.elementwise(bitsOfCode(g.graph.nodes[value].storage) ? Op::Dequantize : Op::Widen, {value});
}

/// Rows in codes, as beside such columns.
int inCodes(GraphMaker &g, int x, const std::string &depth, Storage columns) {
  return real(g, g.quantize(x, depth, quern::support::rowsBeside(columns)));
}

/// tanh(rows * weight + what the result may overlap); `rows`: how they are multiplied, by default as the weight, in codes which the
/// kernel makes, or in bf16.
KernelGraph &product(GraphMaker &g, Storage storage, int64_t depth, int64_t columns, int64_t tile,
                     std::optional<Storage> rows = std::nullopt) {
  Dim m = dim("M"), i = dim("I", depth), o = dim("O", columns);
  const bool coded = !rows && bitsOfCode(storage);
  const Storage stored = coded ? Storage::F32 : rows.value_or(Storage::BF16);
  int x = g.argument(stored, {m, i}), w = g.weight({o, i}, tile, storage), over = g.argument(Storage::F32, {m, o});
  int row = coded ? inCodes(g, x, "I", storage) : stored == Storage::F32 ? x : real(g, x);
  int sum = g.contract(row, real(g, w), {"I"});
  g.yield(g.elementwise(Op::Tanh, {g.elementwise(Op::Add, {sum, over})}));
  return g.finish("tiles");
}

/// What a training step does with weights: factors in bf16 as they are stored, either way; sums over rows, over several
/// dimensions, along a depth that ends within a step; matrices beside each other; rows that the kernel makes.
struct StoredForm {
  const char *what;
  std::vector<Dim> x, w;
  std::vector<std::string> over;
  bool made = false;
};

std::vector<StoredForm> storedForms() {
  Dim b = dim("B", 3), m = dim("M"), h = dim("H", 3), i = dim("I", 96), odd = dim("J", 75), o = dim("O", 200),
      few = dim("P", 71), step = dim("K", 32), part = dim("L", 24);
  return {{"x w", {m, i}, {i, o}, {"I"}},
          {"x w'", {m, i}, {few, i}, {"I"}},
          {"odd depth", {m, odd}, {odd, o}, {"J"}},
          {"odd depth, w'", {m, odd}, {few, odd}, {"J"}},
          {"dw", {m, i}, {m, o}, {"M"}},
          {"dw of batches", {b, m, i}, {b, m, few}, {"B", "M"}},
          {"heads", {m, h, i}, {h, i, o}, {"I"}},
          {"made", {m, i}, {i, few}, {"I"}, true},
          {"one step", {m, step}, {step, few}, {"K"}},
          {"one step, w'", {m, step}, {few, step}, {"K"}},
          {"within a step", {m, part}, {part, few}, {"L"}},
          {"within a step, w'", {m, part}, {few, part}, {"L"}},
          {"few columns", {m, i}, {part, i}, {"I"}},
          {"small dw", {m, part}, {m, step}, {"M"}}};
}

/// `rows`, `columns`: how these are stored. What is made of f32 is rounded to them.
KernelGraph &storedProduct(GraphMaker &g, const StoredForm &form, Storage rows = Storage::BF16,
                           Storage columns = Storage::BF16) {
  int x = g.argument(form.made ? Storage::F32 : rows, form.x), w = g.argument(columns, form.w);
  if (form.made)
    x = g.elementwise(Op::Tanh, {x});
  if (form.made && rows == Storage::BF16)
    x = g.elementwise(Op::Narrow, {x});
  auto real = [&](int value, Storage stored) {
    return stored == Storage::BF16 ? g.elementwise(Op::Widen, {value}) : value;
  };
  int sum = g.contract(real(x, rows), real(w, columns), form.over);
  g.yield(g.elementwise(Op::Tanh, {sum}));
  return g.finish("stored");
}

/// Rows that are each routed to two of five weights: packed, or stored either way; along an odd depth, with two parts in one
/// weight, with heads.
struct RoutedForm {
  const char *what;
  std::vector<Dim> x, w;
  bool packed;
};

std::vector<RoutedForm> routedForms() {
  Dim m = dim("M"), e = dim("E", 5), i = dim("I", 96), odd = dim("J", 75), o = dim("O", 71), u = dim("U", 2),
      h = dim("H", 3), even = dim("K", 256), narrow = dim("P", 40);
  return {{"packed", {m, i}, {e, o, i}, true},
          {"packed, odd depth", {m, odd}, {e, o, odd}, true},
          {"packed, gate and up", {m, i}, {u, e, o, i}, true},
          {"packed, heads", {m, h, i}, {e, o, i}, true},
          {"stored", {m, i}, {e, i, o}, false},
          {"stored, odd depth", {m, odd}, {e, odd, o}, false},
          {"stored along the depth", {m, i}, {e, o, i}, false},
          {"stored along an odd depth", {m, odd}, {e, o, odd}, false},
          {"packed, groups at a time", {m, even}, {e, narrow, even}, true}};
}

KernelGraph &routed(GraphMaker &g, const RoutedForm &form, Storage storage, Storage rows) {
  const bool coded = bitsOfCode(storage);
  const std::string depth = form.x.back().name;
  int x = g.argument(rows, form.x), w = form.packed ? g.weight(form.w, 32, storage) : g.argument(storage, form.w),
      chosen = g.argument(Storage::I32, {form.x.front(), dim("C", 2)});
  int numbers = coded ? inCodes(g, x, depth, storage) : rows == Storage::F32 ? x : real(g, x);
  int y = g.contract(numbers, real(g, g.gather(w, chosen, "E")), {depth});
  if (form.w.size() > 3) {
    int gate = g.squeeze(g.cut(y, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(y, "U", 1, dim("V", 1)), "V");
    y = g.elementwise(Op::Mul, {g.elementwise(Op::Sigmoid, {gate}), up});
  }
  g.yield(g.elementwise(Op::Tanh, {y}));
  return g.finish("routed");
}

ScheduleTable withNumbers(const std::string &numbers, const std::string &family = "contract") {
  ScheduleTable table = ScheduleTable::standard();
  table.add(family + " : " + numbers, "mine.txt");
  return table;
}

/// With a plan, at all lengths, the result over an argument too.
void check(const KernelGraph &graph, const KernelPlan &plan, const std::vector<int64_t> &rows, bool shared = true,
           double tolerance = 1e-5) {
  SCOPED_TRACE(plan.text());
  KernelRunner runner(graph, withTiles(), plan);
  if (!machineRuns(withTiles()))
    return;
  for (int64_t length : rows) {
    Lengths lengths = {{"M", length}};
    std::vector<DenseTensor> arguments;
    for (int i = 0; i < graph.argumentCount(); ++i)
      arguments.push_back(randomTensor(graph.nodes[i], lengths, i + 1));
    std::vector<DenseTensor> want = evaluate(graph, lengths, arguments);
    for (int over : shared ? std::vector{-1, graph.argumentCount() - 1} : std::vector{-1}) {
      runner.bind(lengths, arguments);
      if (over >= 0)
        runner.shareResult(over);
      ASSERT_EQ(runner.run(), 0);
      compareTensors(runner.result(0), want[graph.results[0]], tolerance, "M=" + std::to_string(length));
      EXPECT_LE(runner.used().caller, runner.planned().caller) << length;
      EXPECT_LE(runner.used().worker, runner.planned().worker) << length;
    }
  }
}

/// Few rows go by tiles, too.
KernelPlan planOf(const KernelGraph &graph, std::string numbers, const std::string &family = "contract") {
  if (family == "contract")
    numbers += ", few 0";
  return halideProducer().choose(graph, withTiles(), withNumbers(numbers, family));
}

const std::vector<int64_t> manyRows = {1, 2, 15, 16, 17, 31, 33, 64, 101};

} // namespace

/// Depths of whole steps of a tile and of parts of one; columns that end within a tile, and within 16.
TEST(Tiles, OfBF16) {
  for (auto [depth, columns, tile, amx] : {std::tuple(64, 128, 64, 2), std::tuple(160, 100, 64, 2),
                                           std::tuple(32, 71, 32, 1), std::tuple(96, 40, 16, 4)}) {
    GraphMaker g;
    KernelGraph &graph = product(g, Storage::BF16, depth, columns, tile);
    check(graph, planOf(graph, "alone 0, group 2, amx " + std::to_string(amx)), manyRows);
  }
}

/// Rows in f32: three pieces of bf16 each, to the last bits of f32.
TEST(Tiles, OfRowsInF32) {
  for (auto [depth, columns, tile, amx] :
       {std::tuple(64, 128, 64, 2), std::tuple(160, 100, 64, 1), std::tuple(96, 40, 16, 4)}) {
    GraphMaker g;
    KernelGraph &graph = product(g, Storage::BF16, depth, columns, tile, Storage::F32);
    KernelPlan plan = planOf(graph, "alone 1, group 2, amx " + std::to_string(amx));
    EXPECT_EQ(plan.parts[0]["amx"], amx);
    check(graph, plan, manyRows, true, 1e-6);
  }
}

/// Packed columns in f32: whole depths and parts, which end within a step of a tile; one tile of columns for a task and two; rows in
/// f32 and in bf16; few rows by vectors in the same kernel.
TEST(Tiles, OfPackedNumbers) {
  struct Case {
    int64_t depth, columns, tile;
    const char *numbers;
    Storage rows = Storage::F32;
  };
  for (const Case &one : {Case{64, 128, 64, "alone 0, amx 2, row_block 1"}, Case{75, 71, 32, "alone 1, amx 1, group 1"},
                          Case{200, 100, 64, "alone 1, amx 2, depth 96, group 2"},
                          Case{256, 128, 32, "alone 0, amx 2, depth 128, group 2, row_block 2"},
                          Case{96, 40, 16, "alone 1, amx 4, group 1", Storage::BF16}}) {
    SCOPED_TRACE(one.numbers);
    GraphMaker g;
    KernelGraph &graph = product(g, Storage::F32, one.depth, one.columns, one.tile, one.rows);
    KernelPlan plan = planOf(graph, one.numbers);
    EXPECT_GT(plan.parts[0]["amx"], 0);
    check(graph, plan, manyRows, true, 2e-6);
    plan.parts[0].numbers["few"] = 24;
    check(graph, plan, {1, 2, 6, 17, 24, 25});
  }
}

/// Both factors in f32, or one of them: six products of pieces, or three.
TEST(MoreTiles, OfStoredNumbersInF32) { // `More`: in the tier `nightly`
  int plansOf = 0;
  for (const StoredForm &form : storedForms())
    for (auto [rows, columns] : {std::pair(Storage::F32, Storage::F32), std::pair(Storage::BF16, Storage::F32),
                                 std::pair(Storage::F32, Storage::BF16)}) {
      if (form.made && rows == Storage::BF16)
        continue; // as the one above
      SCOPED_TRACE(form.what);
      GraphMaker g;
      KernelGraph &graph = storedProduct(g, form, rows, columns);
      for (const char *numbers : {"amx 2", "amx 1, depth 32, shallow 0, group 1"}) {
        if (plansOf++ % 2) // in turns
          continue;
        KernelPlan plan = planOf(graph, numbers, "dense");
        EXPECT_GT(plan.parts[0]["amx"], 0);
        check(graph, plan, {1, 101}, false, 2e-6);
      }
    }
}

/// The whole depth at a time and in parts; one tile of rows and several; whatever the plan.
static void checkStoredProduct(const KernelGraph &graph, const StoredForm &form, const KernelPlan &plan) {
  SCOPED_TRACE(form.what);
  check(graph, plan, {1, 16, 33, 101}, false,
        form.made ? 1e-2 : 1e-5); // what the kernel rounds may fall to either side
}

TEST(Tiles, OfNumbersAsTheyAreStored) {
  std::mt19937 random(5);
  int formsOf = 0;
  for (const StoredForm &form : storedForms()) {
    GraphMaker g;
    KernelGraph &graph = storedProduct(g, form);
    KernelPlan fixed = planOf(graph, "amx 2", "dense");
    EXPECT_EQ(fixed.parts[0]["amx"], 2);
    checkStoredProduct(graph, form, fixed);
    checkStoredProduct(
        graph, form,
        formsOf++ % 2 // in turns
            ? drawnPlan(graph, withTiles(), ScheduleTable::standard(), [&](size_t n) { return random() % n; })
            : halideProducer().choose(graph, withTiles(), ScheduleTable::standard()));
  }
}

TEST(MoreTiles, OfNumbersAsTheyAreStored) { // `More`: in the tier `nightly`
  for (const StoredForm &form : storedForms()) {
    GraphMaker g;
    KernelGraph &graph = storedProduct(g, form);
    checkStoredProduct(graph, form, planOf(graph, "amx 1, depth 32, shallow 0, group 1", "dense"));
  }
}

/// Experts of no rows, of one, of some tiles' rows; by tiles alone, and few rows by vectors in the same kernel.
TEST(RoutedTiles, OfRows) {
  int formsOf = 0;
  for (const RoutedForm &form : routedForms())
    for (Storage rows : {Storage::BF16, Storage::F32}) {
      SCOPED_TRACE(std::string(form.what) + ", " + quern::support::storageName(rows));
      GraphMaker g;
      KernelGraph &graph = routed(g, form, Storage::BF16, rows);
      const bool both = rows == Storage::BF16 || formsOf++ % 2; // of f32 in turns
      KernelPlan plan = planOf(graph, both ? "amx 1, blocks 1, few 4" : "amx 2, blocks 2, few 0", "grouped");
      EXPECT_EQ(plan.parts[0]["amx"], both ? 1 : 2);
      check(graph, plan, {1, 4, 10, 11, 16, 101, 512}, false);
      if (rows == Storage::BF16)
        check(graph, planOf(graph, "amx 2, blocks 2, few 0", "grouped"), {1, 2, 16, 101}, false);
    }
}

/// Groups of a scale, a last one that is short; super-blocks; codes of fewer bits; groups of two tiles.
TEST(RoutedTiles, OfCodes) {
  const std::vector<RoutedForm> forms = routedForms();
  for (auto [storage, form, amx] :
       {std::tuple(Storage::Int8, 0, 1), std::tuple(Storage::Int8, 1, 2), std::tuple(Storage::Int4, 2, 1),
        std::tuple(Storage::Q4K, 3, 1), std::tuple(Storage::Int8, 8, 1), std::tuple(Storage::Q4K, 8, 1),
        std::tuple(Storage::Int8G128, 1, 1), std::tuple(Storage::Int8G128, 8, 2)}) {
    SCOPED_TRACE(std::string(quern::support::storageName(storage)) + ", " + forms[form].what);
    GraphMaker g;
    KernelGraph &graph = routed(g, forms[form], storage, Storage::F32);
    KernelPlan plan = planOf(graph, "blocks 2, few 0, amx " + std::to_string(amx), "grouped");
    EXPECT_EQ(plan.parts[0]["amx"], amx);
    check(graph, plan, {1, 2, 16, 101}, false);
    check(graph, planOf(graph, "few 4, amx " + std::to_string(amx), "grouped"), {1, 4, 16, 512}, false);
  }
}

/// A known number of rows has one of the two alone; whatever the plan.
TEST(MoreTiles, OfRoutedRowsByAnyPlan) {
  std::mt19937 random(7);
  for (int64_t rows : {0, 4, 300}) {
    Dim m = rows ? dim("M", rows) : dim("M");
    const RoutedForm form = {"packed", {m, dim("I", 96)}, {dim("E", 5), dim("O", 71), dim("I", 96)}, true};
    for (Storage storage : {Storage::BF16, Storage::Int8}) {
      SCOPED_TRACE(std::to_string(rows) + ", " + quern::support::storageName(storage));
      GraphMaker g;
      KernelGraph &graph = routed(g, form, storage, Storage::F32);
      std::vector<KernelPlan> plans = {halideProducer().choose(graph, withTiles(), ScheduleTable::standard()),
                                       planOf(graph, "amx 0", "grouped")};
      EXPECT_EQ(plans[1].parts[0]["amx"], 0);
      for (int draw = 0; draw < 3; ++draw)
        plans.push_back(
            drawnPlan(graph, withTiles(), ScheduleTable::standard(), [&](size_t n) { return random() % n; }));
      for (const KernelPlan &plan : plans)
        check(graph, plan, rows ? std::vector<int64_t>{rows} : std::vector<int64_t>{1, 4, 16, 512}, false);
    }
  }
}

/// Gradients of the weights that rows are routed to: experts of no rows, rows of the gradient that end within a tile, factors
/// of a pair or of its row, with heads.
TEST(RoutedTiles, OfGradients) {
  Dim m = dim("M"), c = dim("C", 2), o = dim("O", 71), i = dim("I", 40), h = dim("H", 3);
  struct Factors {
    std::vector<Dim> left, right;
  };
  for (const Factors &form :
       {Factors{{m, c, o}, {m, i}}, Factors{{m, i}, {m, c, o}}, Factors{{m, c, h, o}, {m, h, i}}}) {
    GraphMaker g;
    int left = g.argument(Storage::BF16, form.left), right = g.argument(Storage::BF16, form.right),
        chosen = g.argument(Storage::I32, {m, c});
    g.yield(g.scatterAdd(g.elementwise(Op::Mul, {real(g, left), real(g, right)}), chosen, {"M", "C"}, dim("E", 9)));
    KernelGraph &graph = g.finish("by expert");
    KernelPlan plan = planOf(graph, "amx 2, row_block 1, group 1", "experts");
    EXPECT_EQ(plan.parts[0]["amx"], 2);
    check(graph, plan, {1, 2, 40, 101}, false);
    check(graph, planOf(graph, "amx 1, row_block 2, group 2", "experts"), {33}, false);
  }
}

/// Offsets of 64 bits.
TEST(Tiles, OfLargeTensors) {
  for (const StoredForm &form : {StoredForm{"x w'", {dim("M"), dim("I", 64)}, {dim("P", 20001), dim("I", 64)}, {"I"}},
                                 StoredForm{"dw", {dim("M"), dim("P", 20001)}, {dim("M"), dim("I", 64)}, {"M"}}}) {
    SCOPED_TRACE(form.what);
    GraphMaker g;
    KernelGraph &graph = storedProduct(g, form);
    check(graph, planOf(graph, "amx 2", "dense"), {17}, false);
  }
  for (Storage storage : {Storage::F32, Storage::BF16, Storage::Int8}) {
    GraphMaker g;
    KernelGraph &graph = product(g, storage, 64, 20000, 64);
    check(graph, planOf(graph, "alone 0, amx 1"), {17});
  }
}

/// Groups of a scale, a last one that is short; super-blocks, with minimums and without; groups of two tiles, alone and several.
TEST(Tiles, OfCodes) {
  for (auto [storage, depth, columns, tile, amx] :
       {std::tuple(Storage::Int8, 96, 128, 64, 1), std::tuple(Storage::Int8, 75, 71, 32, 2),
        std::tuple(Storage::Int4, 160, 100, 64, 1), std::tuple(Storage::Q4K, 512, 100, 64, 1),
        std::tuple(Storage::Q5K, 331, 40, 16, 1), std::tuple(Storage::Q6K, 331, 71, 64, 1),
        std::tuple(Storage::Q8K, 331, 71, 64, 1), std::tuple(Storage::Int8G128, 331, 71, 32, 2),
        std::tuple(Storage::Int8G128, 512, 100, 64, 1)}) {
    GraphMaker g;
    KernelGraph &graph = product(g, storage, depth, columns, tile);
    SCOPED_TRACE(quern::support::storageName(storage));
    const std::string parts = depth % 256 ? "" : ", depth 256";
    check(graph, planOf(graph, "alone 0, amx " + std::to_string(amx) + parts), manyRows);
  }
}

/// Rows in f32 (`exact`), or stored in bf16, with columns in codes: three products of each group, or one; of a group's part where
/// it is longer than a tile; the whole depth at a time and in parts.
struct CodesAndRows {
  Storage storage;
  int64_t depth, columns, tile;
  const char *numbers;
  bool exact;
};
static void checkRealRows(std::initializer_list<CodesAndRows> cases) {
  for (auto [storage, depth, columns, tile, numbers, exact] : cases) {
    SCOPED_TRACE(quern::support::storageName(storage));
    GraphMaker g;
    KernelGraph &graph = product(g, storage, depth, columns, tile, exact ? Storage::F32 : Storage::BF16);
    KernelPlan plan = planOf(graph, std::string("alone 1, ") + numbers);
    EXPECT_GT(plan.parts[0]["amx"], 0);
    check(graph, plan, manyRows, true, quern::support::superBlocksOf(storage) ? 1e-5 : 2e-6);
  }
}

TEST(Tiles, OfCodesAndRealRows) {
  checkRealRows({{Storage::Int8, 75, 71, 32, "amx 2", true},
                 {Storage::Int8G128, 160, 100, 64, "amx 1", true},
                 {Storage::Q4K, 256, 71, 32, "amx 2, depth 128", false},
                 {Storage::Q6K, 331, 71, 64, "amx 1", true}});
}

TEST(MoreTiles, OfCodesAndRealRows) { // `More`: in the tier `nightly`
  checkRealRows({{Storage::Int8, 96, 128, 64, "amx 1", true},
                 {Storage::Int8, 512, 100, 64, "amx 1, depth 128, row_block 2", true},
                 {Storage::Int8, 160, 100, 64, "amx 1", false},
                 {Storage::Q4Z, 300, 71, 32, "amx 1", true},
                 {Storage::F8E4M3, 300, 71, 32, "amx 1", true},
                 {Storage::Int4, 160, 100, 64, "amx 1", true},
                 {Storage::Q4K, 512, 100, 64, "amx 1, depth 256", true},
                 {Storage::Q5K, 331, 40, 16, "amx 1", true},
                 {Storage::Q8K, 331, 71, 64, "amx 1", false},
                 {Storage::Q41, 96, 71, 32, "amx 2", true},
                 {Storage::F8E5M2, 256, 71, 32, "amx 2, depth 128", false}});
}

/// Rows as the kernel makes them, and matrices beside each other; all that a batch has.
TEST(Tiles, OfRowsThatTheKernelMakes) {
  for (Storage storage : {Storage::F32, Storage::BF16, Storage::Int8}) {
    SCOPED_TRACE(quern::support::storageName(storage));
    Dim b = dim("B"), m = dim("M"), h = dim("H", 3), i = dim("I", 96);
    auto rowsOf = [&](GraphMaker &g, int from) {
      int x = g.elementwise(Op::Tanh, {from});
      return storage == Storage::F32
                 ? x
                 : real(g, bitsOfCode(storage) ? g.quantize(x, "I") : g.elementwise(Op::Narrow, {x}));
    };
    GraphMaker heads;
    int x = heads.argument(Storage::F32, {m, h, i}), w = heads.weight({h, dim("O", 40), i}, 16, storage);
    heads.yield(heads.contract(rowsOf(heads, x), real(heads, w), {"I"}));
    checkKernel(heads.finish("heads"), {{{"M", 1}}, {{"M", 16}}, {{"M", 35}}}, 1e-2, withTiles());
    GraphMaker gated;
    x = gated.argument(Storage::F32, {b, m, i}), w = gated.weight({dim("U", 2), dim("O", 71), i}, 32, storage);
    int both = gated.contract(rowsOf(gated, x), real(gated, w), {"I"});
    int gate = gated.squeeze(gated.cut(both, "U", 0, dim("G", 1)), "G"),
        up = gated.squeeze(gated.cut(both, "U", 1, dim("V", 1)), "V");
    gated.yield(gated.elementwise(Op::Mul, {gated.elementwise(Op::Sigmoid, {gate}), up}));
    checkKernel(gated.finish("gated"), {{{"B", 3}, {"M", 5}}, {{"B", 2}, {"M", 45}}}, 1e-2, withTiles());
  }
}

/// Six plans of each storage; some of them use the tile registers.
TEST(MoreTiles, AnyPointOfTheSpace) { // `More`: in the tier `nightly`
  std::mt19937 random(11);
  for (Storage storage : {Storage::F32, Storage::BF16, Storage::Int8, Storage::Q4K}) {
    GraphMaker g;
    KernelGraph &graph = product(g, storage, 256, 100, 32);
    int used = 0;
    for (int i = 0; i < 6; ++i) {
      KernelPlan plan =
          drawnPlan(graph, withTiles(), ScheduleTable::standard(), [&](size_t n) { return random() % n; });
      used += plan.parts[0]["amx"] > 0;
      check(graph, plan, {3, 50});
    }
    EXPECT_GT(used, 0) << quern::support::storageName(storage);
  }
}

/// What a kernel asks of a processor, by its assembly: on machines that can run it and on others.
TEST(Tiles, AreInstructionsOfTheTargetAlone) {
  const CpuTarget without = cpuTarget("sapphirerapids-noamx");
  for (auto [storage, product16] : {std::pair(Storage::BF16, "tdpbf16ps"), std::pair(Storage::Int8, "tdpbssd"),
                                    std::pair(Storage::Int4, "tdpbssd"), std::pair(Storage::Q4K, "tdpbssd")}) {
    SCOPED_TRACE(quern::support::storageName(storage));
    GraphMaker g;
    KernelGraph &graph = product(g, storage, 256, 128, 64);
    EXPECT_EQ(foreignInstructions(graph, without, without), "");
    std::vector<std::string> found = foreignToEach(graph, withTiles(), {withTiles(), without});
    EXPECT_EQ(found[0], "");
    for (const char *instruction : {product16, "ldtilecfg", "tileloadd", "tilestored", "tilerelease"})
      EXPECT_THAT(found[1], testing::HasSubstr(instruction));
  }
  GraphMaker codes;
  EXPECT_THAT(foreignInstructions(product(codes, Storage::Int8, 256, 128, 64, Storage::F32), withTiles(), without),
              testing::HasSubstr("tdpbf16ps"));
  for (const StoredForm &form : storedForms()) {
    SCOPED_TRACE(form.what);
    GraphMaker g;
    KernelGraph &graph = storedProduct(g, form);
    std::vector<std::string> found = foreignToEach(graph, withTiles(), {withTiles(), without});
    EXPECT_EQ(found[0], "");
    EXPECT_THAT(found[1], testing::HasSubstr("tdpbf16ps"));
  }
}

/// Other products than those have no use for the number, and a schedule for all kernels is fitted to them; a plan is not.
TEST(Tiles, AreRefusedElsewhere) {
  GraphMaker g;
  KernelGraph &graph = product(g, Storage::Int8, 64, 64, 64);
  KernelPlan plan = planOf(graph, "amx 1");
  EXPECT_EQ(plan.parts[0]["amx"], 1);
  CpuTarget without = cpuTarget("sapphirerapids-noamx");
  EXPECT_EQ(halideProducer().choose(graph, without, withNumbers("amx 1")).parts[0]["amx"], 0);
  EXPECT_EQ(halideProducer().refuses(plan, graph, without).value_or(""),
            "contract: amx 1, but only packed weights, and what is not packed but lies along its depth or its rows are "
            "multiplied so, on processors that have it");
  plan.parts[0].numbers.erase("amx"); // of a version that did not know it
  EXPECT_THAT(halideProducer().refuses(plan, graph, withTiles()).value_or(""),
              testing::HasSubstr("contract: 'amx' is missing"));
}
