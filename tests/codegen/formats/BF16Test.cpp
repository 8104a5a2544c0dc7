// Kernels of every family that read or write bf16.
#include "codegen/kernel/AttentionGradient.h"
#include "tests/codegen/support/Check.h"

#include <limits>

using namespace quern::codegen;
using quern::ir::Size;

namespace {

/// A result in bf16 may fall to the other side of a rounding: one step of 2^-8.
constexpr double step = 0.00391;
const std::vector<Lengths> rows = {{{"M", 1}}, {{"M", 7}}, {{"M", 13}}, {{"M", 101}}};

struct Maker : GraphMaker {
  int stored(std::vector<Dim> dims, std::vector<std::optional<int64_t>> strides = {}) {
    return argument(Storage::BF16, dims, strides);
  }
  int widen(int x) { return elementwise(Op::Widen, {x}); }
  int narrow(int x) { return elementwise(Op::Narrow, {x}); }
};

} // namespace

TEST(BF16, RoundsToTheNearest) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> all = {0,
                             -0.0,
                             1,
                             1 + 0x1p-8,
                             1 + 3 * 0x1p-8,
                             1 + 0x1p-8 + 0x1p-20,
                             -1 - 0x1p-8,
                             0.1f,
                             -3.3e38f,
                             3.4028234e38f,
                             inf,
                             -inf,
                             nan,
                             1e-30f,
                             65535,
                             7.5f,
                             1e20f};
  Maker g;
  int x = g.argument(Storage::F32, {dim("N", all.size())});
  int n = g.narrow(x);
  g.yield(n);
  g.yield(g.elementwise(Op::Mul, {g.widen(n), g.constant(2)}));
  std::vector<DenseTensor> given = {{{int64_t(all.size())}, all}};
  checkKernel(g.finish("narrow"), {{}}, 0, cpuTarget("native"), &given);
}

TEST(BF16, EveryTarget) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    Maker g;
    int x = g.stored({dim("M"), dim("D", 37)});
    g.yield(g.narrow(g.elementwise(Op::Mul, {g.widen(x), g.constant(1.5)})));
    checkKernel(g.finish("target"), rows, step, cpuTarget(name));
  }
}

TEST(BF16, MovesAndGathers) {
  Maker g;
  int x = g.stored({dim("M"), dim("A", 6), dim("K", 20)}), table = g.stored({dim("V", 7), dim("K", 20)});
  int positions = g.argument(Storage::I32, {dim("M")});
  int cut = g.cut(x, "A", Size(2), dim("C", 3)), other = g.cut(x, "A", Size(0), dim("E", 2));
  g.yield(g.permute(cut, {"K", "M", "C"}));
  g.yield(g.concat({cut, other}, {"C", "E"}, dim("N", 5)));
  g.yield(g.gather(table, positions, "V"));
  g.yield(g.merge(g.split(x, "A", {dim("F", 2), dim("G", 3)}), {"G", "K"}, dim("H", 60)));
  checkKernel(g.finish("moves"), rows, 0);
}

TEST(BF16, LookedUpAndScattered) {
  Maker g;
  int table = g.stored({dim("V", 9), dim("K", 20)}), positions = g.argument(Storage::I32, {dim("M")}),
      x = g.stored({dim("M"), dim("K", 20)});
  int scale = g.argument(Storage::F32, {dim("K", 20)});
  g.yield(g.elementwise(Op::Mul, {g.widen(g.gather(table, positions, "V")), scale}));
  checkKernel(g.finish("lookup"), rows);
  Maker s;
  positions = s.argument(Storage::I32, {dim("M")}), x = s.stored({dim("M"), dim("K", 20)});
  s.yield(s.scatterAdd(s.widen(x), positions, {"M"}, dim("V", 9)));
  checkKernel(s.finish("scatter"), rows, 1e-5);
}

TEST(BF16, Rows) { // a norm of what is kept narrow, its result narrow too
  Maker g;
  int x = g.widen(g.stored({dim("M"), dim("D", 72)})), mean = g.reduce(Reduction::Mean, x, {"D"});
  int centred = g.elementwise(Op::Sub, {x, mean});
  int variance = g.reduce(Reduction::Mean, g.elementwise(Op::Mul, {centred, centred}), {"D"});
  int root = g.elementwise(Op::Sqrt, {g.elementwise(Op::Add, {variance, g.constant(1e-5)})});
  g.yield(g.narrow(g.elementwise(Op::Div, {centred, root})));
  checkKernel(g.finish("norm"), rows, step);
  Maker s;
  int y = s.widen(s.stored({dim("M"), dim("D", 72)}));
  s.yield(s.reduce(Reduction::Sum, y, {"M"}));
  s.yield(s.softmax(y, {"D"}));
  checkKernel(s.finish("sums"), rows, 1e-5);
}

