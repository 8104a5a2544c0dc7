// The update functions in the reference interpreter, beside the formulas written out by hand.
#include "passes/Passes.h"
#include "tests/passes/Support.h"

#include <cmath>

using namespace quern::ir;
using namespace quern::passes;
using namespace quern::passes::test;

namespace {

struct Numbers {
  std::vector<double> p = {0.5, -1.25, 2, 0}, g = {0.1, -0.3, 0, 4}, m = {0.2, 0, -0.5, 1}, v = {0.04, 0, 0.25, 2};
  double rate = 0.01, scale = 0.5, decay = 0.1, momentum = 0.9, beta1 = 0.8, beta2 = 0.95, epsilon = 1e-8;
  double correct1 = 1 / (1 - 0.8 * 0.8), correct2 = 1 / (1 - 0.95 * 0.95);
};

class Optimizers : public testing::Test {
protected:
  Optimizers() : program("module attributes {quern.train} {\n}") {
    std::vector<std::unique_ptr<mlir::Pass>> passes;
    passes.push_back(createOptimizersPass());
    program.run(std::move(passes));
  }

  /// All results one after the other.
  std::vector<double> run(llvm::StringRef name) {
    mlir::func::FuncOp function = program.function(name);
    std::map<std::string, double> plain = {
        {"rate", n.rate},         {"scale", n.scale},       {"decay", n.decay},
        {"momentum", n.momentum}, {"beta1", n.beta1},       {"beta2", n.beta2},
        {"epsilon", n.epsilon},   {"correct1", n.correct1}, {"correct2", n.correct2}};
    std::map<std::string, std::vector<double>> tensors = {{"p", n.p}, {"g", n.g}, {"m", n.m}, {"v", n.v}, {"a", n.p}};
    Interpreter::Inputs inputs;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      std::string label = function.getArgAttrOfType<mlir::StringAttr>(i, "quern.name").getValue().str();
      if (tensors.count(label))
        inputs[label] = Array({{"E", 4}}, tensors[label]);
      else
        inputs[label] = Array(std::vector<NamedSize>(), {plain.at(label)});
    }
    Interpreter interpreter(program.module());
    auto results = interpreter.run(function, inputs);
    std::vector<double> numbers;
    if (failed(results)) {
      ADD_FAILURE() << name.str();
      return numbers;
    }
    for (const Array &result : *results)
      for (int64_t i = 0; i < result.getCount(); ++i)
        numbers.push_back(result.number(i));
    return numbers;
  }

  void expectNear(const std::vector<double> &got, const std::vector<double> &want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 1e-14) << i;
  }

  Program program;
  Numbers n;
};

TEST_F(Optimizers, Sgd) {
  std::vector<double> want;
  for (size_t i = 0; i < 4; ++i)
    want.push_back(n.p[i] - n.rate * (n.g[i] * n.scale + n.decay * n.p[i]));
  expectNear(run("update.sgd"), want);
}

TEST_F(Optimizers, Momentum) {
  for (bool nesterov : {false, true}) {
    std::vector<double> p, m;
    for (size_t i = 0; i < 4; ++i) {
      double g = n.g[i] * n.scale + n.decay * n.p[i];
      m.push_back(n.momentum * n.m[i] + g);
      p.push_back(n.p[i] - n.rate * (nesterov ? g + n.momentum * m[i] : m[i]));
    }
    p.insert(p.end(), m.begin(), m.end());
    expectNear(run(nesterov ? "update.nesterov" : "update.momentum"), p);
  }
}

TEST_F(Optimizers, Adam) {
  for (bool decoupled : {false, true}) {
    std::vector<double> p, m, v;
    for (size_t i = 0; i < 4; ++i) {
      double g = n.g[i] * n.scale + (decoupled ? 0 : n.decay * n.p[i]);
      m.push_back(n.beta1 * n.m[i] + (1 - n.beta1) * g);
      v.push_back(n.beta2 * n.v[i] + (1 - n.beta2) * g * g);
      double shrunk = decoupled ? n.p[i] * (1 - n.rate * n.decay) : n.p[i];
      p.push_back(shrunk - n.rate * (m[i] * n.correct1) / (std::sqrt(v[i] * n.correct2) + n.epsilon));
    }
    p.insert(p.end(), m.begin(), m.end());
    p.insert(p.end(), v.begin(), v.end());
    expectNear(run(decoupled ? "update.adamw" : "update.adam"), p);
  }
}

TEST_F(Optimizers, Gradients) {
  expectNear(run("gradient.squares"), {0.1 * 0.1 + 0.3 * 0.3 + 16});
  expectNear(run("gradient.add"), {0.5 + 0.05, -1.25 - 0.15, 2, 2});
}

} // namespace
