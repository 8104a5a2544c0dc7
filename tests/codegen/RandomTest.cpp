// Random combinations of operations in one kernel: what no family expects must be right too.
#include "tests/codegen/support/Check.h"

#include <random>

using namespace quern::codegen;

namespace {
/// Grows a graph of real values over the dimensions T, D and E; every step takes random values made so far.
class RandomKernel : public GraphMaker {
public:
  explicit RandomKernel(unsigned seed) : random(seed) {
    values = {argument(Storage::F32, {T, D}), argument(Storage::F32, {D}), argument(Storage::F32, {T, E, D}),
              argument(Storage::F32, {E, T}), weight({E, D}, 16)};
    int steps = 4 + pick(8);
    for (int i = 0; i < steps; ++i)
      values.push_back(step());
    yield(values.back());
    if (pick(3) == 0)
      yield(some());
  }

private:
  int pick(int n) { return static_cast<int>(random() % n); }
  int some() { return values[pick(static_cast<int>(values.size()))]; }
  const Dim *dimOf(int x) {
    const std::vector<Dim> &dims = graph.nodes[x].dims;
    return dims.empty() ? nullptr : &dims[pick(static_cast<int>(dims.size()))];
  }
  int smooth(int x) { return elementwise(Op::Tanh, {x}); } // values stay of order one

  int step() {
    int x = some(), y = some();
    const Dim *along = dimOf(x);
    switch (pick(13)) {
    case 0:
      return elementwise(Op::Add, {x, y});
    case 1:
      return smooth(elementwise(Op::Mul, {x, y}));
    case 2:
      return elementwise(Op::Where, {compare(Predicate::Lt, x, constant(0.25)), y, x});
    case 3:
      return elementwise(Op::Sigmoid, {elementwise(Op::Sub, {x, y})});
    case 4:
      return along ? reduce(pick(2) ? Reduction::Mean : Reduction::Max, x, {along->name}) : smooth(x);
    case 5:
      return along ? softmax(x, {along->name}) : smooth(x);
    case 6: // a contraction over what both have
      for (const Dim &dim : graph.nodes[x].dims)
        if (graph.nodes[y].has(dim.name))
          return smooth(contract(x, y, {dim.name}));
      return smooth(elementwise(Op::Max, {x, y}));
    case 7:
      return along && along->name != "T" ? smooth(cumsum(x, along->name)) : smooth(x);
    case 8: { // first half and second half change places
      if (!graph.nodes[x].has("D"))
        return smooth(x);
      int a = cut(x, "D", 0, dim("A", 8)), b = cut(x, "D", 8, dim("A", 8));
      return concat({b, elementwise(Op::Neg, {a})}, {"A", "A"}, D);
    }
    case 9: { // by way of rows of pairs
      if (!graph.nodes[x].has("D"))
        return smooth(x);
      int pairs = split(x, "D", {dim("P", 8), dim("Q", 2)});
      return merge(elementwise(Op::Mul, {pairs, constant(0.5)}), {"P", "Q"}, D);
    }
    case 10:
      return along ? elementwise(Op::Mul, {elementwise(Op::ToReal, {argmax(x, along->name)}), constant(0.1)})
                   : smooth(x);
    case 11:
      return graph.nodes[x].has("E") ? gather(x, elementwise(Op::Mod, {index(T), integer(3)}), "E")
                                     : elementwise(Op::Exp, {smooth(x)});
    default: {
      if (!graph.nodes[x].has("E"))
        return smooth(x);
      return reduce(Reduction::Sum, topK(x, "E", dim("C", 2)).first, {"C"});
    }
    }
  }

  std::mt19937 random;
  std::vector<int> values;
  Dim T = dim("T"), D = dim("D", 16), E = dim("E", 3);
};
} // namespace

class Random : public testing::TestWithParam<int> {};

TEST_P(Random, Kernel) {
  RandomKernel kernel(GetParam());
  checkKernel(kernel.finish("random" + std::to_string(GetParam())), {{{"T", 1}}, {{"T", 9}}, {{"T", 40}}}, 3e-5);
}
INSTANTIATE_TEST_SUITE_P(Kernels, Random, testing::Range(1, 41));