/// Rows of a batch, whose number is a product of lengths: alone, a few together, and many.
TEST(BF16, FewRowsOfABatch) {
  const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}}, {{"B", 2}, {"T", 1}}, {{"B", 1}, {"T", 4}},
                                        {{"B", 7}, {"T", 1}}, {{"B", 2}, {"T", 4}}, {{"B", 3}, {"T", 4}}};
  Dim rows = dim("M", Size::symbol("B") * Size::symbol("T")), i = dim("I", 160), o = dim("O", 200);
  for (bool apart : {false, true}) { // what is computed from the product fits no tile of it
    Maker g;
    int x = g.argument(Storage::F32, {rows, i}), w = g.weight({o, i}, 32, Storage::BF16);
    int y = g.contract(x, g.widen(w), {"I"});
    g.yield(apart ? g.softmax(y, {"O"}) : y);
    checkKernel(g.finish("few"), lengths, 1e-5);
  }
}

/// Products as forward and backward passes have them: weights stored either way, sums over the rows.
TEST(BF16, Products) {
  struct Form {
    const char *what;
    std::vector<Dim> x, w;
    std::string over;
  };
  Dim m = dim("M"), i = dim("I", 300), o = dim("O", 71), wide = dim("O", 200);
  for (const Form &form : {Form{"x w[O, I]", {m, i}, {o, i}, "I"}, Form{"x w[I, O]", {m, i}, {i, wide}, "I"},
                           Form{"g w", {m, wide}, {wide, i}, "O"}, Form{"dw", {m, i}, {m, o}, "M"},
                           Form{"two row dims", {dim("B", 2), m, i}, {i, wide}, "I"},
                           Form{"parts of an odd depth", {m, dim("D", 777)}, {o, dim("D", 777)}, "D"}})
    for (int which : {1, 2, 3}) {
      if (which < 3 && form.over != "O") // each alone in one form, both in all
        continue;
      Maker g;
      int x = g.argument(which & 1 ? Storage::BF16 : Storage::F32, form.x),
          w = g.argument(which & 2 ? Storage::BF16 : Storage::F32, form.w);
      x = which & 1 ? g.widen(x) : x, w = which & 2 ? g.widen(w) : w;
      g.yield(g.contract(x, w, {form.over}));
      SCOPED_TRACE(std::string(form.what) + " " + std::to_string(which));
      checkKernel(g.finish("product"), rows, 1e-5);
    }
}

/// Rows and a packed weight, both in bf16: in pairs where the target has an instruction for it. Of such rows, and of
/// such as the kernel rounds; a single row; a depth that is odd; matrices beside each other; columns that fill no tile.
TEST(BF16, ProductsInPairs) {
  for (const char *name : {"znver4", "x86-64-v3"}) {
    CpuTarget target = cpuTarget(name);
    SCOPED_TRACE(name);
    for (int64_t depth : {64, 33})
      for (bool rounded : {false, true}) {
        Maker g;
        Dim m = dim("M"), i = dim("I", depth);
        int from = g.argument(rounded ? Storage::F32 : Storage::BF16, {m, i}),
            w = g.weight({dim("O", 100), i}, 4 * target.vector, Storage::BF16),
            x = rounded ? g.narrow(g.elementwise(Op::Tanh, {from})) : from;
        g.yield(g.elementwise(Op::Tanh, {g.contract(g.widen(x), g.widen(w), {"I"})}));
        checkKernel(g.finish("pairs"), rows, rounded ? step : 1e-5, target);
      }
    Maker heads;
    int x = heads.stored({dim("M"), dim("H", 3), dim("I", 48)}),
        w = heads.weight({dim("H", 3), dim("O", 40), dim("I", 48)}, 16, Storage::BF16);
    heads.yield(heads.contract(heads.widen(x), heads.widen(w), {"I"}));
    checkKernel(heads.finish("heads"), rows, 1e-5, target);
  }
}

