// Contractions: packed weights and plain operands, any number of rows, epilogues, batches.
#include "tests/codegen/support/Check.h"

using namespace quern::codegen;

static const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 2}},  {{"M", 5}},  {{"M", 6}},
                                          {{"M", 7}}, {{"M", 13}}, {{"M", 101}}};

TEST(Contract, PackedAtAnySize) {
  for (int64_t out : {1, 8, 16, 64, 71, 200})
    for (int64_t in : {1, 33, 64}) {
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("I", in)});
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
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 40)});
    int w = g.weight({dim("O", 100), dim("I", 40)}, tile);
    g.yield(g.elementwise(Op::Sigmoid, {g.contract(x, w, {"I"})}));
    checkKernel(g.finish("target"), rows, 1e-5, target);
  }
}

TEST(Contract, StreamsOfARowByItself) { // columns of several tasks
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"})
    for (Storage storage : {Storage::F32, Storage::BF16}) {
      CpuTarget target = cpuTarget(name);
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), dim("I", 40)});
      int w =
          g.weight({dim("H", 3), dim("O", 256), dim("I", 40)}, target.vector == 16 ? 64 : 2 * target.vector, storage);
      int real = storage == Storage::F32 ? w : g.elementwise(Op::Widen, {w});
      g.yield(g.elementwise(Op::Sigmoid, {g.contract(x, real, {"I"})}));
      checkKernel(g.finish("streams"), {{{"M", 1}}, {{"M", 2}}, {{"M", 7}}}, 1e-5, target);
    }
}

TEST(Contract, EpilogueWithBiasActivationAndResidual) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 48)});
  int w = g.weight({dim("O", 96), dim("I", 48)}, 64);
  int bias = g.argument(Storage::F32, {dim("O", 96)}), residual = g.argument(Storage::F32, {dim("M"), dim("O", 96)});
  int y = g.elementwise(Op::Add, {g.contract(x, w, {"I"}), bias});
  int gelu = g.elementwise(
      Op::Mul, {y, g.elementwise(Op::Add, {g.elementwise(Op::Erf, {g.elementwise(Op::Mul, {y, g.constant(0.7071)})}),
                                           g.constant(1)})});
  g.yield(g.elementwise(Op::Add, {residual, gelu}));
  checkKernel(g.finish("epilogue"), rows, 1e-5);
}

TEST(Contract, ResidualInPlace) { // at widths and lengths that no tile divides, packed and as it is stored
  for (bool packed : {true, false})
    for (int64_t out : {20, 71, 200}) {
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("I", 40)});
      int w = packed ? g.weight({dim("O", out), dim("I", 40)}, out > 64 ? 64 : 16)
                     : g.argument(Storage::F32, {dim("I", 40), dim("O", out)});
      int residual = g.argument(Storage::F32, {dim("M"), dim("O", out)});
      g.yield(g.elementwise(Op::Add, {residual, g.contract(x, w, {"I"})}));
      KernelGraph &graph = g.finish("in_place");
      ASSERT_EQ(inPlaceArguments(graph), std::vector<int>{residual});
      checkKernel(graph, rows, 1e-5);
    }
}

TEST(Contract, RowsInTwoDimsIntoAWiderBuffer) { // a cache: more room along T than rows
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("I", 20)});
  int w = g.weight({dim("O", 32), dim("I", 20)}, 16);
  g.yield(g.contract(x, w, {"I"}), {4096, 32, 1});
  checkKernel(g.finish("wider"), {{{"B", 1}, {"T", 1}}, {{"B", 3}, {"T", 1}}, {{"B", 2}, {"T", 19}}}, 1e-5);
}

TEST(Contract, ResultsThatMayPassTwoGigabytes) { // 64-bit offsets
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 4)});
  int w = g.weight({dim("O", 20000), dim("I", 4)}, 64);
  g.yield(g.contract(x, w, {"I"}));
  checkKernel(g.finish("large"), {{{"M", 1}}, {{"M", 3}}}, 1e-5);
}

TEST(Contract, StridedInput) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 24)}, {72, 1});
  int w = g.weight({dim("O", 24), dim("I", 24)}, 16);
  g.yield(g.contract(x, w, {"I"}));
  checkKernel(g.finish("strided"), rows, 1e-5);
}

