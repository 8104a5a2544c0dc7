// Kernels that read weights in codes of few bits: rows by themselves and in tiles, parts beside each other, experts.
#include "support/numbers/SmallFloats.h"
#include "tests/codegen/support/Check.h"

#include <cmath>

using namespace quern::codegen;

namespace {

const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 2}}, {{"M", 7}}, {{"M", 101}}};

/// Depths of whole groups, and with a shorter one at the end.
class Codes : public testing::TestWithParam<std::tuple<Storage, int64_t>> {
protected:
  Storage storage() const { return std::get<0>(GetParam()); }
  Dim depth() const { return dim("I", std::get<1>(GetParam())); }
  static int real(GraphMaker &g, int codes) { return g.elementwise(Op::Dequantize, {codes}); }
  bool paired = false; ///< codes of rows
  int quantized(GraphMaker &g, int x) const {
    return g.quantize(x, "I", quern::support::rowsBeside(storage()), paired);
  }

  void checkColumns(const CpuTarget &target) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), depth()});
    int w = g.weight({dim("O", 100), depth()}, target.vector == 16 ? 64 : 2 * target.vector, storage());
    g.yield(g.elementwise(Op::Tanh, {g.contract(real(g, quantized(g, x)), real(g, w), {"I"})}));
    SCOPED_TRACE(target.name);
    checkKernel(g.finish("integers"), rows, 1e-5, target);
  }
  static int gated(GraphMaker &g, int both) {
    int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
    return g.elementwise(Op::Mul, {g.elementwise(Op::Sigmoid, {gate}), up});
  }
  /// Columns of several tasks, whose tiles are neighbours of those of the next task: for a row by itself streams.
  void checkStreams(const CpuTarget &target, bool inCodes) {
    GraphMaker g;
    const int64_t tile = target.vector == 16 ? 64 : 2 * target.vector;
    int x = g.argument(Storage::F32, {dim("M"), depth()}),
        residual = g.argument(Storage::F32, {dim("M"), dim("O", 256)});
    int w = real(g, g.weight({dim("U", 2), dim("O", 256), depth()}, tile, storage()));
    int both = g.contract(inCodes ? real(g, quantized(g, x)) : x, w, {"I"});
    g.yield(g.elementwise(Op::Add, {gated(g, both), residual}));
    SCOPED_TRACE(target.name);
    checkKernel(g.finish("streams"), {{{"M", 1}}, {{"M", 2}}}, 1e-5, target);
  }
  void checkGradient(const char *name, int64_t outputs) {
    CpuTarget target = cpuTarget(name);
    GraphMaker g;
    int slope = g.argument(Storage::F32, {dim("M"), dim("O", outputs)});
    int w = g.weight({dim("O", outputs), depth()}, 4 * target.vector, storage());
    g.yield(g.contract(slope, real(g, w), {"O"}));
    SCOPED_TRACE(name);
    checkKernel(g.finish("gradient"), rows, outputs > 1000 ? 1e-4 : 1e-5, target); // sums of so many nearly cancel
  }
  /// One pair of an expert, a few, and many.
  void checkExperts(const CpuTarget &target, bool inCodes, const std::vector<Dim> &heads = {}) {
    GraphMaker g;
    std::vector<Dim> own = {dim("E", 5)};
    own.insert(own.end(), heads.begin(), heads.end());
    own.insert(own.end(), {dim("O", 71), depth()});
    int x = g.argument(Storage::F32, {dim("M"), depth()});
    int w = g.weight(own, target.vector == 16 ? 64 : 2 * target.vector, storage());
    int picked = g.gather(w, g.argument(Storage::I32, {dim("M"), dim("C", 2)}), "E");
    g.yield(g.elementwise(Op::Tanh, {g.contract(inCodes ? real(g, quantized(g, x)) : x, real(g, picked), {"I"})}));
    SCOPED_TRACE(target.name);
    checkKernel(g.finish("experts"), rows, 1e-5, target);
  }
  void checkProduct(const CpuTarget &target) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), depth()});
    int w = g.weight({dim("O", 100), depth()}, target.vector == 16 ? 64 : 2 * target.vector, storage());
    int bias = g.argument(Storage::F32, {dim("O", 100)});
    g.yield(g.elementwise(Op::Tanh, {g.elementwise(Op::Add, {g.contract(x, real(g, w), {"I"}), bias})}));
    SCOPED_TRACE(target.name);
    checkKernel(g.finish("product"), rows, 1e-5, target);
  }
  void checkSums(const char *name, int64_t outputs) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), depth()});
    int w = g.weight({dim("O", outputs), depth()}, 16, storage());
    g.yield(g.contract(x, real(g, w), {"I", "O"}));
    checkKernel(g.finish("sums"), rows, 1e-5, cpuTarget(name));
  }
};

