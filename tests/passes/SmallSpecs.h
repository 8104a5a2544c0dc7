// Specs of a few lines, and what is asked of them.
#ifndef QUERN_TESTS_PASSES_SMALLSPECS_H
#define QUERN_TESTS_PASSES_SMALLSPECS_H

#include "Support.h"

namespace quern::passes::test {

/// A model of one function over x: [B, T, D] = words[V = tokens], which gives [B, T, D].
inline std::string specWith(const std::string &body, const std::string &more = "") {
  return "quern 1\nmodel m {\n  config { width = 4, layers = 2 }\n  dim V = 13, D = width, P = 20\n" + more +
         "  forward(tokens: int[B, T]) -> [B, T, D] {\n    dim S = T\n    param words: [V, D] @ \"words\"\n"
         "    x = words[V = tokens]\n" +
         body + "  }\n}\n";
}

inline std::string refusalOf(const std::string &text) {
  auto program = Program::fromSpec(text);
  program->lower();
  mlir::func::FuncOp function = program->function("forward");
  auto refusal = function->getAttrOfType<mlir::StringAttr>("quern.refusal");
  return refusal ? refusal.str() : "";
}

/// Steps of `text` equal the whole; gives the lowered module's text.
inline std::string expectSteps(const std::string &text) {
  auto program = Program::fromSpec(text), lowered = Program::fromSpec(text);
  lowered->lower();
  mlir::func::FuncOp function = lowered->function("forward");
  EXPECT_FALSE(function->hasAttr("quern.refusal")) << function->getAttrOfType<mlir::StringAttr>("quern.refusal").str();
  Program::Inputs inputs = inputsFor(program->function("forward"), 2, 9, 5, 13);
  std::vector<double> whole = program->evaluate("forward", inputs);
  EXPECT_LE(difference(whole, lowered->evaluate("forward", inputs)), 1e-12);
  EXPECT_LE(difference(whole, lowered->evaluateSteps("forward", inputs, {3, 1, 5})), 1e-12);
  EXPECT_LE(difference(whole, lowered->evaluateSteps("forward", inputs, std::vector<int64_t>(9, 1))), 1e-12);
  std::vector<double> last = lowered->evaluateSteps("forward.last", inputs, {3, 1, 5}), expected;
  size_t width = whole.size() / 18;
  for (int64_t end : {3, 4, 9})
    for (int64_t b : {0, 1})
      expected.insert(expected.end(), whole.begin() + (b * 9 + end - 1) * width, whole.begin() + (b * 9 + end) * width);
  EXPECT_LE(difference(expected, last), 1e-12);
  if (lowered->function("forward.step")) {
    EXPECT_LE(difference(expected, lowered->evaluateSteps("forward.step", inputs, {3, 1, 5})), 1e-12) << "for few rows";
  }
  std::string module = lowered->print();
  std::vector<std::unique_ptr<mlir::Pass>> passes;
  passes.push_back(createOutlineKernelsPass({}));
  passes.push_back(createPlanMemoryPass());
  lowered->run(std::move(passes));
  EXPECT_LE(difference(whole, lowered->evaluateSteps("forward", inputs, {3, 1, 5})), 1e-12) << "as kernels";
  return module;
}

inline std::string attention(const std::string &mask) {
  return specWith("    m = " + mask +
                  "\n    w = softmax[S](where(m, sum[D](x * x[T -> S]), -inf))\n    return sum[S](w * x[T -> S])\n");
}

} // namespace quern::passes::test
#endif
