// Takes: a target. Gives: a small kernel of each family, with sizes that no tile divides.
#include "tests/codegen/support/Families.h"

#include "tests/codegen/support/Check.h"

namespace quern::codegen {
namespace {

using ir::Size;

class Maker {
public:
  explicit Maker(const CpuTarget &target) : tile(target.vector == 16 ? 64 : 2 * target.vector) {}
  std::vector<FamilyKernel> all() {
    elementwise();
    rows();
    packed();
    weightsAsTheyLie();
    sumsOverTokens();
    fewRowsOfHeads();
    heads();
    experts();
    gradientOfExperts();
    attention();
    gradientOfAttention();
    sumsAlongDiagonals();
    memories();
    return std::move(kernels);
  }

private:
  int64_t tile;
  std::vector<FamilyKernel> kernels;

  GraphMaker &next() {
    kernels.push_back({std::make_unique<GraphMaker>(), {}});
    return *kernels.back().maker;
  }
  void finish(const std::string &name, const std::vector<Lengths> &lengths) {
    kernels.back().maker->finish(name);
    kernels.back().lengths = lengths;
  }
  static std::vector<Lengths> rowsOf(const char *symbol, const std::vector<int> &counts) {
    std::vector<Lengths> lengths;
    for (int count : counts)
      lengths.push_back({{symbol, count}});
    return lengths;
  }
  static int binary(GraphMaker &g, Op op, int a, int b) { return g.elementwise(op, {a, b}); }
  static int normed(GraphMaker &g, int x, const char *along) {
    int mean = g.reduce(Reduction::Mean, binary(g, Op::Mul, x, x), {along});
    return binary(g, Op::Div, x, g.elementwise(Op::Sqrt, {binary(g, Op::Add, mean, g.constant(1e-3))}));
  }

