// Takes: expressions. Gives: values: computed now where all is static, else tensors that the builder writes down.
#include "frontend/check/Elaborator.h"

#include <algorithm>
#include <cmath>

namespace quern::frontend {

static constexpr size_t maxStringBytes = 1u << 16, maxTerms = 32, maxDegree = 8;
static constexpr int64_t maxCoefficient = int64_t(1) << 62;

Value Elaborator::eval(const Expr &expr, Scope &scope) {
  step(expr.at);
  switch (expr.kind) {
  case Expr::Integer:
    return expr.as<IntegerExpr>().value;
  case Expr::Real:
    return expr.as<RealExpr>().value;
  case Expr::True:
    return true;
  case Expr::False:
    return false;
  case Expr::Null:
    return Null{};
  case Expr::String:
    return evalString(expr.as<StringExpr>(), scope);
  case Expr::Variable:
    return evalName(expr.as<NamedExpr>(), scope);
  case Expr::List: {
    auto list = std::make_shared<std::vector<Value>>();
    for (const Expr *element : expr.as<ListExpr>().values)
      list->push_back(single(eval(*element, scope), element->at));
    return ListRef(std::move(list));
  }
  case Expr::Tuple: {
    auto several = std::make_shared<Several>();
    for (const Expr *element : expr.as<ListExpr>().values)
      several->values.push_back(single(eval(*element, scope), element->at));
    return std::shared_ptr<const Several>(several);
  }
  case Expr::Unary:
    return evalUnary(expr.as<UnaryExpr>(), scope);
  case Expr::Binary:
    return evalBinary(expr, scope);
  case Expr::Chain:
    return evalChain(expr.as<ChainExpr>(), scope);
  case Expr::Choose: {
    auto &choose = expr.as<ChooseExpr>();
    return eval(condition(*choose.condition, scope) ? *choose.then : *choose.otherwise, scope);
  }
  case Expr::Member:
    return evalMember(expr.as<MemberExpr>(), scope);
  case Expr::Index:
    return brackets(expr.as<IndexExpr>(), scope);
  case Expr::Call:
    return call(expr.as<CallExpr>(), scope);
  case Expr::DimName:
    return Value::ofSize(label(expr, scope)->size);
  case Expr::Unit:
    return int64_t(1);
  case Expr::Sum:
    return Value::ofSize(extent(expr, scope)); // in a list's brackets: [1 + 1]
  default:
    fail("Q012", "a value is needed here, not a dimension", expr.at);
  }
}

Value Elaborator::single(Value value, Span at) const {
  if (const Several *several = value.several())
    fail("Q017", std::to_string(several->values.size()) + " values where one is needed", at);
  return value;
}

Value Elaborator::evalString(const StringExpr &expr, Scope &scope) {
  std::string text = expr.texts[0];
  for (size_t i = 0; i < expr.values.size(); ++i) {
    Value value = eval(*expr.values[i], scope);
    auto part = interpolated(value);
    text += part ? *part : describe(value);
    text += expr.texts[i + 1];
    if (text.size() > maxStringBytes)
      fail("Q001", "a string of more than 64 KB", expr.at);
  }
  return text;
}

Value Elaborator::evalName(const NamedExpr &expr, Scope &scope) {
  Scope *holder = scope.holder(expr.name);
  if (!holder) {
    std::vector<std::string> known;
    for (Scope *s = &scope; s; s = s->parent)
      for (const auto &[name, value] : s->values)
        known.push_back(name);
    bool state = !scans.empty() && scans.back()->scope == &scope && scans.back()->named.count(expr.name);
    const Value *given = config.find({expr.name});
    fail("Q010",
         "unknown name '" + expr.name + "'" +
             (state   ? "; a state needs a value before the scan: " + expr.name + ": [...] = 0"
              : given ? "; config.json has it: declare it, with a default: config { " + expr.name + " = " +
                            describe(*given) + " }"
                      : didYouMean(expr.name, known)),
         expr.at);
  }
  const Value &value = holder->values[expr.name];
  if (value.is<Poison>())
    throw Poisoned();
  if (auto tensor = value.as<Tensor>(); tensor && !scans.empty())
    for (DimRef dim : tensor->dims)
      if (scanOf(dim->twinOf))
        fail("Q037",
             "'" + expr.name + "' has " + dim->shown + ", a twin of " + dim->twinOf->shown +
                 ": it holds all positions, and a scan sees them one after the other",
             expr.at, declaredHere(dim));
  return value;
}

Value Elaborator::evalMember(const MemberExpr &expr, Scope &scope) {
  Value value = eval(*expr.value, scope);
  if (value.isNull())
    return value;
  auto object = value.as<ObjectRef>();
  if (!object)
    fail("Q018", "'." + expr.name + "' needs a config object", expr.at);
  return member(**object, expr.name);
}

Value Elaborator::member(const Object &object, const std::string &name) {
  object.read.insert(name);
  const Value *field = object.find(name);
  return field ? *field : Value();
}

// ---- tensors from values

Tensor Elaborator::tensorOf(const Value &value) {
  if (auto tensor = value.as<Tensor>())
    return *tensor;
  if (auto size = value.as<ir::Size>())
    return {{}, Kind::Int, builder.size(*size)};
  if (auto n = value.as<int64_t>())
    return {{}, Kind::Int, builder.constant(*n)};
  if (auto x = value.as<double>())
    return {{}, Kind::Real, builder.constant(*x)};
  return {{}, Kind::Bool, builder.constant(*value.as<bool>())};
}

Tensor Elaborator::tensorNamed(const Value &value, const std::string &user, Span at) {
  if (!value.kind())
    fail("Q025", "'" + user + "' cannot use " + describe(value), at);
  return tensorOf(value);
}

Tensor Elaborator::asKind(Tensor tensor, Kind kind) {
  if (tensor.kind == kind)
    return tensor;
  return {tensor.dims, kind, builder.unary(kind == Kind::Real ? UnaryOp::ToReal : UnaryOp::ToInt, tensor.handle)};
}

Tensor Elaborator::expandTo(Tensor tensor, const DimRefs &dims) {
  bool lacks = std::any_of(dims.begin(), dims.end(), [&](DimRef dim) { return !tensor.has(dim); });
  return {dims, tensor.kind, lacks ? builder.expand(tensor.handle, dims) : tensor.handle};
}

// ---- operators

Value Elaborator::evalUnary(const UnaryExpr &expr, Scope &scope) {
  Value value = single(eval(*expr.value, scope), expr.value->at);
  if (expr.op == Op::Not) {
    if (value.kind() != Kind::Bool)
      fail("Q025", "'not' needs true/false values, not " + describe(value), expr.at);
    if (auto truth = value.as<bool>())
      return !*truth;
    Tensor tensor = *value.as<Tensor>();
    return Tensor{tensor.dims, Kind::Bool, builder.unary(UnaryOp::Not, tensor.handle)};
  }
  if (!value.kind() || value.kind() == Kind::Bool)
    fail("Q025", "cannot negate " + describe(value), expr.at);
  if (auto n = value.as<int64_t>()) {
    if (*n == INT64_MIN)
      fail("Q027", "the result does not fit 64 bits", expr.at);
    return -*n;
  }
  if (auto x = value.as<double>())
    return -*x;
  if (auto size = value.as<ir::Size>())
    return Value::ofSize(checkedSize(Op::Sub, ir::Size(0), *size, expr.at));
  Tensor tensor = *value.as<Tensor>();
  return Tensor{tensor.dims, tensor.kind, builder.unary(UnaryOp::Neg, tensor.handle)};
}

/// Long sums are deep on their left: that side is walked, not recursed into.
Value Elaborator::evalBinary(const Expr &expr, Scope &scope) {
  std::vector<const BinaryExpr *> spine;
  const Expr *node = &expr;
  for (; node->kind == Expr::Binary; node = node->as<BinaryExpr>().left)
    spine.push_back(&node->as<BinaryExpr>());
  Value value = eval(*node, scope);
  for (auto it = spine.rbegin(); it != spine.rend(); ++it)
    value = applyBinary((*it)->op, value, (*it)->left, *(*it)->right, scope, (*it)->at);
  return value;
}

Value Elaborator::applyBinary(Op op, const Value &left, const Expr *leftExpr, const Expr &rightExpr, Scope &scope,
                              Span at) {
  step(at);
  if (op == Op::Else)
    return left.isNull() ? eval(rightExpr, scope) : left;
  if (auto truth = left.as<bool>(); truth && (op == Op::And || op == Op::Or) && *truth == (op == Op::Or))
    return left;
  Value right = eval(rightExpr, scope);
  single(left, leftExpr->at);
  single(right, rightExpr.at);
  builder.place(at);
  return combine(op, left, right, leftExpr->at, rightExpr.at, at);
}

/// a <= b < c is a <= b and b < c, each computed once.
Value Elaborator::evalChain(const ChainExpr &expr, Scope &scope) {
  Value left = single(eval(*expr.operands[0], scope), expr.operands[0]->at), all = true;
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    const Expr &rightExpr = *expr.operands[i + 1];
    Value right = single(eval(rightExpr, scope), rightExpr.at);
    builder.place(expr.at);
    Value link = combine(expr.ops[i], left, right, expr.operands[i]->at, rightExpr.at, expr.at);
    all = i ? logic(Op::And, all, link, expr.at) : link;
    if (auto truth = all.as<bool>(); truth && !*truth)
      return all;
    left = right;
  }
  return all;
}

