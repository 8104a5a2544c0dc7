// Kernels whose sums run within rows: norms, log-softmax; and chains that mix everything.
#include "tests/codegen/support/Check.h"

using namespace quern::codegen;

static const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}}, {{"B", 2}, {"T", 3}}, {{"B", 1}, {"T", 130}}};

TEST(Rows, LayerNorm) {
  for (int64_t width : {1, 7, 64, 100}) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("D", width)}),
        r = g.argument(Storage::F32, {dim("B"), dim("T"), dim("D", width)});
    int w = g.argument(Storage::F32, {dim("D", width)}), b = g.argument(Storage::F32, {dim("D", width)});
    int h = g.elementwise(Op::Add, {x, r});
    int c = g.elementwise(Op::Sub, {h, g.reduce(Reduction::Mean, h, {"D"})});
    int variance = g.reduce(Reduction::Mean, g.elementwise(Op::Mul, {c, c}), {"D"});
    int y =
        g.elementwise(Op::Div, {c, g.elementwise(Op::Sqrt, {g.elementwise(Op::Add, {variance, g.constant(1e-3)})})});
    g.yield(g.elementwise(Op::Add, {g.elementwise(Op::Mul, {y, w}), b}));
    checkKernel(g.finish("layernorm"), lengths, 1e-5);
  }
}

TEST(Rows, NormOverTwoDims) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("H", 3), dim("K", 8)});
  int s = g.reduce(Reduction::Mean, g.elementwise(Op::Mul, {x, x}), {"H", "K"});
  g.yield(g.elementwise(Op::Div, {x, g.elementwise(Op::Sqrt, {s})}));
  checkKernel(g.finish("norm2"), lengths, 1e-5);
}

/// A norm of ten of a product's columns, which end before its lanes do.
TEST(Rows, NormOfSomeColumns) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("D", 16)}),
      w = g.argument(Storage::F32, {dim("O", 54), dim("D", 16)});
  int latent = g.cut(g.contract(x, w, {"D"}), "O", 40, dim("L", 10));
  int s = g.reduce(Reduction::Mean, g.elementwise(Op::Mul, {latent, latent}), {"L"});
  g.yield(g.elementwise(Op::Div, {latent, g.elementwise(Op::Sqrt, {s})}));
  checkKernel(g.finish("latent"), {{{"T", 1}}, {{"T", 40}}}, 1e-5);
}

TEST(Rows, LogSoftmaxGathered) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("V", 7)}), labels = g.argument(Storage::I32, {dim("T")});
  int c = g.elementwise(Op::Sub, {x, g.reduce(Reduction::Max, x, {"V"})});
  int logs = g.elementwise(Op::Sub,
                           {c, g.elementwise(Op::Log, {g.reduce(Reduction::Sum, g.elementwise(Op::Exp, {c}), {"V"})})});
  g.yield(g.gather(logs, labels, "V"));
  checkKernel(g.finish("logsoftmax"), {{{"T", 1}}, {{"T", 40}}}, 1e-5);
}

TEST(Rows, ArgmaxOfASoftmax) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("V", 50)});
  g.yield(g.argmax(g.softmax(x, {"V"}), "V"));
  checkKernel(g.finish("choice"), {{{"T", 1}}, {{"T", 40}}});
}

TEST(Rows, TopKOfRouterScores) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("E", 8)});
  auto [values, positions] = g.topK(g.softmax(x, {"E"}), "E", dim("C", 2));
  g.yield(g.elementwise(Op::Div, {values, g.reduce(Reduction::Sum, values, {"C"})}));
  g.yield(positions);
  checkKernel(g.finish("router"), {{{"T", 1}}, {{"T", 40}}});
}
