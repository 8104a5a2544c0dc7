// A softmax written by hand gives what it gave before it was recognised, and what softmax gives where that was no
// number.
#include "SmallSpecs.h"

using namespace quern::passes;
using namespace quern::passes::test;

static std::unique_ptr<Program> raised(const std::string &text) {
  auto program = Program::fromSpec(text);
  std::vector<std::unique_ptr<mlir::Pass>> passes;
  passes.push_back(createRaiseSoftmaxPass());
  program->run(std::move(passes));
  return program;
}

static const std::string scores = "    s = sum[D](x * x[T -> S])\n    m = index(S) <= index(T)\n";

static const std::vector<std::string> spellings = {
    "    e = exp(where(m, s, -inf))\n    return sum[S](e / sum[S](e) * x[T -> S])\n",
    "    c = where(m, s, -inf)\n    e = exp(c - max[S](c))\n    return sum[S](e * x[T -> S]) / sum[S](e)\n",
    "    e = where(m, exp(s), 0)\n    return sum[S](1 / sum[S](e) * e * x[T -> S])\n",
    "    c = where(m, s, -inf)\n    return sum[S](exp(c - log(sum[S](exp(c)))) * x[T -> S])\n",
};

TEST(RaiseSoftmax, GivesTheSameNumbers) {
  for (const std::string &spelling : spellings) {
    std::string text = specWith(scores + spelling);
    auto plain = Program::fromSpec(text), other = raised(text);
    EXPECT_NE(other->print().find("quern.softmax"), std::string::npos) << spelling;
    EXPECT_EQ(other->print().find("quern.exp"), std::string::npos) << spelling;
    Program::Inputs inputs = inputsFor(plain->function("forward"), 2, 9, 5, 13);
    EXPECT_LE(difference(plain->evaluate("forward", inputs), other->evaluate("forward", inputs)), 1e-12) << spelling;
  }
}

TEST(RaiseSoftmax, IsKnownToTheTimeAnalysis) { // and so to the cache
  for (const std::string &spelling : spellings)
    EXPECT_NE(expectSteps(specWith(scores + spelling)).find("quern.remember"), std::string::npos) << spelling;
}

TEST(RaiseSoftmax, KeepsWhatIsNumberAndMendsWhatIsNot) {
  // Scores of thousands overflow; a row that sees nothing divides zero by zero.
  std::string huge =
      specWith("    e = exp(10000 * sum[D](x * x[T -> S]))\n    return sum[S](e / sum[S](e) * x[T -> S])\n");
  std::string empty =
      specWith("    e = where(index(S) < index(T), exp(sum[D](x * x[T -> S])), 0)\n    return sum[S](e / "
               "sum[S](e) * x[T -> S])\n");
  for (const std::string &text : {huge, empty}) {
    auto plain = Program::fromSpec(text), other = raised(text);
    Program::Inputs inputs = inputsFor(plain->function("forward"), 1, 5, 5, 13);
    std::vector<double> before = plain->evaluate("forward", inputs), after = other->evaluate("forward", inputs);
    unsigned mended = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(std::isfinite(after[i])) << text;
      mended += std::isnan(before[i]);
      if (std::isfinite(before[i])) {
        EXPECT_NEAR(before[i], after[i], 1e-12);
      }
    }
    EXPECT_GT(mended, 0u) << text;
  }
}
