// What each architecture remembers, as numbers per layer and position: design and proof are in passes/README.md.
#include "Support.h"

#include "ir/analysis/Window.h"

#include <cstdlib>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes::test;

namespace {

/// "2 x 16 a position", "... of the last 6", "2 x 16 in all" (a running sum): iterations, then numbers of one row.
std::string remembered(ModuleOp module) {
  std::string out;
  for (auto state : module.getOps<StateOp>()) {
    int64_t iterations = 1, numbers = 1;
    std::string where = "in all";
    for (DimAttr dim : cast<NamedTensorType>(state.getType()).getDims()) {
      std::optional<int64_t> window = windowOf(dim.getSize());
      if (dim.getName() == "iteration")
        iterations = *dim.getStatic();
      else if (dim.getName() == "cap")
        where = window ? "of the last " + std::to_string(*window) : "a position";
      else if (dim.getName() != "B")
        numbers *= *dim.getStatic();
    }
    out += (out.empty() ? "" : ", ") + std::to_string(iterations) + " x " + std::to_string(numbers) + " " + where;
  }
  return out;
}

struct Row {
  const char *name, *spec, *config;
  std::string expected;
  std::vector<std::string> settings = {};
};
void PrintTo(const Row &row, std::ostream *out) {
  *out << row.name;
}

class Remembered : public testing::TestWithParam<Row> {};

std::string source(const std::string &path) {
  return std::string(std::getenv("QUERN_SOURCE")) + "/" + path;
}

} // namespace

TEST_P(Remembered, AsDerived) {
  const Row &row = GetParam();
  Program program(source(row.spec), row.config ? source(std::string("tests/data/") + row.config + "/config.json") : "",
                  row.settings);
  program.lower();
  EXPECT_EQ(remembered(program.module()), row.expected);
  // A past that must be run again when the length passes a bound is computed by a function of its own.
  std::string name = program.function("forward") ? "forward" : "decode";
  EXPECT_EQ(static_cast<bool>(program.function(name + ".epoch")), std::string(row.name) == "phi3_longrope");
}

INSTANTIATE_TEST_SUITE_P(
    Specs, Remembered,
    testing::Values(
        Row{"gpt2", "examples/gpt2.quern", "gpt2", "2 x 48 a position, 2 x 48 a position"},
        Row{"llama", "examples/llama.quern", "llama", "2 x 16 a position, 2 x 16 a position"},
        Row{"qwen2", "examples/qwen2.quern", "qwen2", "2 x 16 a position, 2 x 16 a position"},
        Row{"mistral", "examples/mistral.quern", "mistral", "3 x 16 of the last 6, 3 x 16 of the last 6"},
        Row{"gemma3", "examples/gemma.quern", "gemma3-text",
            "2 x 24 of the last 6, 2 x 24 of the last 6, 1 x 24 a position, 1 x 24 a position"},
        Row{"phi3_longrope", "examples/phi3.quern", "phi3-longrope", "2 x 32 a position, 2 x 32 a position"},
        Row{"mixtral", "examples/mixtral.quern", "mixtral", "2 x 16 a position, 2 x 16 a position"},
        Row{"t5", "examples/t5.quern", "t5", "2 x 32 a position, 2 x 32 a position"},
        Row{"deepseek", "tests/frontend/specs/deepseek_v3.quern", nullptr,
            "1 x 16 a position, 1 x 4 a position, 2 x 16 a position, 2 x 4 a position"},
        Row{"linear_attention", "examples/linear_attention.quern", nullptr, "2 x 256 in all, 2 x 32 in all"},
        Row{"m2m100", "examples/bart.quern", "m2m100", "2 x 32 a position, 2 x 32 a position, 1 x 1 in all"}),
    [](const auto &info) { return std::string(info.param.name); });
