// Reducing: what stays is what the question is about.
#include "tools/reduce/Reduce.h"
#include "frontend/Language.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

using namespace quern::tools;
using testing::HasSubstr;
using testing::Not;

static std::string textOf(const std::string &path) {
  std::ifstream file(std::string(std::getenv("QUERN_SOURCE")) + "/" + path);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(ReduceSpec, KeepsWhatMattersOfAPage) {
  // "Interesting": there is attention with a mask of a window, in a spec that checks.
  auto interesting = [](const std::string &text) {
    return text.find("stride") != std::string::npos && text.find("where(") == std::string::npos;
  };
  std::string spec = textOf("examples/sparse.quern");
  std::string reduced = reduceSpec(spec, interesting);
  EXPECT_THAT(reduced, HasSubstr("stride"));
  EXPECT_LT(reduced.size(), spec.size() / 3) << reduced;
  quern::frontend::SpecInput input;
  input.name = "reduced.quern";
  input.text = reduced;
  quern::frontend::Diagnostics diagnostics;
  EXPECT_TRUE(quern::frontend::checkSpec(input, diagnostics)) << reduced;
}

TEST(ReduceSpec, DropsWhatBecomesUnused) {
  std::string spec =
      "quern 1\nmodel m {\n  dim V = 16, D = 8\n  forward(tokens: int[B, T]) -> [B, T, D] {\n"
      "    param words: [V, D] @ \"words\"\n    x = words[V = tokens]\n    a = tanh(x)\n    b, c = sin(a), cos(a)\n"
      "    y = x + 0.5 * b\n    y = y + 0.3 * c\n    repeat i in 4 {\n      y = y * 0.9\n    }\n    return "
      "cumsum[T](y)\n  }\n}\n";
  auto interesting = [](const std::string &text) { return text.find("cumsum[T]") != std::string::npos; };
  std::string reduced = reduceSpec(spec, interesting);
  EXPECT_THAT(reduced, HasSubstr("cumsum[T]"));
  for (const char *gone : {"tanh", "sin", "repeat", "0.3", "16"})
    EXPECT_THAT(reduced, Not(HasSubstr(gone)));
}

TEST(ReduceSpec, TakesSpecsThatDoNotCheck) {
  auto interesting = [](const std::string &text) { return text.find("((((") != std::string::npos; };
  std::string reduced = reduceSpec("quern 1\nmodel m {\n  dim D = 3\n  x = ((((\n  y = 3\n}\n", interesting);
  EXPECT_THAT(reduced, HasSubstr("(((("));
  EXPECT_LT(reduced.size(), 20u);
}

TEST(ReduceModule, KeepsWhatMattersOfAModule) {
  std::string module = R"(
func.func @forward(%x: !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]> {
  %w = quern.param [["w"]] : <real[O = 8, D = 8]>
  %c = quern.contract %x, %w over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[O = 8, D = 8]>) -> !quern.tensor<real[B, T, O = 8]>
  %r = quern.rename %c ["O"] to [#quern.dim<D = 8>] : (!quern.tensor<real[B, T, O = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %t = quern.tanh %r : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %s = quern.softmax %t over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %y = quern.repeat 3 carry (%a = %s) : !quern.tensor<real[B, T, D = 8]> {
    %b = quern.sin %a : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
    quern.yield %b : !quern.tensor<real[B, T, D = 8]>
  }
  return %y : !quern.tensor<real[B, T, D = 8]>
}
func.func @other(%x: !quern.tensor<real[B]>) -> !quern.tensor<real[B]> {
  return %x : !quern.tensor<real[B]>
})";
  auto interesting = [](const std::string &text) { return text.find("quern.softmax") != std::string::npos; };
  std::string reduced = reduceModule(module, interesting);
  EXPECT_THAT(reduced, HasSubstr("quern.softmax"));
  for (const char *gone : {"@other", "quern.repeat", "quern.contract", "quern.param", "quern.tanh"})
    EXPECT_THAT(reduced, Not(HasSubstr(gone))) << reduced;
}

TEST(ReduceModule, RefusesWhatIsNoModule) {
  EXPECT_THROW(reduceModule("func.func @f(", [](const std::string &) { return true; }), std::runtime_error);
}
