// Takes: a score, the first and last key of a row. Gives: the score without a factor that all of it has, and the same where a
// row sees all keys between these: there a causal mask holds and need not be evaluated.
//
//   where(s <= t + past, 0.125 * sum, -inf), s <= t + past   ->   where(s <= t + past, sum, -inf), sum, 0.125
//
// Why the factor apart: e^(0.125 x - m) is then one multiply-add and one power of two.
#include "codegen/tile/attend/Score.h"

#include <cmath>

namespace quern::codegen::tile {

namespace {
/// terms + size
struct Linear {
  std::map<int, int64_t> terms; ///< no zero coefficients
  ir::Size size;
};
Linear combined(Linear a, const Linear &b, int64_t times) {
  for (auto [value, coefficient] : b.terms)
    if (!(a.terms[value] += times * coefficient))
      a.terms.erase(value);
  a.size = a.size + b.size * ir::Size(times);
  return a;
}

class Scorer {
public:
  Scorer(Values &values, Attend &attend) : v(values), a(attend) {}
  void run(int score) {
    if (score >= 0) {
      auto [own, scale] = stripped(score);
      a.score = own, a.scale = scale, a.whole = seen(own);
    }
    for (Attend::Total &total : a.totals)
      if (total.weights >= 0)
        total.whole = seen(total.weights);
  }

private:
  Values &v;
  Attend &a;
  std::map<int, int> known; ///< values where a row sees the key

  Linear linear(int i) const {
    const Value &x = v[i];
    if (x.form == Value::Form::Number)
      return {{}, ir::Size(x.integer)};
    if (x.form == Value::Form::Length)
      return {{}, x.size};
    if (x.form == Value::Form::Apply && (x.op == Op::Add || x.op == Op::Sub))
      return combined(linear(x.operands[0]), linear(x.operands[1]), x.op == Op::Add ? 1 : -1);
    if (x.form == Value::Form::Apply && x.op == Op::Neg)
      return combined({}, linear(x.operands[0]), -1);
    return {{{i, 1}}, ir::Size(0)};
  }
  /// Whether the comparison holds for keys from `from` to `to`.
  bool holds(const Value &compare) {
    if (compare.op != Op::Compare || v[compare.operands[0]].kind != Kind::Int)
      return false;
    bool less = compare.predicate == Predicate::Le || compare.predicate == Predicate::Lt,
         greater = compare.predicate == Predicate::Ge || compare.predicate == Predicate::Gt;
    if (!less && !greater)
      return false;
    // difference + slack <= 0
    Linear difference = combined(linear(compare.operands[less ? 0 : 1]), linear(compare.operands[less ? 1 : 0]), -1);
    int64_t slack = compare.predicate == Predicate::Lt || compare.predicate == Predicate::Gt;
    Linear key = linear(v.coordinate(Coordinate::Column));
    auto follows = [&](const Linear &bound) { // from: bound <= 0
      Linear rest = combined(difference, bound, -1);
      std::optional<int64_t> constant = rest.size.constant();
      return rest.terms.empty() && constant && *constant + slack <= 0;
    };
    return (a.to >= 0 && follows(combined(key, linear(a.to), -1))) ||
           (a.from >= 0 && follows(combined(linear(a.from), key, -1)));
  }
  int seen(int i) {
    if (auto found = known.find(i); found != known.end())
      return found->second;
    const Value x = v[i]; // a copy: values are added
    return known[i] = x.form == Value::Form::Apply ? seenApply(i, x) : i;
  }
  int seenApply(int i, const Value &x) {
    if (holds(x))
      return v.flag(true);
    std::vector<int> operands;
    for (int operand : x.operands)
      operands.push_back(seen(operand));
    auto isTrue = [&](int value) { return v[value].form == Value::Form::Number && v[value].integer != 0; };
    if (x.op == Op::Where && isTrue(operands[0]))
      return operands[1];
    if (x.op == Op::And && isTrue(operands[0]))
      return operands[1];
    if (x.op == Op::And && isTrue(operands[1]))
      return operands[0];
    return operands == x.operands ? i : v.apply(x.op, x.kind, operands, x.predicate);
  }

  /// A value and what it is multiplied by.
  std::pair<int, double> stripped(int i) {
    const Value x = v[i];
    if (x.form != Value::Form::Apply)
      return {i, 1};
    auto factor = [&](int value) {
      const Value &y = v[value];
      return y.form == Value::Form::Number && y.kind == Kind::Real && y.real > 0 && std::isfinite(y.real) ? y.real : 0;
    };
    for (size_t side = 0; side < 2 && x.op == Op::Mul; ++side)
      if (double times = factor(x.operands[side])) {
        auto [rest, scale] = stripped(x.operands[1 - side]);
        return {rest, scale * times};
      }
    if (double by = x.op == Op::Div ? factor(x.operands[1]) : 0) {
      auto [rest, scale] = stripped(x.operands[0]);
      return {rest, scale / by};
    }
    if (x.op == Op::Where && v[x.operands[2]].form == Value::Form::Number && v[x.operands[2]].real == -INFINITY) {
      auto [rest, scale] = stripped(x.operands[1]);
      if (scale != 1)
        return {v.apply(Op::Where, x.kind, {x.operands[0], rest, x.operands[2]}), scale};
    }
    return {i, 1};
  }
};
} // namespace

void setScore(Values &values, int score, Attend &attend) {
  Scorer(values, attend).run(score);
}

} // namespace quern::codegen::tile