TEST(BF16, EpilogueAndPrologue) {
  Maker g;
  int x = g.stored({dim("M"), dim("I", 48)}), w = g.stored({dim("I", 48), dim("O", 96)}),
      bias = g.argument(Storage::F32, {dim("O", 96)});
  int y = g.elementwise(Op::Add, {g.contract(g.widen(x), g.widen(w), {"I"}), bias});
  int h = g.narrow(y);
  g.yield(h);
  checkKernel(g.finish("epilogue"), rows, step);

  Maker p; // what is narrowed and read within one kernel is rounded all the same
  x = p.stored({dim("M"), dim("I", 48)}), w = p.stored({dim("I", 48), dim("O", 96)});
  int gelu = p.elementwise(Op::Mul, {p.widen(x), p.elementwise(Op::Sigmoid, {p.widen(x)})});
  p.yield(p.contract(p.widen(p.narrow(gelu)), p.widen(w), {"I"}));
  checkKernel(p.finish("prologue"), rows, step);
}

TEST(
    BF16,
    RoundedWhereRead) { // real in memory, and who reads it rounds: rows, columns, rows side by side, and an attention's keys
  Dim m = dim("M"), i = dim("I", 300), o = dim("O", 71);
  Maker g;
  int x = g.argument(Storage::F32, {m, i}), w = g.argument(Storage::F32, {o, i});
  g.yield(g.contract(g.widen(g.narrow(x)), g.widen(g.narrow(w)), {"I"}));
  checkKernel(g.finish("product"), rows, 1e-5);
  Maker s;
  x = s.argument(Storage::F32, {m, i}), w = s.stored({m, o});
  int n = s.widen(s.narrow(x));
  s.yield(s.contract(n, s.widen(w), {"M"}));
  s.yield(s.elementwise(Op::Mul, {n, s.constant(3)}));
  checkKernel(s.finish("sums over rows"), rows, 1e-5);
  Maker a;
  Dim B = dim("B"), T = dim("T"), S = dim("S", Size::symbol("T")), G = dim("G", 2), K = dim("K", 16);
  int q = a.argument(Storage::F32, {B, T, G, K}), k = a.argument(Storage::F32, {B, S, G, K}),
      v = a.argument(Storage::F32, {B, S, G, K});
  auto rounded = [&](int value) { return a.widen(a.narrow(value)); };
  a.yield(a.narrow(a.attention(a.contract(rounded(q), rounded(k), {"K"}), rounded(v), "S")));
  checkKernel(a.finish("attention"), {{{"B", 2}, {"T", 7}}, {{"B", 1}, {"T", 70}}}, step);
}

TEST(BF16, ViewsOfWhatIsKept) { // queries out of one product's result, and a vector
  Maker g;
  int x = g.stored({dim("M"), dim("I", 48)}, {144, 1}), w = g.stored({dim("H", 3), dim("K", 16), dim("O", 40)}),
      v = g.stored({dim("I", 48)});
  int split = g.split(g.widen(x), "I", {dim("H", 3), dim("K", 16)});
  g.yield(g.contract(split, g.widen(w), {"H", "K"}));
  g.yield(g.contract(g.widen(x), g.widen(v), {"I"}));
  checkKernel(g.finish("views"), rows, 1e-5);
}

/// Routed weights stored either way, in bf16 or in f32, and rows that are one or the other; several choices a row.
TEST(BF16, Experts) {
  for (bool transposed : {false, true})
    for (int which : {1, 2, 3}) {
      if (which == 1 && transposed)
        continue;
      Maker g;
      Dim m = dim("M"), i = dim("I", transposed ? 300 : 33), o = dim("O", 71), e = dim("E", 3);
      int x = g.argument(which & 1 ? Storage::BF16 : Storage::F32, {m, i});
      int w = g.argument(which & 2 ? Storage::BF16 : Storage::F32,
                         transposed ? std::vector<Dim>{e, i, o} : std::vector<Dim>{e, o, i});
      int picked = g.gather(w, g.argument(Storage::I32, {m, dim("C", 2)}), "E");
      int y = g.contract(which & 1 ? g.widen(x) : x, which & 2 ? g.widen(picked) : picked, {"I"});
      g.yield(which == 3 ? g.narrow(y) : y);
      SCOPED_TRACE(std::to_string(transposed) + " " + std::to_string(which));
      checkKernel(g.finish("experts"), rows, which == 3 ? step : 1e-5);
    }
  Maker p; // packed, as a program that only generates has them
  int x = p.stored({dim("M"), dim("I", 33)}), w = p.weight({dim("E", 3), dim("O", 71), dim("I", 33)}, 64);
  int experts = p.argument(Storage::I32, {dim("M"), dim("C", 2)});
  p.yield(p.contract(p.widen(x), p.gather(w, experts, "E"), {"I"}));
  checkKernel(p.finish("packed experts"), rows, 1e-5);
}