class RowsInCodes : public Codes {};
class RowsOnEveryTarget : public Codes {};
class ExpertsOnEveryTarget : public Codes {};
class MoreCodes : public Codes {}; // `More`: in the tier `nightly`

} // namespace

TEST_P(Codes, EveryTarget) {
  for (const char *name : {"x86-64-v2", "x86-64-v3"})
    checkProduct(cpuTarget(name));
}

TEST_P(MoreCodes, EveryTarget) {
  checkProduct(cpuTarget("x86-64-v4"));
}

TEST_P(Codes, GateAndUp) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), depth()});
  int both = g.contract(x, real(g, g.weight({dim("U", 2), dim("O", 71), depth()}, 16, storage())), {"I"});
  g.yield(gated(g, both));
  checkKernel(g.finish("gated"), rows, 1e-5);
}

TEST_P(Codes, Streams) {
  checkStreams(cpuTarget("x86-64-v3"), /*inCodes=*/false);
}

TEST_P(MoreCodes, Streams) {
  for (const char *name : {"x86-64-v2", "x86-64-v4"})
    checkStreams(cpuTarget(name), /*inCodes=*/false);
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
  checkExperts(cpuTarget("native"), /*inCodes=*/false);
}

/// Rows in codes, too: products of integers where the target has them, and the same numbers in f32 elsewhere.
TEST_P(RowsInCodes, OfColumns) {
  for (const char *name : {"x86-64-v3", "icelake-server"})
    checkColumns(cpuTarget(name));
}

/// Loops for AVX-VNNI, whose instructions AVX-512's processors have in another form.
TEST_P(RowsInCodes, OfColumnsInHalfVectors) {
  CpuTarget half = cpuTarget("cascadelake"), of = cpuTarget("alderlake");
  half.halide = of.halide, half.vector = of.vector, half.registers = of.registers;
  checkColumns(half);
}

TEST_P(RowsOnEveryTarget, OfColumns) {
  for (const char *name : {"x86-64-v2", "alderlake", "x86-64-v4", "cascadelake", "znver4", "sapphirerapids"})
    checkColumns(cpuTarget(name));
}

TEST_P(RowsInCodes, Streams) {
  for (const char *name : {"x86-64-v3", "icelake-server"})
    checkStreams(cpuTarget(name), /*inCodes=*/true);
}

TEST_P(RowsInCodes, ForHeadsAndParts) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), depth()});
  int w = g.weight({dim("H", 3), dim("O", 40), depth()}, 16, storage());
  g.yield(g.contract(real(g, quantized(g, x)), real(g, w), {"I"}));
  checkKernel(g.finish("heads"), rows, 1e-5);
  GraphMaker both;
  int y = both.argument(Storage::F32, {dim("M"), depth()});
  int parts = both.weight({dim("U", 2), dim("O", 71), depth()}, 16, storage());
  both.yield(gated(both, both.contract(real(both, quantized(both, y)), real(both, parts), {"I"})));
  checkKernel(both.finish("gated"), rows, 1e-5);
}

