// For every page of the examples: the whole text at once, in pieces, and one position at a time give the same numbers.
#include "Support.h"

#include <cstdlib>

using namespace mlir;
using namespace quern::passes::test;

namespace {

struct Page {
  const char *name, *spec, *config; // config: a folder of tests/data
  std::vector<std::string> settings;
};
void PrintTo(const Page &page, std::ostream *out) { *out << page.name; }

std::string source(const std::string &path) { return std::string(std::getenv("QUERN_SOURCE")) + "/" + path; }

std::unique_ptr<Program> load(const Page &page) {
  std::string config = page.config ? source("tests/data/" + std::string(page.config) + "/config.json") : "";
  return std::make_unique<Program>(source("examples/" + std::string(page.spec) + ".quern"), config, page.settings);
}

class Steps : public testing::TestWithParam<Page> {};
class Refused : public testing::TestWithParam<Page> {};

} // namespace

TEST_P(Steps, EqualTheWhole) {
  auto program = load(GetParam()), lowered = load(GetParam());
  std::string name = program->function("forward") ? "forward" : "decode";
  lowered->lower();
  func::FuncOp function = lowered->function(name);
  ASSERT_TRUE(function);
  EXPECT_FALSE(function->hasAttr("quern.refusal")) << function->getAttrOfType<StringAttr>("quern.refusal").str();
  ASSERT_TRUE(lowered->function(name + ".last"));

  Program::Inputs inputs = inputsFor(program->function(name), 2, 11, 5, 60);
  std::vector<double> whole = program->evaluate(name, inputs);
  EXPECT_LE(difference(whole, lowered->evaluate(name, inputs)), 1e-12);
  // Longrope's page compares T with a length beyond these texts, so the answer stays (its test is in CausalityTest.cpp).
  ASSERT_FALSE(function->hasAttr("quern.recompute"));
  EXPECT_LE(difference(whole, lowered->evaluateSteps(name, inputs, {4, 1, 1, 5})), 1e-12);
  EXPECT_LE(difference(whole, lowered->evaluateSteps(name, inputs, std::vector<int64_t>(11, 1))), 1e-12);

  // The last row alone: pieces end at 4, 5, 6 and 11.
  std::vector<double> last = lowered->evaluateSteps(name + ".last", inputs, {4, 1, 1, 5}), expected;
  size_t width = whole.size() / 22;
  for (int64_t end : {4, 5, 6, 11})
    for (int64_t b : {0, 1})
      expected.insert(expected.end(), whole.begin() + (b * 11 + end - 1) * width, whole.begin() + (b * 11 + end) * width);
  EXPECT_LE(difference(expected, last), 1e-12);
  if (lowered->function(name + ".step")) { // the form for few rows serves any number, and goes on where the other stopped
    EXPECT_LE(difference(expected, lowered->evaluateSteps(name + ".step", inputs, {4, 1, 1, 5})), 1e-12);
  }
}

TEST_P(Steps, EqualTheWholeAsKernels) {
  auto program = load(GetParam()), lowered = load(GetParam());
  std::string name = program->function("forward") ? "forward" : "decode";
  lowered->lower();
  std::vector<std::unique_ptr<Pass>> passes;
  passes.push_back(quern::passes::createOutlineKernelsPass([](int64_t, int64_t) { return int64_t(0); }));
  passes.push_back(quern::passes::createPlanMemoryPass());
  lowered->run(std::move(passes));
  Program::Inputs inputs = inputsFor(program->function(name), 2, 11, 5, 60);
  std::vector<double> whole = program->evaluate(name, inputs);
  EXPECT_LE(difference(whole, lowered->evaluate(name, inputs)), 1e-12);
  EXPECT_LE(difference(whole, lowered->evaluateSteps(name, inputs, {4, 1, 6})), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Pages, Steps,
    testing::Values(Page{"bloom", "bloom", "bloom", {}}, Page{"cohere", "cohere", "cohere", {}},
                    Page{"gemma", "gemma", "gemma", {}}, Page{"gemma3", "gemma3", "gemma3-text", {}},
                    Page{"gpt2", "gpt2", "gpt2", {}}, Page{"gpt_bigcode", "gpt_bigcode", "gpt-bigcode", {}},
                    Page{"gptj", "gptj", "gptj", {}}, Page{"llama", "llama", "llama", {}},
                    Page{"llama3", "llama", "llama3-rope-scaling", {}}, Page{"m2m100", "m2m100", "m2m100", {}},
                    Page{"mistral", "mistral", "mistral", {}}, Page{"mixtral", "mixtral", "mixtral", {}},
                    Page{"mpt", "mpt", "mpt", {}}, Page{"opt", "opt", "opt", {}},
                    Page{"opt350m", "opt", "opt-postln-proj", {}}, Page{"phi3", "phi3", "phi3", {}},
                    Page{"phi3_longrope", "phi3", "phi3-longrope", {}}, Page{"qwen2", "qwen2", "qwen2", {}},
                    Page{"smollm3", "smollm3", "smollm3", {}}, Page{"stablelm", "stablelm", "stablelm", {}},
                    Page{"starcoder2", "starcoder2", "starcoder2", {}}, Page{"t5", "t5", "t5", {}},
                    Page{"linear_attention", "linear_attention", nullptr, {}}, Page{"sparse", "sparse", nullptr, {}},
                    Page{"translate", "translate", nullptr,
                         {"vocab=64", "width=16", "inner=32", "heads=2", "layers=2"}}),
    [](const auto &info) { return std::string(info.param.name); });

TEST_P(Refused, SaysWhy) {
  auto program = load(GetParam()), lowered = load(GetParam());
  lowered->lower();
  func::FuncOp function = lowered->function("forward");
  ASSERT_TRUE(function->hasAttr("quern.refusal"));
  std::string refusal = function->getAttrOfType<StringAttr>("quern.refusal").str();
  EXPECT_THAT(refusal, testing::MatchesRegex(std::string(GetParam().spec) +
                                             "\\.quern:[0-9]+:[0-9]+: softmax\\[S\\] is not causal: it sees positions of S "
                                             "after T: nothing masks it by index\\(S\\) <= index\\(T\\) "
                                             "\\(std\\.quern:[0-9]+:[0-9]+\\)"));
  EXPECT_FALSE(lowered->function("forward.last"));
  Program::Inputs inputs = inputsFor(program->function("forward"), 2, 7, 5, 60);
  EXPECT_LE(difference(program->evaluate("forward", inputs), lowered->evaluate("forward", inputs)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Pages, Refused,
                         testing::Values(Page{"bert", "bert", "bert", {}}, Page{"distilbert", "distilbert", "distilbert", {}}),
                         [](const auto &info) { return std::string(info.param.name); });
