// Experts in a loss: only the chosen are computed and differentiated. The same loss and gradients as with all of them,
// whatever experts are made of; never a copy of a matrix for each row; and what it saves.
#include "SmallSpecs.h"
#include "Trained.h"

#include "ir/analysis/Weights.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;
using namespace quern::passes::test;
using testing::HasSubstr;
using testing::Not;

namespace {

/// A spec with a vocabulary around `body`, which changes x.
std::string withExperts(const std::string &body) {
  return "quern 1\nmodel m {\n  dim V = 13, D = 4, E = 5, C = 2, F = 6\n  forward(tokens: int[B, T]) -> [B, T, V] {\n"
         "    param words: [V, D] @ \"words\"\n    x = words[V = tokens]\n" +
         body + "    return linear[D -> V](x) @ \"out\"\n  }\n}\n";
}

const std::string route = "      score, chosen = top_k[E -> C](softmax[E](linear[D -> E](x) @ \"gate\"))\n";

struct Experts {
  const char *name;
  std::string body;
};
void PrintTo(const Experts &experts, std::ostream *out) {
  *out << experts.name;
}

std::vector<Experts> kinds() {
  return {
      {"TwoMatrices", route + "      y = linear[F -> D](silu(linear[D -> F](x) @ \"{E}.in\")) @ \"{E}.out\"\n"
                              "      x = x + sum[C](y[E = chosen] * score)\n"},
      {"GatedInALoop", "    repeat i in 3 @ \"l.{i}\" {\n" + route +
                           "      y = linear[F -> D](silu(linear[D -> F](x) @ \"{E}.w1\") * (linear[D -> F](x) @ "
                           "\"{E}.w3\")) @ \"{E}.w2\"\n"
                           "      x = x + sum[C](score / sum[C](score) * y[E = chosen])\n    }\n"},
      {"WithBiases", route + "      y = affine[F -> D](tanh(affine[D -> F](x) @ \"{E}.in\")) @ \"{E}.out\"\n"
                             "      x = x + sum[C](y[E = chosen] * score)\n"},
      {"OneMatrix", "      param expert: [D, F] @ \"expert.{E}\"\n" + route + // the manual's
                        "      every = sum[D](x * expert)\n      x = x + linear[F -> D](sum[C](score * every[E = "
                        "chosen])) @ \"back\"\n"},
      {"WeightsMadeOfWeights", "      param w: [E, F, D] @ \"w\"\n      param s: [E, F] @ \"s\"\n" + route +
                                   "      h = tanh(sum[D](x * (w * s)))\n      x = x + linear[F -> D](sum[C](h[E = "
                                   "chosen] * score)) @ \"back\"\n"},
      {"ThereAndBack", "      param w: [E, F, D] @ \"w\"\n" + route + // the same weights used twice
                           "      y = sum[F](tanh(sum[D](x * w)) * w)\n      x = x + sum[C](y[E = chosen] * score)\n"},
      {"OneForAText", "      score, chosen = top_k[E -> C](softmax[E](linear[D -> E](mean[T](x)) @ \"gate\"))\n"
                      "      y = linear[F -> D](silu(linear[D -> F](x) @ \"{E}.in\")) @ \"{E}.out\"\n"
                      "      x = x + sum[C](y[E = chosen] * score)\n"},
      {"SharedExpert", "      one = x\n" + route +
                           "      y = linear[F -> D](silu(linear[D -> F](x) @ \"{E}.in\")) @ \"{E}.out\"\n"
                           "      x = x + sum[C](y[E = chosen] * score) + linear[F -> D](silu(linear[D -> F](one) @ "
                           "\"all.in\")) @ \"all.out\"\n"}};
}

constexpr int64_t texts = 2, tokens = 64;

int64_t at(const Size &size) {
  return size.evaluate([&](const std::string &symbol) { return symbol == "B" ? texts : tokens; });
}

/// Operations of contractions, and of sums of outer products.
int64_t productsOf(func::FuncOp function) {
  int64_t flops = 0;
  function.walk([&](Operation *op) {
    auto scatter = dyn_cast<ScatterAddOp>(op);
    MulOp outer = scatter ? summedByRoute(scatter) : MulOp();
    if (!isa<ContractOp>(op) && !outer)
      return;
    int64_t each = at(cast<CostOpInterface>(op).getFlops()) + (outer ? at(outer.getFlops()) : 0);
    for (auto loop = op->getParentOfType<RepeatOp>(); loop; loop = loop->getParentOfType<RepeatOp>())
      each *= loop.getIterations();
    flops += each;
  });
  return flops;
}

class TrainedExperts : public testing::TestWithParam<Experts> {};

} // namespace

