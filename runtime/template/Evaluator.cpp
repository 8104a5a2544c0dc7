// Takes: a parsed template and names. Gives: its text.
#include "runtime/template/Evaluator.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cmath>

namespace quern::runtime::jinja {

const Value *Scope::find(std::string_view name) const {
  for (const Scope *scope = this; scope; scope = scope->outer)
    if (auto found = scope->names.find(name); found != scope->names.end())
      return &found->second;
  return nullptr;
}

void Budget::spend(uint64_t steps) {
  if (steps > left)
    throw UserError("it takes too many steps or makes too much text");
  left -= steps;
}

namespace {

/// Macros can call themselves: the stack is bounded by this.
struct Deeper {
  Budget &budget;
  explicit Deeper(Budget &budget) : budget(budget) {
    if (++budget.depth > 1000)
      throw UserError("macros call each other too deeply");
  }
  ~Deeper() { --budget.depth; }
};

} // namespace

Value Evaluator::made(std::string text) {
  budget.spend(text.size() / 16);
  return text;
}

Value Evaluator::made(List list) {
  budget.spend(list.size());
  return list;
}

void Evaluator::run(const Body &body, Scope &scope, std::string &out) {
  try {
    execute(body, scope, out);
  } catch (const UserError &error) {
    throw UserError(format("line %d of the template: %s", line, error.what()));
  }
}

Evaluator::Flow Evaluator::execute(const Body &body, Scope &scope, std::string &out) {
  for (const std::unique_ptr<Stmt> &stmt : body)
    if (Flow flow = execute(*stmt, scope, out); flow != Flow::Next)
      return flow;
  return Flow::Next;
}

Evaluator::Flow Evaluator::execute(const Stmt &stmt, Scope &scope, std::string &out) {
  Deeper deeper(budget);
  line = stmt.line;
  budget.spend(1);
  switch (stmt.kind) {
  case StmtKind::Text:
    budget.spend(stmt.name.size() / 16);
    out += stmt.name;
    break;
  case StmtKind::Print: {
    std::string text = evaluate(*stmt.value, scope).text();
    budget.spend(text.size() / 16);
    out += text;
    break;
  }
  case StmtKind::If:
    return execute(evaluate(*stmt.value, scope).truth() ? stmt.body : stmt.otherwise, scope, out);
  case StmtKind::For:
    return loop(stmt, scope, out);
  case StmtKind::Set:
    if (stmt.value) {
      assign(*stmt.target, evaluate(*stmt.value, scope), scope);
    } else {
      std::string text;
      Scope inner{&scope, {}};
      execute(stmt.body, inner, text);
      assign(*stmt.target, text, scope);
    }
    break;
  case StmtKind::Macro:
    scope.names[stmt.name] = macro(stmt, scope);
    break;
  case StmtKind::Break:
    return Flow::Break;
  case StmtKind::Continue:
    return Flow::Continue;
  case StmtKind::Group:
    return execute(stmt.body, scope, out);
  }
  return Flow::Next;
}

void Evaluator::assign(const Expr &target, Value value, Scope &scope) {
  if (target.kind == ExprKind::Name) {
    scope.names[target.name] = std::move(value);
  } else if (target.kind == ExprKind::List) {
    List values = elementsOf(value);
    if (values.size() != target.parts.size())
      throw UserError(format("%zu values for %zu names", values.size(), target.parts.size()));
    for (size_t i = 0; i < values.size(); ++i)
      assign(*target.parts[i], values[i], scope);
  } else {
    const Value *space = scope.find(target.parts[0]->name);
    if (!space || !space->dict() || !space->dict()->assignable)
      throw UserError("only attributes of a namespace can be set, not of " + quote(target.parts[0]->name));
    space->dict()->set(target.name, std::move(value));
  }
}

Evaluator::Flow Evaluator::loop(const Stmt &stmt, Scope &scope, std::string &out) {
  List all = elementsOf(evaluate(*stmt.value, scope)), kept;
  auto bind = [&](Scope &inner, const Value &value) {
    if (stmt.targets.size() == 1) {
      inner.names[stmt.targets[0]] = value;
      return;
    }
    List parts = elementsOf(value);
    if (parts.size() != stmt.targets.size())
      throw UserError(format("%zu values for %zu names", parts.size(), stmt.targets.size()));
    for (size_t i = 0; i < parts.size(); ++i)
      inner.names[stmt.targets[i]] = parts[i];
  };
  if (stmt.condition) {
    for (const Value &value : all) {
      Scope inner{&scope, {}};
      bind(inner, value);
      if (evaluate(*stmt.condition, inner).truth())
        kept.push_back(value);
    }
  } else {
    kept = std::move(all);
  }
  if (kept.empty())
    return execute(stmt.otherwise, scope, out);
  int64_t count = int64_t(kept.size());
  for (int64_t i = 0; i < count; ++i) {
    budget.spend(4);
    Scope inner{&scope, {}};
    bind(inner, kept[size_t(i)]);
    Dict state;
    state.entries = {{"index", i + 1},
                     {"index0", i},
                     {"revindex", count - i},
                     {"revindex0", count - i - 1},
                     {"first", i == 0},
                     {"last", i + 1 == count},
                     {"length", count},
                     {"previtem", i > 0 ? kept[size_t(i - 1)] : Value(Undefined{"loop.previtem"})},
                     {"nextitem", i + 1 < count ? kept[size_t(i + 1)] : Value(Undefined{"loop.nextitem"})},
                     {"cycle", Value(Callable([i](const Arguments &call) {
                        if (call.positional.empty())
                          throw UserError("cycle needs values");
                        return call.positional[size_t(i) % call.positional.size()];
                      }))}};
    inner.names["loop"] = std::move(state);
    if (execute(stmt.body, inner, out) == Flow::Break)
      break;
  }
  return Flow::Next;
}

/// `stmt` and `scope` live as long as the run.
Value Evaluator::macro(const Stmt &stmt, Scope &scope) {
  Scope *home = &scope;
  while (home->outer) // a macro sees the template's own names, not a loop's
    home = home->outer;
  return Callable([this, &stmt, home](const Arguments &call) -> Value {
    if (call.positional.size() > stmt.targets.size())
      throw UserError("too many arguments of the macro " + quote(stmt.name));
    for (const auto &[name, value] : call.named)
      if (std::find(stmt.targets.begin(), stmt.targets.end(), name) == stmt.targets.end())
        throw UserError("the macro " + quote(stmt.name) + " has no argument " + quote(name));
    Scope inner{home, {}};
    size_t first = stmt.targets.size() - stmt.defaults.size();
    for (size_t i = 0; i < stmt.targets.size(); ++i) {
      const Value *given = call.find(i, stmt.targets[i]);
      inner.names[stmt.targets[i]] = given        ? *given
                                     : i >= first ? evaluate(*stmt.defaults[i - first], inner)
                                                  : Value(Undefined{stmt.targets[i]});
    }
    int caller = line;
    std::string out;
    execute(stmt.body, inner, out);
    line = caller;
    return made(std::move(out));
  });
}

Arguments Evaluator::arguments(const Expr &expr, size_t from, Scope &scope) {
  Arguments result;
  for (size_t i = from; i < expr.parts.size(); ++i)
    result.positional.push_back(evaluate(*expr.parts[i], scope));
  for (const auto &[name, value] : expr.named)
    result.named.emplace_back(name, evaluate(*value, scope));
  return result;
}

Value Evaluator::call(const Expr &expr, Scope &scope) {
  Value function = evaluate(*expr.parts[0], scope);
  if (!function.callable())
    throw UserError(function.isUndefined() ? quote(function.undefinedName()) + " is not known here"
                                           : std::string(function.kind()) + " is no function");
  return (*function.callable())(arguments(expr, 1, scope));
}

Value Evaluator::slice(const Expr &expr, Scope &scope) {
  Value whole = evaluate(*expr.parts[0], scope);
  if (!whole.string() && !whole.list())
    throw UserError(format("%s has no parts to take", whole.kind()));
  List all = elementsOf(whole), kept;
  int64_t count = int64_t(all.size());
  auto bound = [&](const ExprPtr &part, int64_t fallback) {
    if (!part)
      return fallback;
    Value value = evaluate(*part, scope);
    if (value.isNone())
      return fallback;
    if (!value.integer())
      throw UserError(format("an index is an integer, not %s", value.kind()));
    return *value.integer();
  };
  int64_t step = bound(expr.parts[3], 1);
  if (step == 0)
    throw UserError("a slice's step is not 0");
  int64_t least = step > 0 ? 0 : -1, most = step > 0 ? count : count - 1;
  auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? std::max(at, -count - 1) + count : at, least, most); };
  constexpr int64_t unset = INT64_MIN;
  int64_t from = bound(expr.parts[1], unset), to = bound(expr.parts[2], unset);
  from = from == unset ? (step > 0 ? 0 : count - 1) : clamp(from);
  to = to == unset ? (step > 0 ? count : -1) : clamp(to);
  step = std::clamp(step, -count - 1, count + 1);
  for (int64_t at = from; step > 0 ? at < to : at > to; at += step)
    kept.push_back(all[size_t(at)]);
  if (whole.list())
    return made(std::move(kept));
  std::string text;
  for (const Value &one : kept)
    text += *one.string();
  return made(std::move(text));
}