  void elementwise() {
    GraphMaker &g = next();
    int x = g.argument(Storage::F32, {dim("M"), dim("D", 37)}), y = g.argument(Storage::F32, {dim("D", 37)});
    g.yield(binary(g, Op::Mul, g.elementwise(Op::Sigmoid, {x}), y));
    finish("elementwise", rowsOf("M", {1, 7, 1000}));
  }
  void rows() {
    GraphMaker &g = next();
    int x = g.argument(Storage::F32, {dim("M"), dim("D", 100)});
    g.yield(g.softmax(normed(g, x, "D"), {"D"}));
    finish("rows", rowsOf("M", {1, 7, 200}));
  }
  void packed() {
    GraphMaker &g = next();
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 300)}), w = g.weight({dim("O", 100), dim("I", 300)}, tile);
    g.yield(g.elementwise(Op::Tanh, {g.contract(normed(g, x, "I"), w, {"I"})}));
    finish("packed", rowsOf("M", {1, 2, 5, 13, 101}));
  }
  void weightsAsTheyLie() {
    GraphMaker &g = next();
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 600)}),
        w = g.argument(Storage::F32, {dim("O", 71), dim("I", 600)});
    g.yield(g.contract(x, w, {"I"}));
    finish("weights_as_they_lie", rowsOf("M", {1, 5, 13, 101, 450}));
  }
  void sumsOverTokens() {
    GraphMaker &g = next();
    int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("I", 70)}),
        dy = g.argument(Storage::F32, {dim("B"), dim("T"), dim("O", 90)});
    g.yield(g.contract(x, dy, {"B", "T"}));
    finish("sums_over_tokens",
           {{{"B", 1}, {"T", 1}}, {{"B", 3}, {"T", 7}}, {{"B", 2}, {"T", 100}}, {{"B", 1}, {"T", 601}}});
  }
  void fewRowsOfHeads() {
    GraphMaker &g = next();
    int x = g.argument(Storage::F32, {dim("M"), dim("H", 3), dim("I", 64)}),
        w = g.argument(Storage::F32, {dim("H", 3), dim("O", 72), dim("I", 64)});
    g.yield(g.contract(x, w, {"I"}));
    finish("few_rows_of_heads", rowsOf("M", {1, 3, 9, 70, 450}));
  }
  void heads() {
    GraphMaker &g = next();
    int a = g.argument(Storage::F32, {dim("B"), dim("T"), dim("H", 3), dim("S")}),
        v = g.argument(Storage::F32, {dim("B"), dim("S"), dim("H", 3), dim("K", 24)});
    g.yield(g.contract(a, v, {"S"}));
    finish("heads",
           {{{"B", 1}, {"T", 1}, {"S", 1}}, {{"B", 2}, {"T", 9}, {"S", 70}}, {{"B", 2}, {"T", 130}, {"S", 300}}});
  }
  void experts() {
    GraphMaker &g = next();
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 40)}),
        w = g.weight({dim("E", 5), dim("O", 100), dim("I", 40)}, tile),
        chosen = g.argument(Storage::I32, {dim("M"), dim("C", 2)});
    g.yield(g.contract(x, g.gather(w, chosen, "E"), {"I"}));
    finish("experts", rowsOf("M", {1, 5, 13, 200}));
  }
  void gradientOfExperts() {
    GraphMaker &g = next();
    int dy = g.argument(Storage::F32, {dim("M"), dim("C", 2), dim("O", 20)}),
        x = g.argument(Storage::F32, {dim("M"), dim("I", 100)}),
        chosen = g.argument(Storage::I32, {dim("M"), dim("C", 2)});
    g.yield(g.permute(g.scatterAdd(binary(g, Op::Mul, dy, x), chosen, {"M", "C"}, dim("E", 5)), {"E", "O", "I"}));
    finish("gradient_of_experts", rowsOf("M", {1, 7, 200}));
  }
  void attention() {
    GraphMaker &g = next();
    Size past = Size::symbol("past");
    Dim B = dim("B"), T = dim("T"), S = dim("S", Size::symbol("T") + past), G = dim("G", 2), R = dim("R", 2);
    int q = g.argument(Storage::F32, {B, T, G, R, dim("K", 16)}), k = g.argument(Storage::F32, {B, S, G, dim("K", 16)}),
        v = g.argument(Storage::F32, {B, S, G, dim("V", 24)});
    int score = binary(g, Op::Mul, g.contract(q, k, {"K"}), g.constant(0.3));
    int mask = g.compare(Predicate::Le, g.index(S), binary(g, Op::Add, g.index(T), g.size(past)));
    int masked = g.elementwise(Op::Where, {mask, score, g.constant(-INFINITY)});
    g.yield(g.attention(masked, v, "S"));
    finish("attention", {{{"B", 1}, {"T", 1}, {"past", 0}},
                         {{"B", 2}, {"T", 1}, {"past", 300}},
                         {{"B", 2}, {"T", 7}, {"past", 70}},
                         {{"B", 1}, {"T", 250}, {"past", 0}},
                         {{"B", 1}, {"T", 530}, {"past", 0}}}); // several parts of the keys
  }

  struct OfAttention {
    Dim B = dim("B"), T = dim("T"), S = dim("S"), G = dim("G", 2), N = dim("N", Size::symbol("S") + Size::symbol("T"));
    int q, k, dout, p, ds;
  };
  static OfAttention attentionAgain(GraphMaker &g, bool byDistance) {
    OfAttention a;
    a.q = g.argument(Storage::F32, {a.B, a.T, a.G, dim("K", 16)});
    a.k = g.argument(Storage::F32, {a.B, a.S, a.G, dim("K", 16)});
    a.dout = g.argument(Storage::F32, {a.B, a.T, a.G, dim("V", 24)});
    int v = g.argument(Storage::F32, {a.B, a.S, a.G, dim("V", 24)});
    int most = g.argument(Storage::F32, {a.B, a.T, a.G}), share = g.argument(Storage::F32, {a.B, a.T, a.G}),
        delta = g.argument(Storage::F32, {a.B, a.T, a.G});
    int near = byDistance ? g.argument(Storage::F32, {a.N, a.G}) : -1;
    int product = g.contract(a.q, a.k, {"K"});
    if (byDistance)
      product = binary(g, Op::Add, product, g.expand(g.gather(near, distances(g, a), "N"), {a.B, a.T, a.G, a.S}));
    int mask = g.compare(Predicate::Le, g.index(a.S), g.index(a.T));
    int score = g.elementwise(Op::Where, {mask, binary(g, Op::Mul, product, g.constant(0.3)), g.constant(-INFINITY)});
    a.p = binary(g, Op::Mul, g.elementwise(Op::Exp, {binary(g, Op::Sub, score, most)}), share);
    int back = binary(g, Op::Mul, a.p, binary(g, Op::Sub, g.contract(a.dout, v, {"V"}), delta));
    a.ds = binary(g, Op::Mul, g.elementwise(Op::Where, {mask, back, g.constant(0)}), g.constant(0.3));
    return a;
  }
  static int distances(GraphMaker &g, const OfAttention &a) {
    return binary(g, Op::Add, binary(g, Op::Sub, g.index(a.S), g.index(a.T)), g.size(Size::symbol("T")));
  }
  static std::vector<Lengths> queriesAndKeys() {
    return {{{"B", 1}, {"T", 1}, {"S", 1}}, {{"B", 2}, {"T", 7}, {"S", 5}}, {{"B", 1}, {"T", 130}, {"S", 130}}};
  }
  void gradientOfAttention() {
    for (bool ofKeys : {false, true}) {
      GraphMaker &g = next();
      OfAttention a = attentionAgain(g, false);
      if (ofKeys)
        g.yield(g.weightedSum(a.p, a.dout, "T"));
      g.yield(ofKeys ? g.weightedSum(a.ds, a.q, "T") : g.weightedSum(a.ds, a.k, "S"));
      finish(ofKeys ? "gradient_of_keys" : "gradient_of_queries", queriesAndKeys());
    }
  }
  void sumsAlongDiagonals() {
    GraphMaker &g = next();
    OfAttention a = attentionAgain(g, true);
    g.yield(g.distanceSum(a.ds, "S", "T", "S", Size::symbol("T"), a.N));
    finish("sums_along_diagonals", queriesAndKeys());
  }
  /// A memory of keys and values; with a delta rule.
  void memories() {
    for (bool delta : {false, true}) {
      GraphMaker &g = next();
      Dim t = dim("T"), b = dim("B"), h = dim("H", 2), a = dim("A", 5), u = dim("U", 37);
      std::vector<int> operands = {g.argument(Storage::F32, {b, h, a, u}), g.argument(Storage::F32, {t, b, h}),
                                   g.argument(Storage::F32, {t, b, a}), g.argument(Storage::F32, {t, b, h, u}),
                                   g.argument(Storage::F32, {t, b, a})};
      GraphMaker body;
      int state = body.argument(Storage::F32, {b, h, a, u}), keep = body.argument(Storage::F32, {b, h}),
          key = body.argument(Storage::F32, {b, a}), value = body.argument(Storage::F32, {b, h, u}),
          query = body.argument(Storage::F32, {b, a});
      int kept = binary(body, Op::Mul, keep, state), written = value;
      if (delta)
        written =
            binary(body, Op::Mul, body.constant(0.5), binary(body, Op::Sub, value, body.contract(kept, key, {"A"})));
      int after = binary(body, Op::Add, kept, binary(body, Op::Mul, key, written));
      for (int result : g.scan(t, false, body, operands, 1, 4, {after, body.contract(after, query, {"A"})}))
        g.yield(result);
      finish(delta ? "delta_rule" : "memory", {{{"B", 2}, {"T", 1}}, {{"B", 1}, {"T", 31}}, {{"B", 3}, {"T", 150}}});
    }
  }
};

} // namespace

std::vector<FamilyKernel> everyFamily(const CpuTarget &target) {
  return Maker(target).all();
}

} // namespace quern::codegen
