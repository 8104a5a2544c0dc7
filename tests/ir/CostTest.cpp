// Arithmetic and traffic of operations, loops and kernels as polynomials.
#include "ir/Chunk.h"
#include "ir/analysis/Gathered.h"
#include "ir/analysis/Least.h"
#include "tests/ir/Support.h"

using namespace quern::ir;
using namespace quern::ir::test;

namespace {

struct Cost : testing::Test {
  Module m{R"(
quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>, %w: !quern.tensor<real[d2 = 8, d1 = 4]> #quern.layout<"packed", ["4", "1"], tile = 8, dims = ["d2", "d1"]>) -> (#quern.layout<"strided", ["8", "1"]>) {
  %0 = quern.contract %a, %w over ["d1"] : (!quern.tensor<real[d0 = s0, d1 = 4]>, !quern.tensor<real[d2 = 8, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d2 = 8]>
  %1 = quern.tanh %0 : (!quern.tensor<real[d0 = s0, d2 = 8]>) -> !quern.tensor<real[d0 = s0, d2 = 8]>
  quern.yield %1 : !quern.tensor<real[d0 = s0, d2 = 8]>
}
func.func @f(%x: !quern.tensor<real[B, T, D = 4]>, %w: !quern.tensor<real[O = 8, D = 4]>, %m: !quern.tensor<bool[T]>, %p: !quern.tensor<int[T]>, %y: !quern.tensor<real[T, D = 4]>, %all: !quern.tensor<real[N = "T + past", D = 4]>) {
  %sum = quern.add %x, %y : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[B, T, D = 4]>
  %not = quern.not %m : (!quern.tensor<bool[T]>) -> !quern.tensor<bool[T]>
  %exp = quern.exp %y : (!quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[T, D = 4]>
  %dot = quern.contract %x, %w over ["D"] : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[O = 8, D = 4]>) -> !quern.tensor<real[B, T, O = 8]>
  %split = quern.split %y "D" into [#quern.dim<H = 2>, #quern.dim<K = 2>] : (!quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[T, H = 2, K = 2]>
  %pick = quern.gather %w["O" = %p] : (!quern.tensor<real[O = 8, D = 4]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T, D = 4]>
  %scatter = quern.scatter_add %y at %p over ["T"] into <O = 8> : (!quern.tensor<real[T, D = 4]>, !quern.tensor<int[T]>) -> !quern.tensor<real[O = 8, D = 4]>
  %k = quern.rename %x ["T"] to [#quern.dim<S = T>] : (!quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[B, S = T, D = 4]>
  %heads = quern.attention %x with %k over "S" of %k {
  ^bb0(%q: !quern.tensor<real[B, T, S = T]>):
    %half = quern.neg %q : (!quern.tensor<real[B, T, S = T]>) -> !quern.tensor<real[B, T, S = T]>
    quern.yield %half : !quern.tensor<real[B, T, S = T]>
  } : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[B, S = T, D = 4]>, !quern.tensor<real[B, S = T, D = 4]>) -> !quern.tensor<real[B, T, D = 4]>
  %back = quern.attention_gradient %k with %x over "T" of %x {
  ^bb0(%q: !quern.tensor<real[B, T, S = T]>):
    %half = quern.neg %q : (!quern.tensor<real[B, T, S = T]>) -> !quern.tensor<real[B, T, S = T]>
    quern.yield %half : !quern.tensor<real[B, T, S = T]>
  } : (!quern.tensor<real[B, S = T, D = 4]>, !quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[B, S = T, D = 4]>
  %loop = quern.repeat 3 carry (%z = %y) : !quern.tensor<real[T, D = 4]> {
    %q = quern.neg %z : (!quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[T, D = 4]>
    quern.yield %q : !quern.tensor<real[T, D = 4]>
  }
  %launch = quern.launch @k ["T + past"](%all, %w) : (!quern.tensor<real[N = "T + past", D = 4]>, !quern.tensor<real[O = 8, D = 4]>) -> !quern.tensor<real[N = "T + past", O = 8]>
  return
})"};
  std::pair<std::string, std::string> of(llvm::StringRef name) {
    std::pair<std::string, std::string> found;
    m.function().walk([&](CostOpInterface op) {
      if (op->getName().getStringRef() == name)
        found = {op.getFlops().str(), op.getBytes().str()};
    });
    return found;
  }
  using Pair = std::pair<std::string, std::string>;
};

TEST_F(Cost, OfEachKind) {
  ASSERT_TRUE(m.module) << m.said;
  EXPECT_EQ(of("quern.add"), Pair("4 * B * T", "32 * B * T + 16 * T"));
  EXPECT_EQ(of("quern.not"), Pair("T", "2 * T")) << "a bool is one byte";
  EXPECT_EQ(of("quern.exp"), Pair("32 * T", "32 * T"));
  EXPECT_EQ(of("quern.contract"), Pair("64 * B * T", "48 * B * T + 128"));
  EXPECT_EQ(of("quern.attention"), Pair("28 * B * T * T", "64 * B * T")) << "no matrix of scores is moved";
  EXPECT_EQ(of("quern.attention_gradient"), Pair("17 * B * T * T", "64 * B * T")) << "nor one of weights";
  EXPECT_EQ(of("quern.split"), Pair("0", "0"));
  EXPECT_EQ(of("quern.gather"), Pair("0", "36 * T")) << "only the rows picked are read";
  EXPECT_EQ(of("quern.scatter_add"), Pair("4 * T", "20 * T + 128"));
}

TEST_F(Cost, OfLoopsAndKernels) {
  EXPECT_EQ(of("quern.repeat"), Pair("12 * T", "96 * T"));
  auto kernel = llvm::cast<CostOpInterface>(*m.module->lookupSymbol<KernelOp>("k"));
  EXPECT_EQ(kernel.getFlops().str(), "128 * s0");
  EXPECT_EQ(kernel.getBytes().str(), "48 * s0 + 128") << "between its operations nothing is memory";
  EXPECT_EQ(of("quern.launch"), Pair("128 * T + 128 * past", "48 * T + 48 * past + 128"));
}

/// Of a table that is only gathered from, also of what is computed from it element by element, the rows that can be picked.
TEST(TableCost, IsOfWhatCanBeGathered) {
  Module m{R"(
quern.kernel @k(%table: !quern.tensor<real[d0 = 8, d1 = 4]> #quern.layout<"strided", ["4", "1"]>, %bias: !quern.tensor<real[d1 = 4]> #quern.layout<"strided", ["1"]>, %p: !quern.tensor<int[d2 = s0]> #quern.layout<"strided", ["1"]>, %rows: !quern.tensor<real[d2 = s0, d0 = 8]> #quern.layout<"strided", ["8", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.add %table, %bias : (!quern.tensor<real[d0 = 8, d1 = 4]>, !quern.tensor<real[d1 = 4]>) -> !quern.tensor<real[d0 = 8, d1 = 4]>
  %1 = quern.gather %0["d0" = %p] : (!quern.tensor<real[d0 = 8, d1 = 4]>, !quern.tensor<int[d2 = s0]>) -> !quern.tensor<real[d2 = s0, d1 = 4]>
  %2 = quern.gather %rows["d0" = %p] : (!quern.tensor<real[d2 = s0, d0 = 8]>, !quern.tensor<int[d2 = s0]>) -> !quern.tensor<real[d2 = s0]>
  %3 = quern.mul %1, %2 : (!quern.tensor<real[d2 = s0, d1 = 4]>, !quern.tensor<real[d2 = s0]>) -> !quern.tensor<real[d2 = s0, d1 = 4]>
  quern.yield %3 : !quern.tensor<real[d2 = s0, d1 = 4]>
})"};
  ASSERT_TRUE(m.module) << m.said;
  auto kernel = llvm::cast<KernelOp>(*m.module->lookupSymbol<KernelOp>("k"));
  EXPECT_EQ(bytesRead(kernel, 0).str(), "16 * min(8, s0)") << "no row twice";
  EXPECT_EQ(bytesRead(kernel, 1).str(), "16") << "the bias belongs to every row";
  EXPECT_EQ(bytesRead(kernel, 2).str(), "4 * s0");
  EXPECT_EQ(bytesRead(kernel, 3).str(), "4 * s0") << "one element of each row";
}

TEST(Least, IsASymbolUnlessItIsKnown) {
  Size t = Size::symbol("T"), b = Size::symbol("B");
  EXPECT_EQ(least(8, Size(5)).str(), "5");
  EXPECT_EQ(least(8, t + Size(9)).str(), "8") << "lengths are not negative";
  EXPECT_EQ(least(0, Size(0) - t).str(), "-T");
  EXPECT_EQ(notNegative(t + Size(1)).str(), "T + 1");
  Size cost = least(8, Size(2) * b * t) * Size(64) + t;
  EXPECT_EQ(cost.str(), "T + 64 * min(8, 2 * B * T)");
  std::optional<Least> inside = leastOf("min(8, 2 * B * T)");
  ASSERT_TRUE(inside);
  EXPECT_EQ(inside->most, 8);
  EXPECT_EQ(inside->of, Size(2) * b * t);
  for (const char *other : {"T", "min(8", "min(T, 8)", "min(8, )", "filled(8)", "min(-8, T)", "min(8, T"})
    EXPECT_FALSE(leastOf(other)) << other;
  EXPECT_EQ(substituteAll(cost, {{"T", Size(2)}}).str(), "64 * min(8, 4 * B) + 2");
  EXPECT_EQ(substituteAll(cost, {{"T", Size(2)}, {"B", Size(3)}}).str(), "514");
  Size chunk = *chunkLength(256, b * t);
  EXPECT_EQ(costOfAllIterations(least(8, Size(2) * chunk)), least(8, Size(2) * b * t));
}

} // namespace
