// Lower bounds of kernels beside counting: pairs that a mask lets see each other, experts that can be picked.
#include "codegen/KernelCosts.h"
#include "frontend/Frontend.h"
#include "passes/Phases.h"
#include "tools/inspect/Statistics.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace quern;
using namespace quern::tools;

namespace {

struct Total {
  int64_t products = 0, flops = 0, bytes = 0;
};

class Costs : public testing::Test {
protected:
  void lower(const std::string &text, bool train = false) {
    context.loadDialect<ir::QuernDialect, func::FuncDialect>();
    frontend::SpecInput input;
    input.name = "m.quern";
    input.text = text;
    input.train = train;
    frontend::Diagnostics diagnostics;
    module = frontend::elaborate(context, input, diagnostics);
    ASSERT_TRUE(module);
    ASSERT_TRUE(succeeded(passes::runPhases(*module, {})));
  }
  /// Of the launches of a function whose kernels begin with `family`.
  Total of(StringRef function, StringRef family, const Lengths &lengths) {
    Total total;
    module->lookupSymbol<func::FuncOp>(function).walk([&](ir::LaunchOp launch) {
      if (!launch.getKernel().starts_with(family))
        return;
      codegen::KernelCosts costs = codegen::costsOf(launch);
      total.products += valueOf(costs.products, lengths);
      total.flops += valueOf(costs.flops, lengths);
      total.bytes += valueOf(costs.bytes, lengths);
    });
    return total;
  }
  MLIRContext context{DialectRegistry(), MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

std::string withMask(const std::string &mask) {
  return "quern 1\nmodel m {\n  dim V = 11, D = 8, H = 2, K = 4\n  forward(tokens: int[B, T]) -> [B, T, V] {\n    dim "
         "S = T\n"
         "    param words: [V, D] @ \"words\"\n    x = words[V = tokens]\n"
         "    q, k, v = linear[D -> (H, K) + (H, K) + (H, K)](x) @ \"qkv\"\n"
         "    a = attention[S, K](q, k[T -> S], v[T -> S]" +
         mask + ")\n    return linear[D -> V](x + linear[(H, K) -> D](a) @ \"out\") @ \"head\"\n  }\n}\n";
}

TEST_F(Costs, PairsThatAMaskLetsThrough) {
  struct Mask {
    std::string text;
    bool caches;
    std::function<bool(int64_t query, int64_t key)> sees;
  };
  const Mask masks[] = {
      {", mask: index(S) <= index(T)", true, [](int64_t t, int64_t s) { return s <= t; }},
      {", mask: causal[T, S](5)", true, [](int64_t t, int64_t s) { return s <= t && s > t - 5; }},
      {", mask: abs(index(S) - index(T)) <= 3", false, [](int64_t t, int64_t s) { return std::abs(s - t) <= 3; }},
      {", mask: index(S) >= index(T)", false, [](int64_t t, int64_t s) { return s >= t; }},
      {"", false, [](int64_t, int64_t) { return true; }}};
  for (const Mask &mask : masks) {
    lower(withMask(mask.text));
    for (int64_t rows : {1, 2, 4, 5, 6, 13, 40})
      for (int64_t past : {0, 1, 4, 5, 30}) {
        if (past && !mask.caches)
          continue;
        int64_t pairs = 0;
        for (int64_t query = past; query < past + rows; ++query)
          for (int64_t key = 0; key < past + rows; ++key)
            pairs += mask.sees(query, key);
        Total attention = of("forward", "attention", {{"B", 3}, {"T", rows}, {"past", past}});
        EXPECT_EQ(attention.products, 3 * 2 * pairs * 2 * (4 + 4)) << mask.text << ", T " << rows << ", past " << past;
        EXPECT_EQ(attention.flops, attention.products + 3 * 2 * pairs * 10) << mask.text;
      }
  }
}

/// What the mask forbids is left out of a gradient's products, too: as often as pairs are.
TEST_F(Costs, GradientsOfMasks) {
  auto all = [&](const std::string &mask, int64_t rows) {
    lower(withMask(mask), true);
    return of("loss.grad", "", {{"B", 1}, {"T", rows}}).products;
  };
  int64_t saved8 = all("", 8) - all(", mask: index(S) <= index(T)", 8),
          saved16 = all("", 16) - all(", mask: index(S) <= index(T)", 16);
  // Forward two products of 2 heads, backward at least four; T (T - 1) / 2 pairs are forbidden, -1 as labels are shifted.
  auto forbidden = [](int64_t rows) { return rows * (rows - 1) / 2; };
  EXPECT_GE(saved8, 6 * 2 * 2 * 4 * forbidden(8));
  EXPECT_EQ(saved8 * forbidden(16), saved16 * forbidden(8));
}

TEST_F(Costs, ExpertsThatCanBeRoutedTo) {
  lower("quern 1\nmodel m {\n  dim V = 13, D = 4, E = 6, C = 2, F = 64\n  forward(tokens: int[B, T]) -> [B, T, V] {\n"
        "    param words: [V, D] @ \"words\"\n    x = words[V = tokens]\n"
        "    score, chosen = top_k[E -> C](softmax[E](linear[D -> E](x) @ \"gate\"))\n"
        "    y = linear[F -> D](silu(linear[D -> F](x) @ \"{E}.in\")) @ \"{E}.out\"\n"
        "    x = x + sum[C](y[E = chosen] * score)\n    return linear[D -> V](x) @ \"head\"\n  }\n}\n");
  auto bytes = [&](int64_t rows) { return of("forward", "", {{"B", 1}, {"T", rows}}).bytes; };
  // From three rows on all six experts can be picked: one row more moves activations, and no weights.
  int64_t expert = 2 * 4 * 64 * 4, row = bytes(101) - bytes(100);
  EXPECT_LT(row, expert);
  EXPECT_EQ(bytes(4) - bytes(3), row + 4 * 4) << "and a row of words, of which there are 13";
  EXPECT_EQ(bytes(2) - bytes(1), row + 4 * 4 + 2 * expert);
}

} // namespace
