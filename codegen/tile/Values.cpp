// Takes: numbers that are made of others. Gives: each once, with what is known about integers computed: positions are mostly
// sums and remainders of constants.
#include "codegen/tile/Program.h"

#include <sstream>

namespace quern::codegen::tile {

int Values::add(Value value) {
  std::ostringstream key;
  key.precision(17);
  key << int(value.form) << ' ' << int(value.kind) << ' ' << int(value.op) << ' ' << int(value.predicate) << ' '
      << value.integer << ' ' << std::hexfloat << value.real << ' ' << value.size.str();
  for (int operand : value.operands)
    key << " %" << operand;
  for (double number : value.numbers)
    key << ' ' << number;
  auto [at, isNew] = numbers.try_emplace(key.str(), int(all.size()));
  if (isNew)
    all.push_back(std::move(value));
  return at->second;
}

int Values::number(int64_t value) {
  return add({Value::Form::Number, Kind::Int, Op::Const, {}, {}, value});
}
int Values::real(double value) {
  return add({Value::Form::Number, Kind::Real, Op::Const, {}, {}, 0, value});
}
int Values::flag(bool value) {
  return add({Value::Form::Number, Kind::Bool, Op::Const, {}, {}, value});
}
int Values::coordinate(Coordinate which) {
  return add({Value::Form::Coordinate, Kind::Int, Op::Const, {}, {}, int64_t(which)});
}
int Values::length(const ir::Size &size) {
  if (auto constant = size.constant())
    return number(*constant);
  return add({Value::Form::Length, Kind::Int, Op::Const, {}, {}, 0, 0, size});
}
int Values::table(std::vector<double> list, int index) {
  return add({Value::Form::Table, Kind::Real, Op::Const, {}, {index}, 0, 0, {}, std::move(list)});
}
int Values::load(int buffer, Kind kind, std::vector<int> positions) {
  return add({Value::Form::Load, kind, Op::Const, {}, std::move(positions), buffer});
}
int Values::sum(int64_t part) {
  return add({Value::Form::Sum, Kind::Real, Op::Const, {}, {}, part});
}

int Values::sumAt(int column) {
  return add({Value::Form::Sum, Kind::Real, Op::Const, {}, {column}});
}
int Values::statistic(int64_t which) {
  return add({Value::Form::Statistic, Kind::Real, Op::Const, {}, {}, which});
}

std::optional<int64_t> Values::known(int value) const {
  const Value &v = all[value];
  if (v.form == Value::Form::Number && v.kind == Kind::Int)
    return v.integer;
  return std::nullopt;
}

int Values::apply(Op op, Kind kind, std::vector<int> operands, Predicate predicate) {
  if (kind == Kind::Int && operands.size() == 2 && all[operands[0]].kind == Kind::Int &&
      all[operands[1]].kind == Kind::Int) {
    std::optional<int64_t> a = known(operands[0]), b = known(operands[1]);
    bool divides = b && *b > 0 && (!a || *a >= 0);
    if (op == Op::Add && a && b)
      return number(*a + *b);
    if (op == Op::Sub && a && b)
      return number(*a - *b);
    if (op == Op::Mul && a && b)
      return number(*a * *b);
    if (op == Op::FloorDiv && a && divides)
      return number(*a / *b);
    if (op == Op::Mod && a && divides)
      return number(*a % *b);
    if ((op == Op::Add || op == Op::Sub) && b == 0)
      return operands[0];
    if (op == Op::Add && a == 0)
      return operands[1];
    if (op == Op::Mul && (a == 0 || b == 0))
      return number(0);
    if ((op == Op::Mul || op == Op::FloorDiv) && b == 1)
      return operands[0];
    if (op == Op::Mul && a == 1)
      return operands[1];
    if (op == Op::Mod && b == 1)
      return number(0);
    // x / n * n + x % n: what divides a position and puts it together again.
    const Value &first = all[operands[0]], &second = all[operands[1]];
    if (op == Op::Add && first.op == Op::Mul && second.op == Op::Mod && all[first.operands[0]].op == Op::FloorDiv &&
        all[first.operands[0]].operands == second.operands && first.operands[1] == second.operands[1])
      return second.operands[0];
  }
  return add({Value::Form::Apply, kind, op, predicate, std::move(operands)});
}

ir::Size Axis::extent() const {
  ir::Size product(1);
  for (const Dim &dim : dims)
    product = product * dim.size;
  return product;
}

} // namespace quern::codegen::tile