TEST(Contract, StackedWeights) { // experts: each a matrix
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 24)});
  int w = g.weight({dim("E", 3), dim("O", 40), dim("I", 24)}, 16);
  g.yield(g.contract(x, w, {"I"}));
  checkKernel(g.finish("stacked"), rows, 1e-5);
}

TEST(Contract, TwoActivations) {
  GraphMaker g;
  int a = g.argument(Storage::F32, {dim("B"), dim("T"), dim("H", 3), dim("K", 8)});
  int b = g.argument(Storage::F32, {dim("B"), dim("S"), dim("H", 3), dim("K", 8)});
  g.yield(g.contract(a, b, {"K"}));
  checkKernel(g.finish("scores"), {{{"B", 1}, {"T", 1}, {"S", 1}}, {{"B", 2}, {"T", 9}, {"S", 70}}}, 1e-5);
}

TEST(Contract, SeveralSummedDimsAndNoColumns) {
  GraphMaker g;
  int a = g.argument(Storage::F32, {dim("T"), dim("H", 3), dim("K", 20)}),
      b = g.argument(Storage::F32, {dim("H", 3), dim("K", 20)});
  int c = g.argument(Storage::F32, {dim("D", 17), dim("H", 3), dim("K", 20)});
  g.yield(g.contract(a, b, {"H", "K"}));
  g.yield(g.contract(a, c, {"H", "K"}));
  checkKernel(g.finish("several"), {{{"T", 1}}, {{"T", 23}}}, 1e-5);
}

/// A state space model as attention: what is left of each operand is shared, so nothing is read twice.
TEST(Contract, NothingIsPackedWithoutRows) {
  GraphMaker g;
  int a = g.argument(Storage::F32, {dim("B"), dim("T"), dim("H", 3), dim("N", 5), dim("S")});
  int x = g.argument(Storage::F32, {dim("B"), dim("S"), dim("H", 3)});
  g.yield(g.contract(a, x, {"S", "N"}));
  KernelGraph &graph = g.finish("shared");
  std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}, {"S", 1}}, {{"B", 2}, {"T", 33}, {"S", 40}}};
  checkKernel(graph, lengths, 2e-5);
  for (const char *name : {"x86-64-v3", "native"}) {
    KernelRunner runner(graph, cpuTarget(name));
    Lengths large = {{"B", 1}, {"T", 1024}, {"S", 1024}};
    int64_t operand = 4 * 1024 * 1024 * 3 * 5;
    EXPECT_LT(bytesOf(runner.scratch(), [&](const std::string &symbol) { return large.at(symbol); }).caller,
              operand / 10)
        << name;
  }
}

TEST(Contract, TwoInOneKernel) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 32)});
  int gate = g.weight({dim("O", 48), dim("I", 32)}, 16), up = g.weight({dim("O", 48), dim("I", 32)}, 16);
  int a = g.contract(x, gate, {"I"}), b = g.contract(x, up, {"I"});
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {a, g.elementwise(Op::Sigmoid, {a})}), b}));
  checkKernel(g.finish("gated"), rows, 1e-5);
}

TEST(Contract, NormBeforeAndRotationAfter) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("D", 32)});
  int w = g.weight({dim("O", 24), dim("D", 32)}, 16);
  int angle = g.argument(Storage::F32, {dim("T"), dim("J", 4)});
  int norm = g.elementwise(
      Op::Div, {x, g.elementwise(Op::Sqrt, {g.reduce(Reduction::Mean, g.elementwise(Op::Mul, {x, x}), {"D"})})});
  int q = g.split(g.contract(norm, w, {"D"}), "O", {dim("H", 3), dim("K", 8)});
  int a = g.cut(q, "K", 0, dim("J", 4)), b = g.cut(q, "K", 4, dim("J", 4));
  int c = g.elementwise(Op::Cos, {angle}), s = g.elementwise(Op::Sin, {angle});
  int left = g.elementwise(Op::Sub, {g.elementwise(Op::Mul, {a, c}), g.elementwise(Op::Mul, {b, s})});
  int right = g.elementwise(Op::Add, {g.elementwise(Op::Mul, {b, c}), g.elementwise(Op::Mul, {a, s})});
  g.yield(g.concat({left, right}, {"J", "J"}, dim("K", 8)));
  checkKernel(g.finish("rotation"), {{{"T", 1}}, {{"T", 37}}}, 1e-5);
}