/// and, or of booleans; a static side decides or disappears.
Value Elaborator::logic(Op op, const Value &left, const Value &right, Span at) {
  if (left.kind() != Kind::Bool || right.kind() != Kind::Bool)
    fail("Q025",
         std::string("'") + spelling(op) + "' needs true/false on both sides, not " + describe(left) + " and " +
             describe(right),
         at);
  auto neutral = [&](const Value &value) { return value.is<bool>() && *value.as<bool>() == (op == Op::And); };
  if (neutral(left))
    return right;
  if (neutral(right) || left.is<bool>())
    return left;
  return elementwise(op, left, right, Kind::Bool);
}

Value Elaborator::combine(Op op, const Value &left, const Value &right, Span leftAt, Span rightAt, Span at) {
  std::string name = std::string("'") + spelling(op) + "'";
  if (op == Op::In || op == Op::NotIn) {
    auto list = right.as<ListRef>();
    if (!list)
      fail("Q025", name + " needs a list on its right, not " + describe(right), rightAt);
    size_t budget = 1'000'000;
    bool found = std::any_of((*list)->begin(), (*list)->end(),
                             [&](const Value &element) { return equalStatic(left, element, budget); });
    return found == (op == Op::In);
  }
  bool equality = op == Op::Equal || op == Op::NotEqual;
  if (equality && (!left.kind() || !right.kind())) {
    if (left.isNull() || right.isNull())
      return (left.isNull() && right.isNull()) == (op == Op::Equal);
    if (!sameSort(left, right))
      fail("Q025", name + " compares " + describe(left) + " with " + describe(right), at);
    size_t budget = 1'000'000;
    return equalStatic(left, right, budget) == (op == Op::Equal);
  }
  if (!left.kind())
    fail("Q025", name + " cannot use " + describe(left), leftAt);
  if (!right.kind())
    fail("Q025", name + " cannot use " + describe(right), rightAt);
  if (op == Op::And || op == Op::Or)
    return logic(op, left, right, at);
  bool bools = left.kind() == Kind::Bool || right.kind() == Kind::Bool;
  if (bools && !(equality && left.kind() == right.kind()))
    fail("Q025", name + " cannot use true/false values; write where(condition, a, b), or int(condition) to count", at);
  bool ints = left.kind() == Kind::Int && right.kind() == Kind::Int;
  if ((op == Op::FloorDiv || op == Op::Mod) && !ints)
    fail("Q025", name + " needs integers, not " + kindName(*left.kind()) + " and " + kindName(*right.kind()), at);
  if (!left.is<Tensor>() && !right.is<Tensor>())
    if (auto known = fold(op, left, right, at))
      return *known;
  if ((op == Op::Div || op == Op::FloorDiv || op == Op::Mod) && right.isStaticNumber() && right.number() == 0)
    fail("Q027", "division by zero", at);
  bool compares = op >= Op::Less && op <= Op::NotEqual;
  return elementwise(op, left, right,
                     compares                         ? Kind::Bool
                     : op == Op::Div || op == Op::Pow ? Kind::Real
                     : ints                           ? Kind::Int
                                                      : Kind::Real);
}