bool Evaluator::compares(const std::string &how, const Value &a, const Value &b) {
  if (how == "==" || how == "!=")
    return a.equals(b) == (how == "==");
  if (how == "in" || how == "not in")
    return contains(b, a) == (how == "in");
  int order = compare(a, b);
  return how == "<" ? order < 0 : how == "<=" ? order <= 0 : how == ">" ? order > 0 : order >= 0;
}

namespace {

int64_t wholeResult(const std::string &how, int64_t a, int64_t b) {
  int64_t result = 0;
  bool over = how == "+"   ? __builtin_add_overflow(a, b, &result)
              : how == "-" ? __builtin_sub_overflow(a, b, &result)
                           : __builtin_mul_overflow(a, b, &result);
  if (over)
    throw UserError("a number is too large");
  return result;
}

Value numbers(const std::string &how, const Value &a, const Value &b) {
  bool whole = !a.real() && !b.real();
  if ((how == "/" || how == "//" || how == "%") && b.number() == 0)
    throw UserError("division by zero");
  if (whole && (how == "+" || how == "-" || how == "*"))
    return wholeResult(how, a.whole(), b.whole());
  if (whole && (how == "//" || how == "%")) {
    if (b.whole() == -1)
      return how == "%" ? Value(int64_t(0)) : Value(wholeResult("-", 0, a.whole()));
    int64_t quotient = a.whole() / b.whole(), rest = a.whole() % b.whole();
    if (rest != 0 && (rest < 0) != (b.whole() < 0)) { // rounded down, as Python does
      --quotient;
      rest += b.whole();
    }
    return how == "//" ? quotient : rest;
  }
  if (whole && how == "**" && b.whole() >= 0) {
    int64_t result = 1, exponent = b.whole();
    if (exponent > 64 && std::abs(a.number()) > 1)
      throw UserError("a number is too large");
    for (int64_t i = 0; i < std::min<int64_t>(exponent, 64 + exponent % 2); ++i)
      result = wholeResult("*", result, a.whole());
    return result;
  }
  double x = a.number(), y = b.number();
  double floored = std::floor(x / y);
  return how == "+"    ? x + y
         : how == "-"  ? x - y
         : how == "*"  ? x * y
         : how == "/"  ? x / y
         : how == "//" ? floored
         : how == "%"  ? x - floored * y
                       : std::pow(x, y);
}

} // namespace

