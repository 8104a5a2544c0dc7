// Kernels that read weights in codes of few bits: rows by themselves and in tiles, parts beside each other, experts.
#include "tests/codegen/support/Check.h"

using namespace quern::codegen;

namespace {

const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 2}}, {{"M", 7}}, {{"M", 101}}};

/// Depths of whole groups, and with a shorter one at the end.
class Codes : public testing::TestWithParam<std::tuple<Storage, int64_t>> {
protected:
  Storage storage() const { return std::get<0>(GetParam()); }
  Dim depth() const { return dim("I", std::get<1>(GetParam())); }
  static int real(GraphMaker &g, int codes) { return g.elementwise(Op::Dequantize, {codes}); }
};

class RowsInCodes : public Codes {};

} // namespace

TEST_P(Codes, EveryTarget) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    CpuTarget target = cpuTarget(name);
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), depth()});
    int w = g.weight({dim("O", 100), depth()}, target.vector == 16 ? 64 : 2 * target.vector, storage());
    int bias = g.argument(Storage::F32, {dim("O", 100)});
    g.yield(g.elementwise(Op::Tanh, {g.elementwise(Op::Add, {g.contract(x, real(g, w), {"I"}), bias})}));
    SCOPED_TRACE(name);
    checkKernel(g.finish("product"), rows, 1e-5, target);
  }
}

TEST_P(Codes, GateAndUp) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), depth()});
  int both = g.contract(x, real(g, g.weight({dim("U", 2), dim("O", 71), depth()}, 16, storage())), {"I"});
  int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Sigmoid, {gate}), up}));
  checkKernel(g.finish("gated"), rows, 1e-5);
}

TEST_P(Codes, MatricesForHeads) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), depth()});
  g.yield(g.contract(x, real(g, g.weight({dim("H", 3), dim("O", 40), depth()}, 16, storage())), {"I"}));
  checkKernel(g.finish("heads"), rows, 1e-5);
}

TEST_P(Codes, WithoutRows) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {depth()});
  g.yield(g.contract(x, real(g, g.weight({dim("O", 71), depth()}, 16, storage())), {"I"}));
  checkKernel(g.finish("vector"), {{}}, 1e-5);
}

TEST_P(Codes, Experts) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), depth()});
  int w = g.weight({dim("E", 5), dim("O", 71), depth()}, 16, storage());
  int picked = g.gather(w, g.argument(Storage::I32, {dim("M"), dim("C", 2)}), "E");
  g.yield(g.contract(x, real(g, picked), {"I"}));
  checkKernel(g.finish("experts"), rows, 1e-5);
}

/// Rows in codes, too: products of integers where the target has them, and the same numbers in f32 elsewhere.
TEST_P(RowsInCodes, OfColumns) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "icelake-server", "znver4", "sapphirerapids"}) {
    CpuTarget target = cpuTarget(name);
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), depth()});
    int w = g.weight({dim("O", 100), depth()}, target.vector == 16 ? 64 : 2 * target.vector, storage());
    g.yield(g.elementwise(Op::Tanh, {g.contract(real(g, g.quantize(x, "I")), real(g, w), {"I"})}));
    SCOPED_TRACE(name);
    checkKernel(g.finish("integers"), rows, 1e-5, target);
  }
}

TEST_P(RowsInCodes, ForHeadsAndParts) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), depth()});
  g.yield(g.contract(real(g, g.quantize(x, "I")),
                     real(g, g.weight({dim("H", 3), dim("O", 40), depth()}, 16, storage())), {"I"}));
  checkKernel(g.finish("heads"), rows, 1e-5);
  GraphMaker both;
  int y = both.argument(Storage::F32, {dim("M"), depth()});
  int sums = both.contract(real(both, both.quantize(y, "I")),
                           real(both, both.weight({dim("U", 2), dim("O", 71), depth()}, 16, storage())), {"I"});
  int gate = both.squeeze(both.cut(sums, "U", 0, dim("G", 1)), "G"),
      up = both.squeeze(both.cut(sums, "U", 1, dim("V", 1)), "V");
  both.yield(both.elementwise(Op::Mul, {both.elementwise(Op::Sigmoid, {gate}), up}));
  checkKernel(both.finish("gated"), rows, 1e-5);
}

/// A kernel that no family makes of packed columns reads them number by number.
TEST_P(Codes, SummedOverRowsToo) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), depth()});
  int w = g.weight({dim("O", 20), depth()}, 16, storage());
  g.yield(g.contract(x, real(g, w), {"I", "O"}));
  checkKernel(g.finish("sums"), rows, 1e-5);
}

const auto groups = testing::Combine(testing::Values(Storage::Int8, Storage::Int4), testing::Values(96, 75));
INSTANTIATE_TEST_SUITE_P(Kinds, Codes, groups);
INSTANTIATE_TEST_SUITE_P(Kinds, RowsInCodes, groups);
const auto superBlocks =
    testing::Values(std::tuple(Storage::Q4K, 331), std::tuple(Storage::Q4K, 512), std::tuple(Storage::Q5K, 512),
                    std::tuple(Storage::Q6K, 331), std::tuple(Storage::Q8K, 331), std::tuple(Storage::Q8K, 256),
                    std::tuple(Storage::Q41, 331), std::tuple(Storage::Q51, 96), std::tuple(Storage::Q4Z, 331),
                    std::tuple(Storage::Q4Z, 512));
INSTANTIATE_TEST_SUITE_P(SuperBlocks, Codes, superBlocks);
INSTANTIATE_TEST_SUITE_P(SuperBlocks, RowsInCodes, superBlocks);
