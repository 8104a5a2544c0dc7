// Takes: facts of the operands of an elementwise operation. Gives: facts of its result. These are the rules by which a
// mask such as `index(T) - w < index(S) <= index(T)` says how far back a position looks.
#include "passes/time/TimeTransfer.h"
#include "support/numbers/RealFunctions.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

Bounds quern::passes::absentOf(const Facts &facts, double k) {
  auto at = facts.absent.find(k);
  return at == facts.absent.end() ? Bounds() : at->second;
}

Facts quern::passes::merged(ArrayRef<const Facts *> operands) {
  Facts out;
  for (const Facts *x : operands) {
    out.dep.insert(x->dep.begin(), x->dep.end());
    out.data |= x->data;
    out.request |= x->request;
    out.raw |= x->raw;
    out.comparisons.insert(x->comparisons.begin(), x->comparisons.end());
  }
  return out;
}

std::map<double, Bounds> quern::passes::productAbsent(const Facts &a, const Facts &b) {
  std::map<double, Bounds> out;
  if (a.absent.count(0) || b.absent.count(0))
    out[0] = conj(absentOf(a, 0), absentOf(b, 0));
  for (auto [x, factor] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (auto &[k, bounds] : x->absent)
      if (std::isinf(k) && factor->constant && *factor->constant != 0)
        out[*factor->constant > 0 ? k : -k] = bounds;
  return out;
}

namespace {

using Extent = std::map<Label, int64_t>;

std::optional<int64_t> at(const Extent &extent, const Label &label) {
  auto found = extent.find(label);
  return found == extent.end() ? std::nullopt : std::optional(found->second);
}

/// v <= c gives v <= index(label) + c, as positions are at least 0.
std::optional<int64_t> upper(const Extent &high, const Label &label) {
  std::optional<int64_t> own = at(high, label), fixed = at(high, zero);
  return own && fixed ? std::min(*own, *fixed) : own ? own : fixed;
}

/// For each label that either side bounds: `both` where both sides do, else `one` (nothing drops it).
template <typename Lookup, typename Both>
Extent pairwise(const Extent &a, const Extent &b, Lookup lookup, Both both, bool keepSingle) {
  Extent out;
  for (const Extent *side : {&a, &b})
    for (auto &[label, unused] : *side) {
      std::optional<int64_t> x = lookup(a, label), y = lookup(b, label);
      if (x && y)
        out[label] = both(*x, *y);
      else if (keepSingle)
        out[label] = x ? *x : *y;
    }
  return out;
}
int64_t larger(int64_t a, int64_t b) {
  return std::max(a, b);
}
int64_t smaller(int64_t a, int64_t b) {
  return std::min(a, b);
}

int64_t floorDivide(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}
int64_t ceilDivide(int64_t a, int64_t b) {
  return -floorDivide(-a, b);
}

std::optional<int64_t> wholeConstant(const Facts &x) {
  return x.affine && x.affine->coefficients.empty() ? std::optional(x.affine->constant) : std::nullopt;
}

Affine plus(const Affine &a, const Affine &b, int64_t factor) {
  Affine out = a;
  out.constant += factor * b.constant;
  for (auto &[label, c] : b.coefficients)
    if ((out.coefficients[label] += factor * c) == 0)
      out.coefficients.erase(label);
  return out;
}
Affine times(const Affine &a, int64_t factor) {
  return factor ? plus(Affine(), a, factor) : Affine();
}

/// What follows from affine <= 0.
class Implied {
public:
  void linear(const Affine &affine) {
    SmallVector<std::pair<Label, int64_t>> positive, negative;
    for (auto &entry : affine.coefficients)
      (entry.second > 0 ? positive : negative).push_back(entry);
    if (negative.size() > 1)
      return;
    for (auto &[label, factor] : positive) {
      // Other positive terms are dropped: positions are at least 0.
      if (negative.empty())
        add(label, zero, floorDivide(-affine.constant, factor));
      else if (-negative[0].second <= factor)
        add(label, negative[0].first, floorDivide(-affine.constant, factor));
    }
    if (!negative.empty() && positive.empty())
      add(zero, negative[0].first, -ceilDivide(affine.constant, -negative[0].second));
    if (affine.coefficients.empty() && affine.constant > 0)
      never = true;
  }
  void add(const Label &a, const Label &b, int64_t c) {
    if (a != b)
      bounds.add(a, b, c);
    else if (c < 0)
      never = true;
  }
  Bounds take() {
    if (never)
      return Bounds::never();
    bounds.close();
    return bounds;
  }

private:
  Bounds bounds;
  bool never = false;
};

/// What x <= y (x < y) of ints implies.
Bounds ordered(const Facts &x, const Facts &y, bool strict) {
  Implied implied;
  if (x.affine && y.affine) {
    Affine difference = plus(*x.affine, *y.affine, -1);
    difference.constant += strict;
    implied.linear(difference);
  }
  for (auto &[v, c1] : x.low)
    for (auto &[w, c2] : y.high)
      implied.add(v, w, c2 - c1 - strict);
  if (x.quotient && y.quotient && x.quotient->second == y.quotient->second) {
    // p // k <= q // k gives p - q <= k - 1; p // k < q // k gives p - q <= -1.
    Affine difference = plus(x.quotient->first, y.quotient->first, -1);
    difference.constant += strict ? 1 : 1 - x.quotient->second;
    implied.linear(difference);
  }
  return implied.take();
}

void compare(CompareOp op, ArrayRef<const Facts *> x, Facts &out) {
  if (!typeOf(op.getA()).isInt() || !typeOf(op.getB()).isInt())
    return;
  const Facts &a = *x[0], &b = *x[1];
  switch (op.getPredicate()) {
  case Predicate::lt:
  case Predicate::le: {
    bool strict = op.getPredicate() == Predicate::lt;
    out.whenTrue = ordered(a, b, strict);
    out.whenFalse = ordered(b, a, !strict);
    break;
  }
  case Predicate::gt:
  case Predicate::ge: {
    bool strict = op.getPredicate() == Predicate::gt;
    out.whenTrue = ordered(b, a, strict);
    out.whenFalse = ordered(a, b, !strict);
    break;
  }
  case Predicate::eq:
    out.whenTrue = conj(ordered(a, b, false), ordered(b, a, false));
    break;
  case Predicate::ne:
    out.whenFalse = conj(ordered(a, b, false), ordered(b, a, false));
    break;
  }
}

void sum(const Facts &a, const Facts &b, bool minus, Facts &out) {
  if (a.affine && b.affine)
    out.affine = plus(*a.affine, *b.affine, minus ? -1 : 1);
  auto negated = [](std::optional<int64_t> c) { return c ? std::optional(-*c) : c; };
  std::optional<int64_t> up = minus ? negated(at(b.low, zero)) : at(b.high, zero);
  std::optional<int64_t> down = minus ? negated(at(b.high, zero)) : at(b.low, zero);
  auto shift = [](const Extent &from, int64_t by, Extent &into, auto better) {
    for (auto &[label, c] : from) {
      auto [entry, isNew] = into.try_emplace(label, c + by);
      if (!isNew)
        entry->second = better(entry->second, c + by);
    }
  };
  if (up)
    shift(a.high, *up, out.high, smaller);
  if (down)
    shift(a.low, *down, out.low, larger);
  if (!minus) {
    if (auto c = at(a.high, zero))
      shift(b.high, *c, out.high, smaller);
    if (auto c = at(a.low, zero))
      shift(b.low, *c, out.low, larger);
  }
  for (double k : {-infinity, infinity}) {
    double other = minus ? -k : k;
    if (a.absent.count(k) || b.absent.count(other))
      out.absent[k] = conj(absentOf(a, k), absentOf(b, other));
  }
  if (a.absent.count(0) && b.absent.count(0))
    out.absent[0] = join(a.absent.at(0), b.absent.at(0));
}

void product(const Facts &x, const Facts &y, Facts &out) {
  out.absent = productAbsent(x, y);
  for (auto [a, b] : {std::pair(&x, &y), std::pair(&y, &x)}) {
    std::optional<int64_t> factor = wholeConstant(*b);
    if (!factor)
      continue;
    if (a->affine)
      out.affine = times(*a->affine, *factor);
    if (*factor < 0)
      continue;
    for (auto [from, into] : {std::pair(&a->high, &out.high), std::pair(&a->low, &out.low)})
      for (auto &[label, c] : *from)
        if (label == zero || *factor == 1)
          (*into)[label] = c * *factor;
  }
}

void negate(const Facts &a, Facts &out) {
  for (auto &[k, bounds] : a.absent)
    out.absent[k == 0 ? 0 : -k] = bounds;
  if (a.affine)
    out.affine = times(*a.affine, -1);
  if (auto c = at(a.low, zero))
    out.high[zero] = -*c;
  if (auto c = at(a.high, zero))
    out.low[zero] = -*c;
}

void choose(const Facts &c, const Facts &a, const Facts &b, bool ofBools, Facts &out) {
  auto either = [&](const Bounds &x, const Bounds &y) { return join(conj(c.whenTrue, x), conj(c.whenFalse, y)); };
  if (ofBools) {
    out.whenTrue = either(a.whenTrue, b.whenTrue);
    out.whenFalse = either(a.whenFalse, b.whenFalse);
  }
  for (const Facts *side : {&a, &b})
    for (auto &[k, unused] : side->absent)
      out.absent[k] = either(absentOf(a, k), absentOf(b, k));
  out.high = pairwise(a.high, b.high, upper, larger, false);
  out.low = pairwise(a.low, b.low, at, smaller, false);
}

void extremum(const Facts &a, const Facts &b, bool isMax, Facts &out) {
  out.high = isMax ? pairwise(a.high, b.high, upper, larger, false) : pairwise(a.high, b.high, at, smaller, true);
  out.low = isMax ? pairwise(a.low, b.low, at, larger, true) : pairwise(a.low, b.low, at, smaller, false);
  for (auto &[k, bounds] : a.absent)
    if (auto other = b.absent.find(k); other != b.absent.end())
      out.absent[k] = join(bounds, other->second);
}

void divide(const Facts &a, const Facts &b, bool remainder, Facts &out) {
  std::optional<int64_t> k = wholeConstant(b);
  if (!k || *k <= 0)
    return;
  bool nonNegative = at(a.low, zero).value_or(-1) >= 0;
  if (nonNegative)
    for (auto &[label, c] : a.high)
      if (label != zero)
        out.high[label] = c;
  if (remainder) {
    out.high[zero] = *k - 1;
    out.low[zero] = 0;
    return;
  }
  if (auto c = at(a.high, zero))
    out.high[zero] = floorDivide(*c, *k);
  if (auto c = at(a.low, zero))
    out.low[zero] = floorDivide(*c, *k);
  if (a.affine)
    out.quotient = {*a.affine, *k};
}

void keep(const Facts &a, Facts &out) {
  Facts base = std::move(out);
  out = a;
  out.dep = base.dep;
}

/// Where x is k and f(k) is 0, the result is 0.
void zeros(const Facts &x, double (*f)(double), std::initializer_list<double> at, Facts &out) {
  for (double k : at)
    if (auto bounds = x.absent.find(k); bounds != x.absent.end() && f(k) == 0)
      out.absent[0] = bounds->second;
}

} // namespace

#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE)                                                                         \
  .Case([&](NAME##Op) { zeros(*x[0], [](double x) -> double { return VALUE; }, {0, -infinity}, out); })
Facts quern::passes::elementwise(Operation *op, ArrayRef<const Facts *> x) {
  Facts out = merged(x);
  bool isBool = cast<NamedTensorType>(op->getResult(0).getType()).isBool();
  TypeSwitch<Operation *>(op)
      .Case([&](NotOp) {
        out.whenTrue = x[0]->whenFalse;
        out.whenFalse = x[0]->whenTrue;
      })
      .Case([&](AndOp) {
        out.whenTrue = conj(x[0]->whenTrue, x[1]->whenTrue);
        out.whenFalse = join(x[0]->whenFalse, x[1]->whenFalse);
      })
      .Case([&](OrOp) {
        out.whenTrue = join(x[0]->whenTrue, x[1]->whenTrue);
        out.whenFalse = conj(x[0]->whenFalse, x[1]->whenFalse);
      })
      .Case([&](CompareOp compareOp) { compare(compareOp, x, out); })
      .Case([&](WhereOp) { choose(*x[0], *x[1], *x[2], isBool, out); })
      .Case([&](AddOp) { sum(*x[0], *x[1], false, out); })
      .Case([&](SubOp) { sum(*x[0], *x[1], true, out); })
      .Case([&](MulOp) { product(*x[0], *x[1], out); })
      .Case([&](NegOp) { negate(*x[0], out); })
      .Case([&](DivOp) {
        bool positive = x[1]->constant && *x[1]->constant > 0;
        for (auto &[k, bounds] : x[0]->absent)
          if (k == 0 || (std::isinf(k) && positive))
            out.absent[k] = bounds;
      })
      .Case([&](MaxOp) { extremum(*x[0], *x[1], true, out); })
      .Case([&](MinOp) { extremum(*x[0], *x[1], false, out); })
      .Case([&](FloorDivOp) { divide(*x[0], *x[1], false, out); })
      .Case([&](ModOp) { divide(*x[0], *x[1], true, out); }) QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
      .Case<AbsOp, FloorOp, CeilOp, RoundOp>([&](auto) { zeros(*x[0], [](double) { return 0.0; }, {0}, out); })
      .Case<ToIntOp, ToRealOp>([&](auto cast) {
        NamedTensorType from = typeOf(cast.getX());
        if (from.isBool()) {
          out.high[zero] = 1;
          out.low[zero] = 0;
          out.absent[0] = x[0]->whenTrue;
          out.absent[1] = x[0]->whenFalse;
        } else if (from.isInt() || !isa<ToIntOp>(cast.getOperation())) {
          keep(*x[0], out);
        }
      });
  return out;
}
