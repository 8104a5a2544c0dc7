// Takes: a kernel's loops as Halide has lowered them. Gives: the same, with reads of words for what `wholeWord` marked.
#include "codegen/halide/lowered/WholeWords.h"

#include <stdexcept>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

static const char *const mark = "quern_whole_word";
static constexpr int inWord = 4; // bytes

Expr wholeWord(const Expr &byte, const Expr &column) {
  return Call::make(UInt(32), mark, {byte, column}, Call::PureExtern);
}

namespace {

class Words : public IRMutator {
  using IRMutator::visit;

  static Expr bytesAt(const Load &byte, const Expr &index) {
    const int lanes = index.type().lanes();
    return Load::make(UInt(8, lanes), byte.name, index, byte.image, byte.param, const_true(lanes), ModulusRemainder());
  }

  Expr visit(const Call *call) override {
    if (call->name != mark)
      return IRMutator::visit(call);
    const Load *byte = call->args[0].as<Load>();
    if (!byte)
      throw std::logic_error("a word of a buffer is marked where nothing is read of it");
    const Expr &column = call->args[1];
    auto across = [](const Expr &where, Expr &first) { // one after the other, or a single one
      const Ramp *ramp = where.as<Ramp>();
      first = ramp ? ramp->base : where;
      return where.type().is_scalar() || (ramp && is_const_one(ramp->stride));
    };
    Expr first, firstColumn;
    const int lanes = call->type.lanes();
    if (across(byte->index, first) && across(column, firstColumn)) {
      Expr begin = first + cast(first.type(), firstColumn * (inWord - 1));
      return Reinterpret::make(call->type, bytesAt(*byte, Ramp::make(begin, make_one(begin.type()), inWord * lanes)));
    }
    Expr word = make_zero(call->type), begin = byte->index + cast(byte->index.type(), column * (inWord - 1));
    for (int i = 0; i < inWord; ++i)
      word = word | cast(call->type, bytesAt(*byte, begin + make_const(begin.type(), i)))
                        << make_const(call->type, 8 * i);
    return word;
  }
};

} // namespace

void readWholeWords(Pipeline &pipeline) {
  pipeline.add_custom_lowering_pass(new Words);
}

} // namespace quern::codegen
