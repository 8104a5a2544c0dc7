// Weights in f16: widened exactly, where they are read, by every target and family that reads them.
#include "support/numbers/SmallFloats.h"
#include "tests/codegen/support/Check.h"

using namespace quern::codegen;

namespace {

struct Maker : GraphMaker {
  int widen(int x) { return elementwise(Op::Widen, {x}); }
};

const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 7}}, {{"M", 101}}};

} // namespace

/// Subnormal numbers, infinities and NaN are among them.
TEST(F16, EveryNumberOnEveryTarget) {
  std::vector<double> all;
  for (uint32_t bits = 0; bits < 65536; ++bits)
    all.push_back(quern::support::halfToFloat(uint16_t(bits)));
  const std::vector<DenseTensor> given = {{{int64_t(all.size())}, all}};
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    Maker g;
    g.yield(g.widen(g.argument(Storage::F16, {dim("N", all.size())})));
    SCOPED_TRACE(name);
    checkKernel(g.finish("widen"), {{}}, 0, cpuTarget(name), &given);
  }
}

TEST(F16, PackedWeights) {
  for (int64_t columns : {100, 71})
    for (const char *name : {"x86-64-v2", "x86-64-v3", "native"}) {
      Maker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("I", 300)}),
          w = g.weight({dim("O", columns), dim("I", 300)}, 16, Storage::F16);
      g.yield(g.contract(x, g.widen(w), {"I"}));
      SCOPED_TRACE(name);
      checkKernel(g.finish("product"), rows, 1e-5, cpuTarget(name));
    }
}

TEST(F16, WeightsAsTheyLie) {
  Maker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 300)}),
      w = g.argument(Storage::F16, {dim("I", 300), dim("O", 71)});
  g.yield(g.contract(x, g.widen(w), {"I"}));
  checkKernel(g.finish("dense"), rows, 1e-5);
}

TEST(F16, RoutedByRows) {
  Maker g;
  int table = g.argument(Storage::F16, {dim("V", 9), dim("K", 20)}), positions = g.argument(Storage::I32, {dim("M")});
  g.yield(g.widen(g.gather(table, positions, "V")));
  checkKernel(g.finish("lookup"), rows, 0);
  Maker e;
  int x = e.argument(Storage::F32, {dim("M"), dim("I", 64)}),
      w = e.weight({dim("E", 4), dim("O", 40), dim("I", 64)}, 16, Storage::F16);
  int picked = e.gather(w, e.argument(Storage::I32, {dim("M"), dim("C", 2)}), "E");
  e.yield(e.contract(x, e.widen(picked), {"I"}));
  checkKernel(e.finish("experts"), rows, 1e-5);
}
