// Takes: an elementwise node, a constant or a position. Gives: the expression of one element.
#include "codegen/halide/KernelBuilder.h"
#include "codegen/halide/Math.h"

#include <stdexcept>

using namespace Halide;

namespace quern::codegen {

static Expr realConstant(double value) {
  return Internal::FloatImm::make(Float(32), static_cast<float>(value));
}

Expr KernelBuilder::constants(int i, const Index &index) {
  const Node &node = graph.nodes[i];
  switch (node.op) {
  case Op::Const:
    if (node.kind() == Kind::Real)
      return realConstant(node.numbers[0]);
    if (node.kind() == Kind::Bool)
      return Internal::UIntImm::make(Bool(), node.integer != 0);
    return static_cast<int32_t>(node.integer);
  case Op::Size:
    return extent(node.size);
  case Op::Index:
    return index.at(node.dims[0].name);
  default: // values: a table in the object
    break;
  }
  auto it = tables.find(i);
  if (it == tables.end()) {
    Buffer<float> table(static_cast<int>(node.numbers.size()), "table" + std::to_string(i));
    for (size_t n = 0; n < node.numbers.size(); ++n)
      table(static_cast<int>(n)) = static_cast<float>(node.numbers[n]);
    it = tables.emplace(i, table).first;
  }
  return it->second(index.at(node.dims[0].name));
}

static Expr compare(Predicate predicate, const Expr &a, const Expr &b) {
  bool real = a.type().is_float();
  auto less = [&](const Expr &x, const Expr &y) { return real ? math::less(x, y) : x < y; };
  auto lessEqual = [&](const Expr &x, const Expr &y) { return real ? math::lessEqual(x, y) : x <= y; };
  switch (predicate) {
  case Predicate::Lt:
    return less(a, b);
  case Predicate::Le:
    return lessEqual(a, b);
  case Predicate::Gt:
    return less(b, a);
  case Predicate::Ge:
    return lessEqual(b, a);
  case Predicate::Eq:
    return real ? math::equal(a, b) : a == b;
  default:
    return real ? !math::equal(a, b) : a != b;
  }
}

Expr KernelBuilder::elementwise(const Node &node, const Index &index) {
  auto x = [&](size_t i) { return at(node.operands[i], index); };
  auto r = [&](size_t i) { return real(node.operands[i], index); };
  auto integers = [&] { return node.kind() == Kind::Int; };
  switch (node.op) {
  case Op::Neg:
    return integers() ? -x(0) : math::mul(r(0), Expr(-1.0f));
  case Op::Abs:
    return integers() ? cast<int32_t>(abs(x(0))) : math::magnitude(r(0));
  case Op::Exp:
    return math::exp(r(0));
  case Op::Expm1:
    return math::expm1(r(0));
  case Op::Log:
    return math::log(r(0));
  case Op::Log1p:
    return math::log1p(r(0));
  case Op::Sqrt:
    return math::sqrt(r(0));
  case Op::Sin:
    return math::sine(r(0), callsDoubles(target));
  case Op::Cos:
    return math::cosine(r(0), callsDoubles(target));
  case Op::Tanh:
    return math::tanh(r(0));
  case Op::Sigmoid:
    return math::sigmoid(r(0));
  case Op::Erf:
    return math::erf(r(0));
  case Op::Floor:
    return math::toInt(floor(r(0)));
  case Op::Ceil:
    return math::toInt(ceil(r(0)));
  case Op::Round:
    return math::toInt(math::roundEven(r(0)));
  case Op::ToInt:
    return x(0).type().is_float() ? math::toInt(x(0)) : cast<int32_t>(x(0));
  case Op::ToReal:
    return r(0);
  case Op::Narrow:
    return node.kind() == Kind::Int ? cast<int8_t>(clamp(x(0), INT8_MIN, INT8_MAX)) : math::narrow(r(0));
  case Op::Widen:
    return math::widen(graph.nodes[node.operands[0]].storage, x(0), target);
  case Op::Rescale:
    return math::mul(cast<float>(x(0)), math::widen(graph.nodes[node.operands[1]].storage, x(1), target));
  case Op::Dequantize: // arguments alone hold codes, and give what these stand for
    return x(0);
  case Op::Not:
    return !x(0);
  case Op::Add:
    return integers() ? x(0) + x(1) : math::add(r(0), r(1));
  case Op::Sub:
    return integers() ? x(0) - x(1) : math::sub(r(0), r(1));
  case Op::Mul:
    return integers() ? x(0) * x(1) : math::mul(r(0), r(1));
  case Op::Div:
    return math::div(r(0), r(1));
  case Op::FloorDiv: // Halide's division rounds so that the remainder is not negative: down for positive divisors only
    return select(x(1) < 0, -x(0) / max(-x(1), 1), x(0) / max(x(1), 1));
  case Op::Mod:
    return select(x(1) < 0, -((-x(0)) % max(-x(1), 1)), x(0) % max(x(1), 1));
  case Op::Pow:
    return math::pow(r(0), r(1), callsDoubles(target));
  case Op::Max:
    return integers() ? max(x(0), x(1)) : math::max(r(0), r(1));
  case Op::Min:
    return integers() ? min(x(0), x(1)) : math::min(r(0), r(1));
  case Op::And:
    return x(0) && x(1);
  case Op::Or:
    return x(0) || x(1);
  case Op::Compare: {
    Expr a = x(0), b = x(1);
    if (a.type() != b.type())
      a = r(0), b = r(1);
    return compare(node.predicate, a, b);
  }
  case Op::Where: {
    // Both sides exist, one is taken bit by bit: nothing of the other shows. Not as a `select`: from its condition (a
    // mask of positions) Halide would conclude that less of a contraction is needed than its tile computes.
    if (node.kind() == Kind::Real)
      return math::chooseUnseen(x(0), r(1), r(2));
    if (node.kind() == Kind::Bool)
      return (x(0) && x(1)) || (!x(0) && x(2));
    Expr mask = select(x(0), -1, 0);
    return (x(1) & mask) | (x(2) & ~mask);
  }
  default:
    throw std::logic_error("not an elementwise operation");
  }
}

} // namespace quern::codegen