TEST(BF16, PackedWeights) { // a row by itself, and tiles of rows that share a strip in f32
  for (bool stacked : {false, true}) {
    Maker g;
    Dim h = dim("H", 3);
    std::vector<Dim> x = {dim("M"), dim("I", 75)}, w = {dim("O", 71), dim("I", 75)};
    if (stacked)
      x.insert(x.begin(), h), w.insert(w.begin(), h);
    int from = g.argument(Storage::F32, x), weight = g.weight(w, 16, Storage::BF16);
    g.yield(g.elementwise(Op::Tanh, {g.contract(from, g.widen(weight), {"I"})}));
    checkKernel(g.finish("packed"), rows, 1e-5);
  }
}

/// Also where nothing multiplies it: numbers of an even depth stand in words, those of an odd one alone.
TEST(BF16, PackedWeightsAreReadAnywhere) {
  for (int64_t depth : {10, 11}) {
    SCOPED_TRACE(depth);
    Maker whole;
    int w = whole.weight({dim("O", 21), dim("I", depth)}, 16, Storage::BF16);
    whole.yield(whole.permute(whole.elementwise(Op::Tanh, {whole.widen(w)}), {"I", "O"}));
    checkKernel(whole.finish("whole"), {{}}, 1e-6);
    Maker picked;
    w = picked.weight({dim("O", 21), dim("I", depth)}, 16, Storage::BF16);
    picked.yield(picked.widen(picked.gather(w, picked.argument(Storage::I32, {dim("M")}), "O")));
    checkKernel(picked.finish("picked"), rows, 0);
  }
}

TEST(BF16, GradientsOfExperts) {
  for (int which : {1, 2, 3}) {
    Maker g;
    Dim m = dim("M"), c = dim("C", 2), o = dim("O", 40), i = dim("I", 70);
    int dy = g.argument(which & 1 ? Storage::BF16 : Storage::F32, {m, c, o}),
        x = g.argument(which & 2 ? Storage::BF16 : Storage::F32, {m, i});
    int chosen = g.argument(Storage::I32, {m, c});
    dy = g.widen(which & 1 ? dy : g.narrow(dy)), x = which & 2 ? g.widen(x) : x;
    g.yield(g.permute(g.scatterAdd(g.elementwise(Op::Mul, {dy, x}), chosen, {"M", "C"}, dim("E", 5)), {"E", "O", "I"}));
    SCOPED_TRACE(which);
    checkKernel(g.finish("experts' gradient"), {{{"M", 1}}, {{"M", 7}}, {{"M", 40}}}, 1e-5);
  }
}

TEST(BF16, Attention) {
  const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}}, {{"B", 2}, {"T", 7}}, {{"B", 1}, {"T", 70}}};
  for (int64_t depth : {8, 5, 64}) {
    Maker g;
    Dim B = dim("B"), T = dim("T"), S = dim("S", Size::symbol("T")), G = dim("G", 2), K = dim("K", depth);
    int q = g.stored({B, T, G, K}), k = g.stored({B, S, G, K}), v = g.stored({B, S, G, K});
    q = g.widen(q), k = g.widen(k), v = g.widen(v);
    int score = g.elementwise(Op::Mul, {g.contract(q, k, {"K"}), g.constant(0.3)});
    int mask = g.compare(Predicate::Le, g.index(S), g.index(T));
    g.yield(g.attention(g.elementwise(Op::Where, {mask, score, g.constant(-INFINITY)}), v, "S"));
    KernelGraph &graph = g.finish("attention");
    EXPECT_EQ(readAttentions(graph).size(), 1u);
    checkKernel(graph, lengths, 1e-5);
  }
}

/// Rows as caches in int8 have them: codes of one byte, and what is nearest to them beyond.
TEST(BF16, CodesOfRows) {
  for (const char *name : {"native", "x86-64-v2"}) {
    Maker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), dim("K", 24)});
    int scale = g.narrow(
        g.elementwise(Op::Mul, {g.reduce(Reduction::Max, g.elementwise(Op::Abs, {x}), {"K"}), g.constant(1.0 / 127)}));
    g.yield(scale);
    checkKernel(g.finish("scales"), rows, step, cpuTarget(name));
    Maker c;
    x = c.argument(Storage::F32, {dim("M"), dim("H", 3), dim("K", 24)}), scale = c.stored({dim("M"), dim("H", 3)});
    int counts = c.elementwise(Op::Mul, {c.elementwise(Op::Mul, {x, c.widen(scale)}), c.constant(100)});
    c.yield(c.narrow(c.elementwise(Op::Round, {counts})));
    c.yield(c.narrow(c.elementwise(Op::ToInt, {c.elementwise(Op::Mul, {x, c.constant(1000)})})));
    checkKernel(c.finish("codes"), rows, 0, cpuTarget(name));
    Maker r;
    int codes = r.argument(Storage::I8, {dim("M"), dim("H", 3), dim("K", 24)});
    scale = r.stored({dim("M"), dim("H", 3)});
    r.yield(r.elementwise(Op::Rescale, {codes, scale}));
    r.yield(r.permute(r.cut(codes, "H", Size(1), dim("C", 2)), {"C", "M", "K"}));
    checkKernel(r.finish("numbers"), rows, 0, cpuTarget(name));
  }
}