TEST_P(RowsInCodes, Experts) {
  checkExperts(cpuTarget("x86-64-v3"), /*inCodes=*/true, {dim("H", 2)});
  checkExperts(cpuTarget("icelake-server"), /*inCodes=*/true);
}

/// Rows whose products of pairs 16 bits hold, as they are.
TEST_P(RowsInCodes, InPairs) {
  paired = true;
  const CpuTarget target = cpuTarget("x86-64-v3");
  checkColumns(target);
  checkStreams(target, /*inCodes=*/true);
  checkExperts(target, /*inCodes=*/true);
}

TEST_P(RowsOnEveryTarget, InPairs) {
  paired = true;
  for (const char *name : {"x86-64-v2", "x86-64-v4", "cascadelake"})
    checkColumns(cpuTarget(name));
}

/// Halves go away from zero, on either side of it; what is just below one does not.
TEST(GroupsOfRows, RoundHalvesAwayFromZero) {
  const int64_t depth = 64;
  std::vector<double> numbers;
  for (int64_t i = 0; i < depth; ++i) {
    const double size = i % 32 == 31 ? 127
                        : i % 3 == 0 ? double(i) + 0.5
                        : i % 3 == 1 ? double(i) + 0.49999
                                     : double(i);
    numbers.push_back(i % 2 ? -size : size);
  }
  const std::vector<DenseTensor> given = {{{1, depth}, numbers}};
  for (const char *name : {"x86-64-v2", "x86-64-v3", "native"}) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("I", depth)});
    g.yield(g.elementwise(Op::Dequantize, {g.quantize(x, "I", Storage::Int8)}));
    SCOPED_TRACE(name);
    checkKernel(g.finish("halves"), {{{"M", 1}}}, 0, cpuTarget(name), &given);
  }
}

/// The largest products that there are: bytes of 255 and 1 by pairs of codes that come to 128, of each sign.
TEST(RowsInPairs, NeverSaturate) {
  const int64_t depth = 64, count = 32;
  std::vector<double> numbers(size_t(2 * depth)), weights(size_t(count * depth));
  for (int64_t i = 0; i < depth; ++i) {
    numbers[size_t(i)] = 63.5;
    numbers[size_t(depth + i)] = i % 2 ? 126 : -1;
    for (int64_t column = 0; column < count; ++column)
      weights[size_t(column * depth + i)] = column % 3 == 0 ? 127 : column % 3 == 1 ? -127 : i % 2 ? -127 : 127;
  }
  const std::vector<DenseTensor> given = {{{2, depth}, numbers}, {{count, depth}, weights}};
  for (Storage storage : {Storage::Int8, Storage::Int8G128})
    for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("I", depth)}),
          w = g.weight({dim("O", count), dim("I", depth)}, 16, storage);
      g.yield(g.contract(g.elementwise(Op::Dequantize, {g.quantize(x, "I", storage, /*paired=*/true)}),
                         g.elementwise(Op::Dequantize, {w}), {"I"}));
      SCOPED_TRACE(name);
      checkKernel(g.finish("largest"), {{{"M", 2}}}, 0, cpuTarget(name), &given);
    }
}

TEST_P(ExpertsOnEveryTarget, OfRowsInCodes) {
  for (const char *name : {"x86-64-v2", "alderlake", "x86-64-v4", "cascadelake", "znver4", "sapphirerapids"})
    checkExperts(cpuTarget(name), /*inCodes=*/true);
}

/// Groups of rows and of columns that differ in length: the shorter ones are what a sum of integers has.
TEST(GroupsOfRows, OfAnotherLength) {
  for (auto [ofRows, ofColumns] : {std::pair(Storage::Int8, Storage::Int8G128),
                                   std::pair(Storage::Int8G128, Storage::Int8), std::pair(Storage::Int8, Storage::Q4K),
                                   std::pair(Storage::Int8, Storage::Q6K), std::pair(Storage::Int8G128, Storage::Q41)})
    for (const char *name : {"x86-64-v3", "cascadelake"}) {
      CpuTarget target = cpuTarget(name);
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("I", 331)});
      int w = g.weight({dim("O", 70), dim("I", 331)}, 2 * target.vector, ofColumns);
      g.yield(g.contract(g.elementwise(Op::Dequantize, {g.quantize(x, "I", ofRows)}),
                         g.elementwise(Op::Dequantize, {w}), {"I"}));
      SCOPED_TRACE(std::string(name) + " " + storageName(ofRows) + " x " + storageName(ofColumns));
      checkKernel(g.finish("lengths"), rows, 1e-5, target);
    }
}

