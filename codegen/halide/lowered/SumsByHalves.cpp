// Takes: a kernel's loops as Halide has lowered them. Gives: the same, with additions of halves for each sum of a vector.
#include "codegen/halide/lowered/SumsByHalves.h"

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

namespace {

class Halve : public IRMutator {
  using IRMutator::visit;
  Expr visit(const VectorReduce *reduce) override {
    Expr value = mutate(reduce->value);
    const bool sumsFloats = reduce->op == VectorReduce::Add && reduce->type.is_float() && reduce->type.is_scalar();
    int lanes = value.type().lanes();
    for (; sumsFloats && lanes % 2 == 0; lanes /= 2) {
      std::string name = unique_name('h');
      Expr whole = Variable::make(value.type(), name);
      Expr halves = Shuffle::make_slice(whole, 0, 1, lanes / 2) + Shuffle::make_slice(whole, lanes / 2, 1, lanes / 2);
      value = Let::make(name, value, halves);
    }
    return lanes == 1 ? value : VectorReduce::make(reduce->op, value, reduce->type.lanes());
  }
};

} // namespace

void sumByHalves(Pipeline &pipeline) {
  pipeline.add_custom_lowering_pass(new Halve);
}

} // namespace quern::codegen