static BinaryOp builderOp(Op op) {
  switch (op) {
  case Op::Or:
    return BinaryOp::Or;
  case Op::And:
    return BinaryOp::And;
  case Op::Less:
    return BinaryOp::Less;
  case Op::LessEqual:
    return BinaryOp::LessEqual;
  case Op::Greater:
    return BinaryOp::Greater;
  case Op::GreaterEqual:
    return BinaryOp::GreaterEqual;
  case Op::Equal:
    return BinaryOp::Equal;
  case Op::NotEqual:
    return BinaryOp::NotEqual;
  case Op::Add:
    return BinaryOp::Add;
  case Op::Sub:
    return BinaryOp::Sub;
  case Op::Mul:
    return BinaryOp::Mul;
  case Op::Div:
    return BinaryOp::Div;
  case Op::FloorDiv:
    return BinaryOp::FloorDiv;
  case Op::Mod:
    return BinaryOp::Mod;
  default:
    return BinaryOp::Pow;
  }
}

Tensor Elaborator::elementwise(Op op, const Value &left, const Value &right, Kind kind) {
  // x + 0 and x * 1 come from defaults of the library (bias = 0, scale: 1): they leave no trace.
  auto isNumber = [](const Value &value, double number) { return value.isStaticNumber() && value.number() == number; };
  if (left.is<Tensor>() && ((isNumber(right, 0) && (op == Op::Add || op == Op::Sub)) ||
                            (isNumber(right, 1) && (op == Op::Mul || op == Op::Div))))
    return asKind(*left.as<Tensor>(), kind);
  if (right.is<Tensor>() && ((isNumber(left, 0) && op == Op::Add) || (isNumber(left, 1) && op == Op::Mul)))
    return asKind(*right.as<Tensor>(), kind);
  Tensor a = tensorOf(left), b = tensorOf(right);
  return {unite({a.dims, b.dims}), kind, builder.binary(builderOp(op), a.handle, b.handle)};
}