/// The gradient of what the columns multiply sums over the rows of the packed weight: few and many, in parts and alone.
TEST_P(Codes, GradientOfRows) {
  checkGradient("x86-64-v2", 71);
  checkGradient("x86-64-v4", 1100);
  GraphMaker g;
  int slope = g.argument(Storage::F32, {dim("M"), dim("H", 3), dim("O", 40)});
  g.yield(g.contract(slope, real(g, g.weight({dim("H", 3), dim("O", 40), depth()}, 16, storage())), {"O"}));
  checkKernel(g.finish("heads"), rows, 1e-5);
}

TEST_P(MoreCodes, GradientOfRows) {
  checkGradient("x86-64-v2", 1100);
  checkGradient("x86-64-v4", 71);
}

/// A kernel that no family makes of packed columns reads them number by number.
TEST_P(Codes, SummedOverRowsToo) {
  for (const char *name : {"native", "x86-64-v3"})
    checkSums(name, 20);
}

/// int4 has eight codes in a step, which such vectors fill once.
TEST_P(Codes, SummedInVectorsOfEight) {
  checkSums("x86-64-v3", 4);
}

/// Every code that is a number, to the last bit: by rows that take it alone.
class Floats : public testing::TestWithParam<Storage> {};
TEST_P(Floats, EveryCodeOnEveryTarget) {
  const quern::support::FloatCodes &form = *quern::support::floatCodesOf(GetParam());
  std::vector<double> numbers;
  for (int code = 0; code < 256; ++code)
    if (float number = numberOfCode(form, uint8_t(code)); std::isfinite(number))
      for (int i = 0; i < 2; ++i) // the second is the largest, which says the scale
        numbers.push_back(i ? form.most * 0.25 : number * 0.25);
  const int64_t count = int64_t(numbers.size()) / 2;
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    CpuTarget target = cpuTarget(name);
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 2)});
    int w = g.weight({dim("O", count), dim("I", 2)}, 16, GetParam());
    g.yield(g.contract(x, g.elementwise(Op::Dequantize, {w}), {"I"}));
    SCOPED_TRACE(name);
    for (int64_t length : {1, 16}) {
      std::vector<double> ones(size_t(2 * length));
      for (int64_t i = 0; i < length; ++i)
        ones[size_t(2 * i)] = 1;
      const std::vector<DenseTensor> given = {{{length, 2}, ones}, {{count, 2}, numbers}};
      checkKernel(g.finish("numbers"), {{{"M", length}}}, 0, target, &given);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, Floats, testing::Values(Storage::F8E4M3, Storage::F8E5M2));

