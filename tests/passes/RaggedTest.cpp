// Rows of a batch that began at different times give what each gives alone: read in chunks, then step by step.
#include "Support.h"

#include <cstdlib>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes::test;

namespace {

struct Page {
  const char *name, *spec, *config;
  std::vector<std::string> settings = {};
};
void PrintTo(const Page &page, std::ostream *out) { *out << page.name; }

std::string source(const std::string &path) { return std::string(std::getenv("QUERN_SOURCE")) + "/" + path; }

std::unique_ptr<Program> load(const Page &page) {
  return std::make_unique<Program>(source(page.spec),
                                   page.config ? source(std::string("tests/data/") + page.config + "/config.json") : "",
                                   page.settings);
}

/// Numbers begin .. begin + count - 1 of row `b` of a [B, T] array.
std::vector<int64_t> part(const Array &x, int64_t b, int64_t begin, int64_t count) {
  const int64_t *row = x.ints() + b * x.getDims()[1].size;
  return {row + begin, row + begin + count};
}

/// One row of an input [B, ...].
Array rowOf(const Array &x, int64_t b) {
  std::vector<NamedSize> dims = x.getDims();
  int64_t width = x.getCount() / dims[0].size;
  dims[0].size = 1;
  if (x.isReal())
    return Array(dims, std::vector<double>(x.reals() + b * width, x.reals() + (b + 1) * width));
  return Array(x.getKind(), dims, std::vector<int64_t>(x.ints() + b * width, x.ints() + (b + 1) * width));
}

class Ragged : public testing::TestWithParam<Page> {};

} // namespace

TEST_P(Ragged, EqualsEachAlone) {
  auto program = load(GetParam()), lowered = load(GetParam());
  std::string name = program->function("forward") ? "forward" : "decode";
  lowered->lower();
  func::FuncOp ragged = lowered->function(name + ".ragged");
  ASSERT_TRUE(ragged);

  const std::vector<int64_t> lengths = {9, 4, 12, 1}; // before the last three tokens, which come one by one
  const int64_t longest = 12, more = 3, rows = lengths.size();
  Program::Inputs inputs = inputsFor(program->function(name), rows, longest + more, 5, 60);
  std::string text = argumentName(program->function(name), 0).str();
  std::string time = typeOf(program->function(name).getArgument(0)).getDims().back().getName().str();
  const Array tokens = inputs.at(text); // row b: its first lengths[b] + more numbers

  // Slots: a row's text ends where all end.
  Program::Inputs slots = inputs;
  std::vector<int64_t> numbers, shifts;
  for (int64_t b = 0; b < rows; ++b) {
    shifts.push_back(longest - lengths[b]);
    for (int64_t slot = 0; slot < longest + more; ++slot)
      numbers.push_back(slot < shifts[b] ? 0 : part(tokens, b, slot - shifts[b], 1)[0]);
  }
  slots[text] = Array(Kind::Int, tokens.getDims(), numbers);
  slots["shift"] = Array(Kind::Int, {tokens.getDims()[0]}, shifts);

  // The end of every row after each of the last three tokens, one text at a time.
  std::vector<double> expected;
  for (int64_t step = 0; step <= more; ++step)
    for (int64_t b = 0; b < rows; ++b) {
      Program::Inputs alone;
      for (auto &[input, array] : inputs)
        alone[input] = rowOf(array, b);
      int64_t length = lengths[b] + step;
      alone[text] = Array(Kind::Int, {{tokens.getDims()[0].name, 1}, {time, length}}, part(tokens, b, 0, length));
      std::vector<double> whole = program->evaluate(name, alone);
      expected.insert(expected.end(), whole.end() - whole.size() / length, whole.end());
    }

  auto ends = [&](const std::vector<double> &all, size_t pieces) { // the rows of the last four pieces
    return std::vector<double>(all.end() - all.size() / pieces * (more + 1), all.end());
  };
  EXPECT_LE(difference(expected, ends(lowered->evaluateSteps(name + ".ragged", slots, {12, 1, 1, 1}), 4)), 1e-12);
  EXPECT_LE(difference(expected, ends(lowered->evaluateSteps(name + ".ragged", slots, {5, 2, 5, 1, 1, 1}), 6)), 1e-12);

  std::vector<std::unique_ptr<Pass>> passes;
  passes.push_back(quern::passes::createOutlineKernelsPass([](int64_t, int64_t) { return int64_t(0); }));
  passes.push_back(quern::passes::createPlanMemoryPass());
  lowered->run(std::move(passes));
  EXPECT_LE(difference(expected, ends(lowered->evaluateSteps(name + ".ragged", slots, {7, 5, 1, 1, 1}), 5)), 1e-12) << "as kernels";
}

INSTANTIATE_TEST_SUITE_P(
    Pages, Ragged,
    testing::Values(Page{"bloom", "examples/bloom.quern", "bloom"}, Page{"cohere", "examples/cohere.quern", "cohere"},
                    Page{"gemma", "examples/gemma.quern", "gemma"}, Page{"gemma3", "examples/gemma3.quern", "gemma3-text"},
                    Page{"gpt2", "examples/gpt2.quern", "gpt2"},
                    Page{"gpt_bigcode", "examples/gpt_bigcode.quern", "gpt-bigcode"},
                    Page{"gptj", "examples/gptj.quern", "gptj"}, Page{"llama", "examples/llama.quern", "llama"},
                    Page{"llama3", "examples/llama.quern", "llama3-rope-scaling"},
                    Page{"m2m100", "examples/m2m100.quern", "m2m100"}, Page{"mistral", "examples/mistral.quern", "mistral"},
                    Page{"mixtral", "examples/mixtral.quern", "mixtral"}, Page{"mpt", "examples/mpt.quern", "mpt"},
                    Page{"opt", "examples/opt.quern", "opt"}, Page{"opt350m", "examples/opt.quern", "opt-postln-proj"},
                    Page{"phi3", "examples/phi3.quern", "phi3"},
                    Page{"phi3_longrope", "examples/phi3.quern", "phi3-longrope"},
                    Page{"qwen2", "examples/qwen2.quern", "qwen2"}, Page{"smollm3", "examples/smollm3.quern", "smollm3"},
                    Page{"stablelm", "examples/stablelm.quern", "stablelm"},
                    Page{"starcoder2", "examples/starcoder2.quern", "starcoder2"}, Page{"t5", "examples/t5.quern", "t5"},
                    Page{"linear_attention", "examples/linear_attention.quern", nullptr},
                    Page{"sparse", "examples/sparse.quern", nullptr},
                    Page{"deepseek", "tests/frontend/specs/deepseek_v3.quern", nullptr},
                    Page{"translate", "examples/translate.quern", nullptr,
                         {"vocab=64", "width=16", "inner=32", "heads=2", "layers=2"}}),
    [](const auto &info) { return std::string(info.param.name); });