TEST_P(TrainedExperts, TheSameGradientsWhetherAllAreComputedOrTheChosen) {
  std::string spec = withExperts(GetParam().body);
  Trained all(spec, "sink-loss-gathers", "differentiated"), chosen(spec, "", "differentiated"), kernels(spec, "");
  ASSERT_TRUE(all.module && chosen.module);
  Program::Inputs inputs = inputsFor(all.function("loss"), 3, 7, 5, 13);
  std::vector<double> want = all.evaluate("loss.grad", inputs);
  EXPECT_THAT(printed(all.function("loss.grad")), HasSubstr("E = 5, F = 6]"));
  EXPECT_LE(difference(want, chosen.evaluate("loss.grad", inputs)), 1e-12);
  EXPECT_LE(difference({want[0]}, chosen.evaluate("loss", inputs)), 1e-12);
  EXPECT_LE(difference(want, kernels.evaluate("loss.grad", inputs)), 1e-12);
  for (const char *without : {"recompute", "fuse-elementwise", "fuse-epilogues,fuse-norms,recompute"}) {
    Trained plain(spec, without);
    EXPECT_LE(difference(want, plain.evaluate("loss.grad", inputs)), 1e-12) << "without " << without;
    // No matrix of a row is saved or stored.
    for (StringRef name : {"loss", "loss.grad"})
      EXPECT_THAT(printed(plain.function(name)), Not(testing::ContainsRegex("B[^]]*, C = 2, (F = 6, D|D = 4, F)")))
          << "without " << without;
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, TrainedExperts, testing::ValuesIn(kinds()),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(TrainedMixtral, TheSameGradientsInAQuarterOfTheFeedForward) {
  constexpr int64_t experts = 8, chosen = 2, layers = 2, wide = 64, inside = 96;
  ExampleSpec example{"mixtral",
                      "mixtral",
                      "mixtral",
                      {"num_local_experts=8", "num_experts_per_tok=2", "num_hidden_layers=2", "hidden_size=64",
                       "intermediate_size=96"}};
  const std::string without = "chunk-loss", withAll = without + ",sink-loss-gathers";
  // Three matrices, each forwards, for its rows and for itself.
  int64_t matrices = layers * 3 * 3 * 2 * texts * tokens * inside * wide;
  Trained derivedAll(example, {}, withAll + ",recompute", "differentiated"),
      derived(example, {}, without + ",recompute", "differentiated");
  EXPECT_EQ(productsOf(derivedAll.function("loss.grad")) - productsOf(derived.function("loss.grad")),
            matrices * (experts - chosen));
  Trained all(example, {}, withAll), some(example, {}, without);
  Program::Inputs inputs = inputsFor(all.function("loss"), 2, 5, 5, example.vocabulary);
  EXPECT_LE(difference(all.evaluate("loss.grad", inputs), some.evaluate("loss.grad", inputs)), 1e-11);
  int64_t bytesOfAll = arenaBytes(all.function("loss.grad"), texts, tokens),
          bytes = arenaBytes(some.function("loss.grad"), texts, tokens);
  EXPECT_LT(bytes, 0.6 * bytesOfAll) << bytes << " of " << bytesOfAll;
}