const auto groups = testing::Values(std::tuple(Storage::Int8, 75), std::tuple(Storage::Int4, 96));
const auto moreGroups = testing::Values(std::tuple(Storage::Int8, 96), std::tuple(Storage::Int4, 75));
INSTANTIATE_TEST_SUITE_P(Kinds, Codes, groups);
INSTANTIATE_TEST_SUITE_P(Kinds, RowsInCodes, groups);
INSTANTIATE_TEST_SUITE_P(LongGroups, RowsInCodes, testing::Values(std::tuple(Storage::Int8G128, 331)));
const auto longGroups = testing::Values(std::tuple(Storage::Int8G128, 256), std::tuple(Storage::Int8G128, 75));
INSTANTIATE_TEST_SUITE_P(MoreKinds, Codes, moreGroups);
INSTANTIATE_TEST_SUITE_P(MoreLongGroups, Codes, longGroups);
INSTANTIATE_TEST_SUITE_P(MoreKinds, RowsInCodes, moreGroups);
INSTANTIATE_TEST_SUITE_P(MoreLongGroups, RowsInCodes, longGroups);
INSTANTIATE_TEST_SUITE_P(MoreLongGroups, MoreCodes, longGroups);
INSTANTIATE_TEST_SUITE_P(MoreKinds, MoreCodes, groups);
INSTANTIATE_TEST_SUITE_P(MoreGroups, MoreCodes, moreGroups);
const auto superBlocks = testing::Values(std::tuple(Storage::Q4K, 331), std::tuple(Storage::Q6K, 331));
const auto moreSuperBlocks =
    testing::Values(std::tuple(Storage::Q4K, 512), std::tuple(Storage::Q5K, 512), std::tuple(Storage::Q5K, 331),
                    std::tuple(Storage::Q8K, 331), std::tuple(Storage::Q8K, 256), std::tuple(Storage::Q41, 331),
                    std::tuple(Storage::Q51, 96), std::tuple(Storage::Q4Z, 331), std::tuple(Storage::Q4Z, 512));
INSTANTIATE_TEST_SUITE_P(SuperBlocks, Codes, testing::Values(std::tuple(Storage::Q4K, 331)));
INSTANTIATE_TEST_SUITE_P(MoreOfSuperBlocks, Codes, testing::Values(std::tuple(Storage::Q6K, 331)));
INSTANTIATE_TEST_SUITE_P(SuperBlocks, RowsInCodes, superBlocks);
INSTANTIATE_TEST_SUITE_P(MoreSuperBlocks, Codes, moreSuperBlocks);
INSTANTIATE_TEST_SUITE_P(MoreSuperBlocks, RowsInCodes, moreSuperBlocks);
INSTANTIATE_TEST_SUITE_P(MoreSuperBlocks, MoreCodes, superBlocks);
INSTANTIATE_TEST_SUITE_P(MoreOfSuperBlocks, MoreCodes, moreSuperBlocks);
const auto floats = testing::Values(std::tuple(Storage::F8E4M3, 331));
const auto moreFloats = testing::Values(std::tuple(Storage::F8E4M3, 256), std::tuple(Storage::F8E5M2, 75));
INSTANTIATE_TEST_SUITE_P(Floats, Codes, floats);
INSTANTIATE_TEST_SUITE_P(MoreFloats, Codes, moreFloats);
INSTANTIATE_TEST_SUITE_P(MoreFloats, MoreCodes, floats);
INSTANTIATE_TEST_SUITE_P(MoreOfFloats, MoreCodes, moreFloats);
INSTANTIATE_TEST_SUITE_P(Each, RowsOnEveryTarget,
                         testing::Values(std::tuple(Storage::Int8, 75), std::tuple(Storage::Q4K, 331),
                                         std::tuple(Storage::Int8G128, 331)));
INSTANTIATE_TEST_SUITE_P(MoreKinds, RowsOnEveryTarget,
                         testing::Values(std::tuple(Storage::Int4, 96), std::tuple(Storage::Q6K, 331),
                                         std::tuple(Storage::Q8K, 256), std::tuple(Storage::Q4Z, 512)));
INSTANTIATE_TEST_SUITE_P(MoreGroups, RowsOnEveryTarget, moreGroups);
INSTANTIATE_TEST_SUITE_P(MoreKinds, ExpertsOnEveryTarget,
                         testing::Values(std::tuple(Storage::Int8, 75), std::tuple(Storage::Int4, 96),
                                         std::tuple(Storage::Q4K, 331), std::tuple(Storage::Q6K, 331),
                                         std::tuple(Storage::Int8G128, 331)));
INSTANTIATE_TEST_SUITE_P(MoreSuperBlocks, RowsOnEveryTarget, moreSuperBlocks);