TEST(Contract, GateAndUpInOneWeight) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 32)});
  int w = g.weight({dim("U", 2), dim("O", 71), dim("I", 32)}, 16);
  int both = g.contract(x, w, {"I"});
  int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
  g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {gate, g.elementwise(Op::Sigmoid, {gate})}), up}));
  checkKernel(g.finish("gated"), rows, 1e-5);
}

TEST(Contract, PartsThatGoDifferentWays) { // after a norm; one rotated, one into a wider buffer, one as it is
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("D", 32)});
  int w = g.weight({dim("O", 40), dim("D", 32)}, 8);
  int norm = g.elementwise(
      Op::Div, {x, g.elementwise(Op::Sqrt, {g.reduce(Reduction::Mean, g.elementwise(Op::Mul, {x, x}), {"D"})})});
  int all = g.contract(norm, w, {"D"});
  int q = g.cut(all, "O", 0, dim("Q", 24)), k = g.cut(all, "O", 24, dim("K", 8)), v = g.cut(all, "O", 32, dim("V", 8));
  int a = g.cut(k, "K", 0, dim("J", 4)), b = g.cut(k, "K", 4, dim("J", 4));
  g.yield(g.elementwise(Op::Tanh, {q}));
  g.yield(g.concat({g.elementwise(Op::Neg, {b}), a}, {"J", "J"}, dim("K", 8)), {64, 1});
  g.yield(v);
  checkKernel(g.finish("parts"), {{{"T", 1}}, {{"T", 37}}, {{"T", 400}}}, 1e-5);
}

TEST(Contract,
     MaskOfPositionsBehindIt) { // Halide once concluded from the mask that fewer rows are needed than a tile has
  GraphMaker g;
  int q = g.argument(Storage::F32, {dim("T"), dim("K", 16)}), k = g.argument(Storage::F32, {dim("S"), dim("K", 16)});
  int before = g.compare(Predicate::Le, g.index(dim("S")), g.index(dim("T")));
  int scores = g.contract(q, k, {"K"});
  g.yield(g.elementwise(Op::Where, {before, scores, g.constant(-5)}));
  checkKernel(g.finish("masked"),
              {{{"T", 1}, {"S", 1}}, {{"T", 128}, {"S", 128}}, {{"T", 90}, {"S", 200}}, {{"T", 300}, {"S", 70}}}, 1e-5);
}

TEST(Contract, WeightsAsTheyLie) { // stored either way round, at depths of less than a part, whole parts and more
  for (int64_t out : {5, 71})
    for (int64_t in : {33, 1024, 1100}) {
      double tolerance = in > 1000 ? 1e-4 : 1e-5; // of sums of more terms
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("I", in)});
      int a = g.argument(Storage::F32, {dim("O", out), dim("I", in)});
      g.yield(g.contract(x, a, {"I"}));
      checkKernel(g.finish("rows"), rows, tolerance);
      GraphMaker h;
      x = h.argument(Storage::F32, {dim("M"), dim("I", in)});
      int c = h.argument(Storage::F32, {dim("I", in), dim("P", out)});
      h.yield(h.elementwise(Op::Tanh, {h.contract(x, c, {"I"})}));
      checkKernel(h.finish("columns"), rows, tolerance);
    }
}

TEST(Contract, SumsOverAllTokens) { // the gradient of a weight, either way round
  for (bool transposed : {false, true}) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 70)}), dy = g.argument(Storage::F32, {dim("M"), dim("O", 90)});
    int sum = g.contract(x, dy, {"M"});
    g.yield(transposed ? g.permute(sum, {"O", "I"}) : sum);
    checkKernel(g.finish("weight"), {{{"M", 1}}, {{"M", 7}}, {{"M", 256}}, {{"M", 512}}, {{"M", 513}}, {{"M", 1500}}},
                2e-5);
  }
}

TEST(Contract, SumsOverTwoDimsOfRunTime) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("I", 20)}),
      dy = g.argument(Storage::F32, {dim("B"), dim("T"), dim("O", 40)});
  g.yield(g.contract(x, dy, {"B", "T"}));
  checkKernel(g.finish("two"), {{{"B", 1}, {"T", 1}}, {{"B", 3}, {"T", 70}}, {{"B", 2}, {"T", 600}}}, 2e-5);
}

