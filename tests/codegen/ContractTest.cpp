// Contractions: packed weights and plain operands, any number of rows, epilogues, batches.
#include "tests/codegen/Check.h"

using namespace quern::codegen;

static const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 2}}, {{"M", 5}}, {{"M", 6}}, {{"M", 7}}, {{"M", 13}}, {{"M", 101}}};

TEST(Contract, PackedAtAnySize) {
  for (int64_t out : {1, 8, 16, 64, 71, 200})
    for (int64_t in : {1, 33, 64}) {
      GraphMaker g;
      int x = g.argument(Kind::Real, {dim("M"), dim("I", in)});
      int w = g.weight({dim("O", out), dim("I", in)}, out > 64 ? 64 : 16);
      g.yield(g.contract(x, w, {"I"}));
      checkKernel(g.finish("packed"), rows, 1e-5);
    }
}

TEST(Contract, EveryTarget) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    CpuTarget target = cpuTarget(name);
    int64_t tile = target.vector == 16 ? 64 : 2 * target.vector;
    GraphMaker g;
    int x = g.argument(Kind::Real, {dim("M"), dim("I", 40)});
    int w = g.weight({dim("O", 100), dim("I", 40)}, tile);
    g.yield(g.elementwise(Op::Sigmoid, {g.contract(x, w, {"I"})}));
    checkKernel(g.finish("target"), rows, 1e-5, target);
  }
}

TEST(Contract, EpilogueWithBiasActivationAndResidual) {
  GraphMaker g;
  int x = g.argument(Kind::Real, {dim("M"), dim("I", 48)});
  int w = g.weight({dim("O", 96), dim("I", 48)}, 64);
  int bias = g.argument(Kind::Real, {dim("O", 96)}), residual = g.argument(Kind::Real, {dim("M"), dim("O", 96)});
  int y = g.elementwise(Op::Add, {g.contract(x, w, {"I"}), bias});
  int gelu = g.elementwise(Op::Mul, {y, g.elementwise(Op::Add, {g.elementwise(Op::Erf, {g.elementwise(Op::Mul, {y, g.constant(0.7071)})}), g.constant(1)})});
  g.yield(g.elementwise(Op::Add, {residual, gelu}));
  checkKernel(g.finish("epilogue"), rows, 1e-5);
}

TEST(Contract, RowsInTwoDimsIntoAWiderBuffer) { // a cache: more room along T than rows
  GraphMaker g;
  int x = g.argument(Kind::Real, {dim("B"), dim("T"), dim("I", 20)});
  int w = g.weight({dim("O", 32), dim("I", 20)}, 16);
  g.yield(g.contract(x, w, {"I"}), {4096, 32, 1});
  checkKernel(g.finish("wider"), {{{"B", 1}, {"T", 1}}, {{"B", 3}, {"T", 1}}, {{"B", 2}, {"T", 19}}}, 1e-5);
}

TEST(Contract, ResultsThatMayPassTwoGigabytes) { // 64-bit offsets
  GraphMaker g;
  int x = g.argument(Kind::Real, {dim("M"), dim("I", 4)});
  int w = g.weight({dim("O", 20000), dim("I", 4)}, 64);
  g.yield(g.contract(x, w, {"I"}));
  checkKernel(g.finish("large"), {{{"M", 1}}, {{"M", 3}}}, 1e-5);
}

TEST(Contract, StridedInput) {
  GraphMaker g;
  int x = g.argument(Kind::Real, {dim("M"), dim("I", 24)}, {72, 1});
  int w = g.weight({dim("O", 24), dim("I", 24)}, 16);
  g.yield(g.contract(x, w, {"I"}));
  checkKernel(g.finish("strided"), rows, 1e-5);
}

TEST(Contract, StackedWeights) { // experts: each a matrix
  GraphMaker g;
  int x = g.argument(Kind::Real, {dim("M"), dim("I", 24)});
  int w = g.weight({dim("E", 3), dim("O", 40), dim("I", 24)}, 16);
  g.yield(g.contract(x, w, {"I"}));
  checkKernel(g.finish("stacked"), rows, 1e-5);
}

TEST(Contract, TwoActivations) {
  GraphMaker g;
  int a = g.argument(Kind::Real, {dim("B"), dim("T"), dim("H", 3), dim("K", 8)});
  int b = g.argument(Kind::Real, {dim("B"), dim("S"), dim("H", 3), dim("K", 8)});
  g.yield(g.contract(a, b, {"K"}));
  checkKernel(g.finish("scores"), {{{"B", 1}, {"T", 1}, {"S", 1}}, {{"B", 2}, {"T", 9}, {"S", 70}}}, 1e-5);
}

TEST(Contract, SeveralSummedDimsAndNoColumns) {
  GraphMaker g;
  int a = g.argument(Kind::Real, {dim("T"), dim("H", 3), dim("K", 20)}), b = g.argument(Kind::Real, {dim("H", 3), dim("K", 20)});
  int c = g.argument(Kind::Real, {dim("D", 17), dim("H", 3), dim("K", 20)});
  g.yield(g.contract(a, b, {"H", "K"}));
  g.yield(g.contract(a, c, {"H", "K"}));
  checkKernel(g.finish("several"), {{{"T", 1}}, {{"T", 23}}}, 1e-5);
}

TEST(Contract, TwoInOneKernel) {
  GraphMaker g;
  int x = g.argument(Kind::Real, {dim("M"), dim("I", 32)});
  int gate = g.weight({dim("O", 48), dim("I", 32)}, 16), up = g.weight({dim("O", 48), dim("I", 32)}, 16);
  int a = g.contract(x, gate, {"I"}), b = g.contract(x, up, {"I"});
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {a, g.elementwise(Op::Sigmoid, {a})}), b}));
  checkKernel(g.finish("gated"), rows, 1e-5);
}

TEST(Contract, NormBeforeAndRotationAfter) {
  GraphMaker g;
  int x = g.argument(Kind::Real, {dim("T"), dim("D", 32)});
  int w = g.weight({dim("O", 24), dim("D", 32)}, 16);
  int angle = g.argument(Kind::Real, {dim("T"), dim("J", 4)});
  int norm = g.elementwise(Op::Div, {x, g.elementwise(Op::Sqrt, {g.reduce(Reduction::Mean, g.elementwise(Op::Mul, {x, x}), {"D"})})});
  int q = g.split(g.contract(norm, w, {"D"}), "O", {dim("H", 3), dim("K", 8)});
  int a = g.cut(q, "K", 0, dim("J", 4)), b = g.cut(q, "K", 4, dim("J", 4));
  int c = g.elementwise(Op::Cos, {angle}), s = g.elementwise(Op::Sin, {angle});
  int left = g.elementwise(Op::Sub, {g.elementwise(Op::Mul, {a, c}), g.elementwise(Op::Mul, {b, s})});
  int right = g.elementwise(Op::Add, {g.elementwise(Op::Mul, {b, c}), g.elementwise(Op::Mul, {a, s})});
  g.yield(g.concat({left, right}, {"J", "J"}, dim("K", 8)));
  checkKernel(g.finish("rotation"), {{{"T", 1}}, {{"T", 37}}}, 1e-5);
}