TEST(BF16, AttentionOfCodes) {
  const std::vector<Lengths> lengths = {
      {{"B", 1}, {"T", 1}, {"past", 40}}, {{"B", 2}, {"T", 7}, {"past", 0}}, {{"B", 1}, {"T", 70}, {"past", 3}}};
  for (bool latents : {false, true}) { // which are keys and values of all heads
    for (int64_t depth : {8, 5, 64}) {
      Maker g;
      Size past = Size::symbol("past");
      Dim B = dim("B"), T = dim("T"), S = dim("S", Size::symbol("T") + past), G = dim("G", 2), K = dim("K", depth);
      std::vector<Dim> row = latents ? std::vector<Dim>{B, S} : std::vector<Dim>{B, S, G}, all = row;
      all.push_back(K);
      int q = g.argument(Storage::F32, {B, T, G, K}), k = g.argument(Storage::I8, all), sk = g.stored(row);
      int v = latents ? k : g.argument(Storage::I8, all), sv = latents ? sk : g.stored(row);
      k = g.elementwise(Op::Rescale, {k, sk});
      v = latents ? k : g.elementwise(Op::Rescale, {v, sv});
      int score = g.elementwise(Op::Mul, {g.contract(q, k, {"K"}), g.constant(0.002)});
      int mask = g.compare(Predicate::Le, g.index(S), g.elementwise(Op::Add, {g.index(T), g.size(past)}));
      v = latents ? g.rename(v, "K", dim("V", depth)) : v;
      g.yield(g.attention(g.elementwise(Op::Where, {mask, score, g.constant(-INFINITY)}), v, "S"));
      KernelGraph &graph = g.finish("attention");
      EXPECT_EQ(readAttentions(graph).size(), 1u);
      checkKernel(graph, lengths, 1e-5);
    }
  }
}

TEST(BF16, AttentionGradient) {
  const std::vector<Lengths> lengths = {{{"B", 1}, {"T", 1}}, {{"B", 2}, {"T", 7}}, {{"B", 1}, {"T", 70}}};
  for (bool ofKeys : {false, true}) {
    Maker g;
    Dim B = dim("B"), T = dim("T"), S = dim("S", Size::symbol("T")), G = dim("G", 2), K = dim("K", 16);
    int q = g.stored({B, T, G, K}), k = g.stored({B, S, G, K}), dout = g.stored({B, T, G, K}),
        v = g.stored({B, S, G, K});
    int most = g.argument(Storage::F32, {B, T, G}), share = g.argument(Storage::F32, {B, T, G}),
        delta = g.argument(Storage::F32, {B, T, G});
    q = g.widen(q), k = g.widen(k), dout = g.widen(dout), v = g.widen(v);
    int mask = g.compare(Predicate::Le, g.index(S), g.index(T));
    int x = g.elementwise(
        Op::Where, {mask, g.elementwise(Op::Mul, {g.contract(q, k, {"K"}), g.constant(0.3)}), g.constant(-INFINITY)});
    int p = g.elementwise(Op::Mul, {g.elementwise(Op::Exp, {g.elementwise(Op::Sub, {x, most})}), share});
    int slope = g.elementwise(Op::Mul, {p, g.elementwise(Op::Sub, {g.contract(dout, v, {"K"}), delta})});
    int ds = g.elementwise(Op::Mul, {g.elementwise(Op::Where, {mask, slope, g.constant(0)}), g.constant(0.3)});
    if (ofKeys) {
      g.yield(g.weightedSum(p, dout, "T"));
      g.yield(g.weightedSum(ds, q, "T"));
    } else {
      g.yield(g.weightedSum(ds, k, "S"));
    }
    KernelGraph &graph = g.finish(ofKeys ? "dk, dv" : "dq");
    EXPECT_TRUE(readAttentionGradient(graph));
    checkKernel(graph, lengths, 1e-5);
  }
}