// ---- arithmetic of numbers and sizes

/// a op b of polynomials, refused where integers or the polynomial itself would get out of hand.
ir::Size Elaborator::checkedSize(Op op, const ir::Size &a, const ir::Size &b, Span at) const {
  auto bound = [](const ir::Size &size) {
    __int128 most = 0;
    for (const auto &[monomial, coefficient] : size.getTerms())
      most += coefficient < 0 ? -static_cast<__int128>(coefficient) : coefficient;
    return most;
  };
  auto degree = [](const ir::Size &size) {
    size_t most = 0;
    for (const auto &[monomial, coefficient] : size.getTerms())
      most = std::max(most, monomial.size());
    return most;
  };
  __int128 x = bound(a), y = bound(b);
  bool fits =
      op == Op::Mul ? x < maxCoefficient && y < maxCoefficient && x * y < maxCoefficient : x + y < maxCoefficient;
  bool simple = op != Op::Mul ||
                (a.getTerms().size() * b.getTerms().size() <= maxTerms * 4 && degree(a) + degree(b) <= maxDegree);
  if (!fits || !simple)
    fail("Q022", "this size is too large to compute with", at);
  ir::Size result = op == Op::Mul ? a * b : op == Op::Add ? a + b : a - b;
  if (result.getTerms().size() > maxTerms)
    fail("Q022", "this size is too large to compute with", at);
  return result;
}