TEST(Contract, HeadsOfWeightsAsTheyLie) { // a batch of products, few and many rows of each
  GraphMaker g;
  int a = g.argument(Storage::F32, {dim("B"), dim("T"), dim("H", 3), dim("S")});
  int v = g.argument(Storage::F32, {dim("B"), dim("S"), dim("H", 3), dim("K", 24)});
  g.yield(g.contract(a, v, {"S"}));
  checkKernel(g.finish("heads"),
              {{{"B", 1}, {"T", 1}, {"S", 1}}, {{"B", 2}, {"T", 9}, {"S", 70}}, {{"B", 2}, {"T", 400}, {"S", 600}}},
              2e-5);
}

TEST(Contract,
     AWeightForEachHead) { // absorbed latents: few rows read it where it is stored, either way round, more rows pack it
  for (int64_t wide : {5, 72})
    for (int64_t deep : {7, 64})
      for (bool depthLast : {false, true}) {
        GraphMaker g;
        int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), dim("I", deep)}),
            bias = g.argument(Storage::F32, {dim("H", 3), dim("O", wide)});
        int w = depthLast ? g.argument(Storage::F32, {dim("H", 3), dim("O", wide), dim("I", deep)})
                          : g.argument(Storage::F32, {dim("H", 3), dim("I", deep), dim("O", wide)});
        g.yield(g.elementwise(Op::Add, {g.contract(x, w, {"I"}), bias}));
        checkKernel(g.finish("head"), {{{"M", 1}}, {{"M", 2}}, {{"M", 8}}, {{"M", 9}}, {{"M", 100}}, {{"M", 800}}},
                    1e-5);
      }
}

TEST(Contract, AWeightForEachHeadAndGroup) { // two such dimensions, two summed ones
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("G", 2), dim("H", 3), dim("I", 6), dim("J", 9)});
  int w = g.argument(Storage::F32, {dim("G", 2), dim("H", 3), dim("O", 20), dim("I", 6), dim("J", 9)});
  g.yield(g.contract(x, w, {"I", "J"}));
  checkKernel(g.finish("groups"), {{{"M", 1}}, {{"M", 5}}, {{"M", 40}}}, 1e-5);
}

TEST(Contract, RowsThatTokensLookedUpAreAdded) { // a tied matrix
  GraphMaker g;
  int dy = g.argument(Storage::F32, {dim("M"), dim("V", 50)}), h = g.argument(Storage::F32, {dim("M"), dim("D", 33)});
  int ds = g.argument(Storage::F32, {dim("M"), dim("D", 33)}), at = g.argument(Storage::I32, {dim("M")});
  g.yield(g.elementwise(Op::Add, {g.contract(dy, h, {"M"}), g.scatterAdd(ds, at, {"M"}, dim("V", 50))}));
  checkKernel(g.finish("tied"), {{{"M", 1}}, {{"M", 64}}, {{"M", 700}}}, 2e-5);
}

/// Of a product a part alone is read, which does not begin where its tiles do: columns, rows; x + (W x)[K = 1].
TEST(Contract, ReadInPart) {
  for (bool packed : {true, false}) {
    SCOPED_TRACE(packed ? "packed" : "as it is stored");
    GraphMaker g;
    Dim d = dim("D", 18);
    int x = g.argument(Storage::F32, {dim("M"), d}),
        w = packed ? g.weight({dim("O", 72), d}, 16) : g.argument(Storage::F32, {d, dim("O", 72)});
    int both = g.split(g.contract(x, w, {"D"}), "O", {d, dim("K", 4)});
    g.yield(g.elementwise(Op::Add, {x, g.squeeze(g.cut(both, "K", quern::ir::Size(1), dim("P", 1)), "P")}));
    checkKernel(g.finish("columns"), rows, 1e-5);
  }
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 50)}), y = g.argument(Storage::F32, {dim("M"), dim("O", 40)});
  g.yield(g.cut(g.contract(x, y, {"M"}), "I", quern::ir::Size(3), dim("J", 20)));
  checkKernel(g.finish("rows"), rows, 1e-5);
}