Value Evaluator::binary(const std::string &how, const Value &a, const Value &b) {
  if (how == "~")
    return made(a.text() + b.text());
  if (a.isNumber() && b.isNumber())
    return numbers(how, a, b);
  if (how == "+" && a.string() && b.string())
    return made(*a.string() + *b.string());
  if (how == "+" && a.list() && b.list()) {
    List all = *a.list();
    all.insert(all.end(), b.list()->begin(), b.list()->end());
    return made(std::move(all));
  }
  if (how == "*" && ((a.string() && b.integer()) || (a.integer() && b.string()))) {
    const std::string &text = a.string() ? *a.string() : *b.string();
    int64_t times = std::max<int64_t>(0, a.string() ? *b.integer() : *a.integer());
    budget.spend(uint64_t(std::min(double(text.size()) * double(times) / 16, 1e12)) + uint64_t(times));
    std::string all;
    for (int64_t i = 0; i < times; ++i)
      all += text;
    return all;
  }
  for (const Value *value : {&a, &b})
    if (value->isUndefined())
      throw UserError(quote(value->undefinedName()) + " is not known here");
  throw UserError(format("%s %s %s cannot be computed", a.kind(), how.c_str(), b.kind()));
}

Value Evaluator::evaluate(const Expr &expr, Scope &scope) {
  Deeper deeper(budget);
  budget.spend(1);
  line = expr.line;
  switch (expr.kind) {
  case ExprKind::Constant:
    return expr.value;
  case ExprKind::Name: {
    const Value *found = scope.find(expr.name);
    return found ? *found : Value(Undefined{expr.name});
  }
  case ExprKind::List: {
    List list;
    for (const ExprPtr &part : expr.parts)
      list.push_back(evaluate(*part, scope));
    return made(std::move(list));
  }
  case ExprKind::Dict: {
    Dict dict;
    for (size_t i = 0; i < expr.parts.size(); i += 2) {
      Value key = evaluate(*expr.parts[i], scope);
      dict.set(key.text(), evaluate(*expr.parts[i + 1], scope));
    }
    return dict;
  }
  case ExprKind::Attribute:
    return attributeOf(evaluate(*expr.parts[0], scope), expr.name, budget);
  case ExprKind::Item: {
    Value value = evaluate(*expr.parts[0], scope), key = evaluate(*expr.parts[1], scope);
    return itemOf(value, key);
  }
  case ExprKind::Slice:
    return slice(expr, scope);
  case ExprKind::Call:
    return call(expr, scope);
  case ExprKind::Filter:
    return applyFilter(expr.name, arguments(expr, 0, scope), budget);
  case ExprKind::Test:
    return applyTest(expr.name, arguments(expr, 0, scope));
  case ExprKind::Unary: {
    Value value = evaluate(*expr.parts[0], scope);
    if (expr.name == "not")
      return !value.truth();
    if (!value.isNumber())
      throw UserError(format("%s has no sign", value.kind()));
    return expr.name == "-" ? numbers("-", int64_t(0), value) : numbers("+", int64_t(0), value);
  }
  case ExprKind::Binary: {
    Value left = evaluate(*expr.parts[0], scope);
    if (expr.name == "and")
      return left.truth() ? evaluate(*expr.parts[1], scope) : left;
    if (expr.name == "or")
      return left.truth() ? left : evaluate(*expr.parts[1], scope);
    return binary(expr.name, left, evaluate(*expr.parts[1], scope));
  }
  case ExprKind::Compare: {
    Value left = evaluate(*expr.parts[0], scope);
    for (size_t i = 0; i < expr.names.size(); ++i) {
      Value right = evaluate(*expr.parts[i + 1], scope);
      if (!compares(expr.names[i], left, right))
        return false;
      left = std::move(right);
    }
    return true;
  }
  case ExprKind::Choice:
    if (evaluate(*expr.parts[0], scope).truth())
      return evaluate(*expr.parts[1], scope);
    return expr.parts[2] ? evaluate(*expr.parts[2], scope) : Value();
  }
  return Value();
}

} // namespace quern::runtime::jinja
