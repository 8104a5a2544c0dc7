// Logits some rows at a time, and loops in segments: the same loss and gradients as without, on every spec that trains,
// whatever the chunk or segment; and what is then in memory.
#include "Trained.h"

#include "ir/Attributes.h"

#include <numeric>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;
using namespace quern::passes::test;

namespace {

std::string nameOf(const testing::TestParamInfo<ExampleSpec> &info) {
  return info.param.name;
}

class TrainedSpecs : public testing::TestWithParam<ExampleSpec> {};

/// Results may be in another order of parameters where a loop is cut in two: compared as sums of squares too.
double sumOfSquares(const std::vector<double> &numbers) {
  return std::inner_product(numbers.begin(), numbers.end(), numbers.begin(), 0.0);
}

} // namespace

TEST_P(TrainedSpecs, ChunksAndSegmentsGiveTheSameGradients) {
  Trained plain(GetParam(), {}, "chunk-loss", "differentiated");
  if (!plain.module || !plain.function("loss"))
    return; // a spec without a loss: it does not train
  // Specs without a config have labels of their own, of two kinds or more.
  Program::Inputs inputs = inputsFor(plain.function("loss"), 2, 7, 5, GetParam().config ? GetParam().vocabulary : 2);
  std::vector<double> want = plain.evaluate("loss.grad", inputs);
  ASSERT_FALSE(want.empty());
  EXPECT_EQ(plain.chunkedLoops("loss.grad"), 0);
  for (int64_t rows : {1, 5, 100}) {
    Trained chunked(GetParam(), {{chunkRowsAttr.str(), rows}}, "", "differentiated");
    EXPECT_LE(difference(want, chunked.evaluate("loss.grad", inputs)), 1e-11) << rows << " rows";
    EXPECT_EQ(chunked.chunkedLoops("loss.grad"), chunked.chunkedLoops("loss"));
  }
  Trained planned(GetParam(), {{chunkRowsAttr.str(), 5}});
  EXPECT_LE(difference(want, planned.evaluate("loss.grad", inputs)), 1e-9);
  EXPECT_LE(difference({want[0]}, planned.evaluate("loss", inputs)), 1e-9);
  // Every published spec has logits; what has none keeps its way.
  if (GetParam().config && std::string(GetParam().spec) != "bert" && std::string(GetParam().spec) != "distilbert") {
    EXPECT_EQ(planned.chunkedLoops("loss.grad"), 1);
    EXPECT_EQ(planned.chunkedLoops("loss"), 1);
  }
  for (int64_t iterations : {2, 3}) {
    Trained segmented(GetParam(), {{segmentIterationsAttr.str(), iterations}});
    std::vector<double> numbers = segmented.evaluate("loss.grad", inputs);
    ASSERT_EQ(numbers.size(), want.size());
    EXPECT_NEAR(sumOfSquares(numbers), sumOfSquares(want), 1e-9 * sumOfSquares(want)) << iterations << " iterations";
    EXPECT_NEAR(numbers[0], want[0], 1e-9 * std::abs(want[0]));
  }
}
/// All but the encoders that give vectors of sentences: they have nothing to train on.
static std::vector<ExampleSpec> trainedSpecs() {
  std::vector<ExampleSpec> specs = exampleSpecs();
  llvm::erase_if(specs, [](const ExampleSpec &example) { return StringRef(example.name).starts_with("sentence"); });
  return specs;
}
INSTANTIATE_TEST_SUITE_P(Examples, TrainedSpecs, testing::ValuesIn(trainedSpecs()), nameOf);

/// Of 7 iterations in segments of 3, two outer loops and a shorter one save what they carry in, and nothing else of the
/// iterations.
TEST(Segments, KeepWhatIsCarriedInAndRunTheIterationsAgain) {
  ExampleSpec example{"gpt2", "gpt2", "gpt2", {"n_layer=7"}};
  Trained plain(example, {}, "", "differentiated"),
      segmented(example, {{segmentIterationsAttr.str(), 3}}, "", "differentiated");
  Program::Inputs inputs = inputsFor(plain.function("loss"), 2, 7, 5, example.vocabulary);
  std::vector<double> want = plain.evaluate("loss.grad", inputs), got = segmented.evaluate("loss.grad", inputs);
  ASSERT_EQ(want.size(), got.size());
  EXPECT_NEAR(sumOfSquares(got), sumOfSquares(want), 1e-10 * sumOfSquares(want));
  std::vector<size_t> kept;
  for (auto loop : segmented.function("loss.grad").front().getOps<RepeatOp>())
    if (!loop.getReversed() && !chunkOf(loop)) {
      EXPECT_EQ(loop.getIterations(), kept.empty() ? 2u : 1u);
      kept.push_back(loop.getNumResults() - loop.getCarriedCount());
      for (auto inner : loop.getBlock().getOps<RepeatOp>())
        EXPECT_EQ(inner.getNumResults(), inner.getCarriedCount())
            << "the forward direction saves nothing within a segment";
    }
  EXPECT_EQ(kept, (std::vector<size_t>{1, 1}));
}

/// Logits are in memory for one chunk only, whatever the number of tokens.
TEST(ChunkLoss, MemoryDoesNotGrowWithTokensTimesVocabulary) {
  ExampleSpec example{"gpt2", "gpt2", "gpt2", {"vocab_size=5000"}};
  Trained planned(example, {{chunkRowsAttr.str(), 48}});
  for (StringRef name : {"loss", "loss.grad"}) {
    bool chunks = false;
    for (Attribute slot : planned.function(name)->getAttrOfType<ArrayAttr>("quern.arena"))
      for (Attribute bytes : cast<ArrayAttr>(slot)) {
        Size size = *Size::parse(cast<StringAttr>(bytes).getValue());
        chunks |= size == Size(20000) * *Size::parse("chunk(48, B * T)");
        EXPECT_LT(size.evaluate([](const std::string &symbol) {
          return chunkOf(symbol) ? 0 : symbol == "B" ? 10000 : 1;
        }),
                  10000 * 20000)
            << size.str();
      }
    EXPECT_TRUE(chunks) << name.str();
  }
}
