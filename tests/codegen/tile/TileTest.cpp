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
    n.cut = {one({16, 32, 64, 128}), one({16, 32, 64, 128}), one({16, 32, 64}), one({2, 3, 4}), one({1, 2, 4}), one({1, 2, 4})};
    n.split = one({1, 2, 4}), n.few = one({0, 1, 4, 8});
    PlanPart part{"tile", {{"rows", n.cut.rows}, {"columns", n.cut.columns}, {"depth", n.cut.depth}, {"stages", n.cut.stages},
                           {"warp_rows", n.cut.warpRows}, {"warp_columns", n.cut.warpColumns}, {"few", n.few}, {"split", n.split}}};
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
            compare(tile::runPtx(program, *module, graph, now, arguments, v, seed), " as PTX, seed " + std::to_string(seed));
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