static int64_t floorDivide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/// Integer arithmetic that fits 64 bits; nothing where it would not.
static std::optional<int64_t> integers(Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
  case Op::Add:
    overflow = __builtin_add_overflow(a, b, &result);
    break;
  case Op::Sub:
    overflow = __builtin_sub_overflow(a, b, &result);
    break;
  case Op::Mul:
    overflow = __builtin_mul_overflow(a, b, &result);
    break;
  case Op::Div:
  case Op::FloorDiv:
    overflow = a == INT64_MIN && b == -1;
    result = overflow ? 0 : floorDivide(a, b);
    break;
  case Op::Mod:
    result = b == -1 ? 0 : a - b * floorDivide(a, b);
    break;
  case Op::Pow:
    result = 1;
    if (a == 0 || a == 1)
      result = b == 0 ? 1 : a;
    else if (a == -1)
      result = b % 2 ? -1 : 1;
    else
      for (int64_t i = 0; i < b && !overflow; ++i)
        overflow = __builtin_mul_overflow(result, a, &result);
    break;
  default:
    break;
  }
  return overflow ? std::nullopt : std::optional(result);
}

static std::optional<bool> compared(Op op, double a, double b) {
  switch (op) {
  case Op::Less:
    return a < b;
  case Op::LessEqual:
    return a <= b;
  case Op::Greater:
    return a > b;
  case Op::GreaterEqual:
    return a >= b;
  case Op::Equal:
    return a == b;
  case Op::NotEqual:
    return a != b;
  default:
    return std::nullopt;
  }
}

/// Arithmetic and comparison of what is known now; nothing if only a run knows.
std::optional<Value> Elaborator::fold(Op op, const Value &left, const Value &right, Span at) {
  if (left.is<bool>())
    return (*left.as<bool>() == *right.as<bool>()) == (op == Op::Equal);
  if (left.is<ir::Size>() || right.is<ir::Size>()) {
    if (left.is<double>() || right.is<double>())
      return std::nullopt;
    ir::Size a = left.is<ir::Size>() ? *left.as<ir::Size>() : ir::Size(*left.as<int64_t>());
    ir::Size b = right.is<ir::Size>() ? *right.as<ir::Size>() : ir::Size(*right.as<int64_t>());
    if (op == Op::Add || op == Op::Sub || op == Op::Mul)
      return Value::ofSize(checkedSize(op, a, b, at));
    if ((op == Op::Div || op == Op::FloorDiv) && b.isConstant() && *b.constant() > 0)
      if (auto exact = a.divided(*b.constant()))
        return Value::ofSize(*exact);
    if ((op == Op::Equal || op == Op::NotEqual) && a == b)
      return op == Op::Equal;
    return std::nullopt;
  }
  bool ints = left.is<int64_t>() && right.is<int64_t>();
  int64_t a = ints ? *left.as<int64_t>() : 0, b = ints ? *right.as<int64_t>() : 0;
  if ((op == Op::Div || op == Op::FloorDiv || op == Op::Mod) && right.number() == 0)
    fail("Q027", "division by zero", at);
  if (ints && op >= Op::Less && op <= Op::NotEqual)
    return op == Op::Less           ? a < b
           : op == Op::LessEqual    ? a <= b
           : op == Op::Greater      ? a > b
           : op == Op::GreaterEqual ? a >= b
                                    : (a == b) == (op == Op::Equal);
  if (auto truth = compared(op, left.number(), right.number()))
    return *truth;
  if (ints && !(op == Op::Div && b != -1 && a % b != 0) && !(op == Op::Pow && b < 0)) {
    if (auto result = integers(op, a, b))
      return *result;
    fail("Q027", "the result does not fit 64 bits", at);
  }
  double x = left.number(), y = right.number(), result = 0;
  if (op == Op::Pow && x == 0 && y < 0)
    fail("Q027", "division by zero", at);
  switch (op) {
  case Op::Add:
    result = x + y;
    break;
  case Op::Sub:
    result = x - y;
    break;
  case Op::Mul:
    result = x * y;
    break;
  case Op::Div:
    result = x / y;
    break;
  default:
    result = std::pow(x, y);
    break;
  }
  if (std::isnan(result) && !std::isnan(x) && !std::isnan(y))
    fail("Q027",
         "the result of '" + std::string(spelling(op)) + "' is no number: " + describe(left) + " and " +
             describe(right),
         at);
  return result;
}

} // namespace quern::frontend
