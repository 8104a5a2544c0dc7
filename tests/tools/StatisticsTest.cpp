// Numbers of small modules, worked out by hand.
#include "tools/inspect/Stages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>

using namespace quern::tools;

namespace {

class Inspect : public ::testing::Test {
protected:
  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text) {
    context.loadDialect<quern::ir::QuernDialect, mlir::func::FuncDialect>();
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  mlir::MLIRContext context;
};

constexpr const char *planned = R"mlir(
  quern.state @cache of "forward" : !quern.tensor<real[iteration = 3, B, cap, D = 8]>
  func.func @forward(%x: !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
      attributes {quern.arena = [["32 * B * T", "100"], ["5"]], quern.kept = ["7 * T"]} {
    %0 = quern.launch @twice ["B", "T"](%x) : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
    %1 = quern.repeat 3 carry (%y = %0) : !quern.tensor<real[B, T, D = 8]> {
      %2 = quern.launch @twice ["B", "T"](%y) : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
      %3 = quern.launch once @twice ["B", "T"](%y) : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
      %4 = quern.rename %2 ["T"] to [#quern.dim<S = T>] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, S = T, D = 8]>
      %5 = quern.rename %4 ["S"] to [#quern.dim<T>] : (!quern.tensor<real[B, S = T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
      %6 = quern.add %5, %5 : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
      %7 = quern.remember %2 "T" to <S = "T + past"> in @cache : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, S = "T + past", D = 8]>
      quern.yield %6 : !quern.tensor<real[B, T, D = 8]>
    }
    return %1 : !quern.tensor<real[B, T, D = 8]>
  }
  quern.kernel @twice(%a: !quern.tensor<real[d0 = s0, d1 = s1, d2 = 8]> #quern.layout<"strided", ["_", "8", "1"]>) -> (#quern.layout<"strided", ["_", "8", "1"]>) {
    %0 = quern.add %a, %a : (!quern.tensor<real[d0 = s0, d1 = s1, d2 = 8]>, !quern.tensor<real[d0 = s0, d1 = s1, d2 = 8]>) -> !quern.tensor<real[d0 = s0, d1 = s1, d2 = 8]>
    quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = s1, d2 = 8]>
  }
)mlir";

TEST_F(Inspect, LaunchesAndCosts) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(planned);
  ASSERT_TRUE(module);
  Statistics s = statisticsOf(*module);
  ASSERT_EQ(s.functions.size(), 1u);
  const FunctionStatistics &f = s.functions[0];
  EXPECT_EQ(f.ops, 8);
  EXPECT_EQ(f.outside, 1);
  EXPECT_EQ(f.launches, 4) << "once an iteration, and what runs in the first call alone does not count";
  ASSERT_EQ(f.loops.size(), 1u);
  EXPECT_EQ(f.loops[0].iterations, 3);
  EXPECT_EQ(f.loops[0].launches, 1);
  EXPECT_EQ(f.loops[0].once, 1);
  EXPECT_EQ(f.flops.str(), "32 * B * T");
  EXPECT_EQ(f.bytes.str(), "256 * B * T") << "where there are kernels, launches alone count";
}

TEST_F(Inspect, Memory) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(planned);
  ASSERT_TRUE(module);
  Statistics s = statisticsOf(*module);
  Lengths lengths = parseLengths({"T=10,B=2", "past=6"});
  EXPECT_EQ(s.functions[0].arenaBytes(lengths), 640 + 64) << "the larger of each slot, in multiples of 64";
  EXPECT_EQ(s.functions[0].arenaBytes(parseLengths({"T=1"})), 128 + 64);
  EXPECT_EQ(s.functions[0].keptBytes(lengths), 128);
  ASSERT_EQ(s.states.size(), 1u);
  EXPECT_EQ(s.states[0].remembered, "8 numbers per layer and position");
  EXPECT_EQ(s.stateBytes("forward", lengths), 3 * 2 * 16 * 8 * 4) << "room for past + T";
  EXPECT_EQ(s.stateBytes("loss.grad", lengths), 0) << "it does not touch the cache";
  EXPECT_THROW(parseLengths({"T"}), std::runtime_error);
  EXPECT_THROW(parseLengths({"T=-1"}), std::runtime_error);
}

TEST_F(Inspect, PlacesOfOperationsInTheText) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(planned);
  ASSERT_TRUE(module);
  Printed printed = print(*module);
  std::vector<llvm::StringRef> lines;
  for (llvm::StringRef rest = printed.text; !rest.empty();) {
    auto [line, after] = rest.split('\n');
    lines.push_back(line);
    rest = after;
  }
  int seen = 0;
  module->walk([&](quern::ir::LaunchOp op) {
    ++seen;
    EXPECT_TRUE(lines.at(printed.line.lookup(op) - 1).contains("quern.launch")) << printed.line.lookup(op);
  });
  EXPECT_EQ(seen, 3);
  auto symbols = splitSymbols(printed.text);
  ASSERT_EQ(symbols.size(), 3u);
  EXPECT_EQ(symbols[1].first, "@forward");
  EXPECT_TRUE(llvm::StringRef(symbols[1].second).contains("quern.repeat"));
  EXPECT_EQ(symbols[2].first, "@twice");
}

TEST(Numbers, ThreeDigits) {
  EXPECT_EQ(shortNumber(0), "0");
  EXPECT_EQ(shortNumber(999), "999");
  EXPECT_EQ(shortNumber(1000), "1.00 K");
  EXPECT_EQ(shortNumber(70.46e6), "70.5 M");
  EXPECT_EQ(shortNumber(268e9), "268 G");
}

} // namespace
