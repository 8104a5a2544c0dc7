// Takes: a kernel's loops as Halide has lowered them. Gives: the same, with sums of products of bf16 for products of words. Why so:
// Halide reads a Func in its own type alone, and words of two numbers lie in an order of their own, which only a vector can be
// read in as halves.
#include "codegen/halide/words/PairProducts.h"

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

static const char *const mark = "quern_pair_product";
static constexpr int inWord = 2;

Expr pairProduct(const Expr &a, const Expr &b) {
  return Call::make(Float(32), mark, {a, b}, Call::PureExtern);
}

namespace {

class Pairs : public IRMutator {
  using IRMutator::visit;
  Expr visit(const Call *call) override {
    if (call->name != mark)
      return IRMutator::visit(call);
    const int lanes = call->type.lanes();
    auto halves = [&](const Expr &words) {
      return cast(Float(32, inWord * lanes), Reinterpret::make(BFloat(16, inWord * lanes), mutate(words)));
    };
    return VectorReduce::make(VectorReduce::Add, halves(call->args[0]) * halves(call->args[1]), lanes);
  }
};

} // namespace

void multiplyPairs(Pipeline &pipeline) {
  pipeline.add_custom_lowering_pass(new Pairs);
}

} // namespace quern::codegen
