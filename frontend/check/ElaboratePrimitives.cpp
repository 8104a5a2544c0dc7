// Takes: calls of the language's own operations. Gives: their values. docs/language.md, section 6, in order.
#include "frontend/check/Elaborator.h"

#include "support/Utf8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::frontend {

static const std::vector<std::pair<std::string, UnaryOp>> unaries = [] {
  std::vector<std::pair<std::string, UnaryOp>> table = {{"abs", UnaryOp::Abs},   {"floor", UnaryOp::Floor},
                                                        {"ceil", UnaryOp::Ceil}, {"round", UnaryOp::Round},
                                                        {"int", UnaryOp::ToInt}, {"real", UnaryOp::ToReal}};
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) table.push_back({#WORD, UnaryOp::NAME});
  QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
#undef QUERN_REAL_FUNCTION
  return table;
}();
static const std::vector<std::pair<std::string, Reduction>> reductions = {
    {"sum", Reduction::Sum}, {"mean", Reduction::Mean}, {"max", Reduction::Max},
    {"min", Reduction::Min}, {"any", Reduction::Any},   {"all", Reduction::All}};

template <typename Entry>
static const Entry *find(const std::vector<std::pair<std::string, Entry>> &table, const std::string &name) {
  for (const auto &[key, entry] : table)
    if (key == name)
      return &entry;
  return nullptr;
}

bool isReduction(const std::string &name) {
  return find(reductions, name);
}

bool takesDims(const std::string &name) {
  static const std::set<std::string> more = {"softmax", "cumsum", "top_k", "concat", "argmax", "values"};
  return isReduction(name) || more.count(name);
}

const std::vector<std::string> &primitiveNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"softmax", "cumsum", "top_k", "concat", "argmax",
                                    "values",  "index",  "where", "len",    "bool"};
    for (const auto &[name, op] : unaries)
      all.push_back(name);
    for (const auto &[name, op] : reductions)
      all.push_back(name);
    return all;
  }();
  return names;
}

bool isPrimitive(const std::string &name) {
  return std::find(primitiveNames().begin(), primitiveNames().end(), name) != primitiveNames().end();
}

Value Elaborator::primitive(const CallExpr &expr, Scope &scope) {
  if (!expr.path.empty())
    fail("Q019", "'" + expr.name + "' is a primitive and has no parameters for @ to name", expr.at);
  for (const Argument &argument : expr.arguments)
    if (!argument.name.empty())
      fail("Q015", "'" + expr.name + "' takes no named arguments", argument.nameAt);
  if (expr.name == "index")
    return position(expr, scope);
  if (!expr.dims.empty() && !takesDims(expr.name))
    fail("Q019", "'" + expr.name + "' works element by element and takes no dimensions", expr.at);

  // sum[K](q * k): the product is never formed.
  const Expr *only = expr.arguments.size() == 1 ? expr.arguments[0].value : nullptr;
  if (expr.name == "sum" && !expr.dims.empty() && only && only->kind == Expr::Binary &&
      only->as<BinaryExpr>().op == Op::Mul) {
    auto &product = only->as<BinaryExpr>();
    Value left = single(eval(*product.left, scope), product.left->at),
          right = single(eval(*product.right, scope), product.right->at);
    builder.place(expr.at);
    auto a = left.as<Tensor>(), b = right.as<Tensor>();
    bool numbers =
        a && b && a->kind != Kind::Bool && b->kind != Kind::Bool && (a->kind == Kind::Real || b->kind == Kind::Real);
    if (!numbers)
      return overDims(expr, {combine(Op::Mul, left, right, product.left->at, product.right->at, product.at)}, scope);
    DimRefs all = unite({a->dims, b->dims}), kept;
    DimRefs gone = over(expr, all, scope);
    for (DimRef dim : all)
      if (std::find(gone.begin(), gone.end(), dim) == gone.end())
        kept.push_back(dim);
    return Tensor{kept, Kind::Real, builder.contract(a->handle, b->handle, gone)};
  }

  std::vector<Value> values;
  for (const Argument &argument : expr.arguments)
    values.push_back(eval(*argument.value, scope));
  if (values.size() == 1 && values[0].several())
    values = std::vector<Value>(values[0].several()->values);
  else
    for (size_t i = 0; i < values.size(); ++i)
      single(values[i], expr.arguments[i].value->at);
  builder.place(expr.at);
  return expr.dims.empty() ? pointwise(expr, values) : overDims(expr, std::move(values), scope);
}

Value Elaborator::position(const CallExpr &expr, Scope &scope) {
  if (!expr.dims.empty() || expr.arguments.size() != 1 || expr.arguments[0].value->kind != Expr::DimName)
    fail("Q019", "index takes one dimension: index(T)", expr.at);
  DimRef dim = label(*expr.arguments[0].value, scope);
  if (scanOf(dim)) {
    builder.place(expr.at);
    return Tensor{{}, Kind::Int, builder.scanPosition(dim)};
  }
  apart(dim, expr.at);
  builder.place(expr.at);
  return Tensor{{dim}, Kind::Int, builder.index(dim)};
}

// ---- over dimensions

/// The dimensions in brackets, each of which the value has; `..` is all of them.
DimRefs Elaborator::over(const CallExpr &expr, const DimRefs &dims, Scope &scope) {
  if (expr.dims.size() == 1 && expr.dims[0].value->kind == Expr::Rest) {
    for (DimRef dim : dims)
      apart(dim, expr.at);
    return dims;
  }
  DimRefs labels;
  for (const Item &item : expr.dims) {
    if (item.arrow)
      fail("Q019", "'" + expr.name + "' takes dimensions without '->': " + expr.name + "[D](x)", expr.at);
    DimRef dim = label(*item.value, scope);
    apart(dim, expr.at);
    if (std::find(dims.begin(), dims.end(), dim) == dims.end())
      fail("Q021",
           expr.name + "[" + dim->shown + "]: the value has no dimension " + dim->shown + "; it is " + shownDims(dims),
           expr.at);
    if (std::find(labels.begin(), labels.end(), dim) != labels.end())
      fail("Q026", dim->shown + " is named twice", item.value->at);
    labels.push_back(dim);
  }
  return labels;
}

DimRef Elaborator::oneDim(const CallExpr &expr, Scope &scope) {
  if (expr.dims.size() != 1)
    fail("Q019", "'" + expr.name + "' takes one dimension: " + expr.name + "[D](x)", expr.at);
  return label(*expr.dims[0].value, scope);
}

Value Elaborator::overDims(const CallExpr &expr, std::vector<Value> values, Scope &scope) {
  const std::string &name = expr.name;
  if (name == "concat")
    return concat(expr, values, scope);
  if (name == "values")
    return valuesOf(expr, values, scope);
  if (values.size() != 1)
    fail("Q015", name + "[...] takes one value, " + std::to_string(values.size()) + " given", expr.at);
  Tensor value = tensorNamed(values[0], name, expr.arguments[0].value->at);
  if (name == "top_k")
    return topK(expr, value, scope);
  if (name == "cumsum" || name == "argmax")
    oneDim(expr, scope);
  DimRefs labels = over(expr, value.dims, scope);
  bool logic = name == "any" || name == "all";
  if (logic != (value.kind == Kind::Bool))
    fail("Q025",
         "'" + name + "' cannot use " + kindName(value.kind) + " values" +
             (name == "sum" ? "; to count, sum int(condition)" : ""),
         expr.at);
  if (name == "softmax")
    return Tensor{value.dims, Kind::Real, builder.softmax(value.handle, labels)};
  if (name == "cumsum")
    return Tensor{value.dims, value.kind, builder.cumsum(value.handle, labels[0])};
  DimRefs kept;
  for (DimRef dim : value.dims)
    if (std::find(labels.begin(), labels.end(), dim) == labels.end())
      kept.push_back(dim);
  if (name == "argmax")
    return Tensor{kept, Kind::Int, builder.argmax(value.handle, labels[0])};
  Reduction reduction = *find(reductions, name);
  Kind kind = reduction == Reduction::Mean ? Kind::Real : value.kind;
  if (labels.empty()) // sum[..] of a number
    return asKind(value, kind);
  return Tensor{kept, kind, builder.reduce(reduction, value.handle, labels)};
}

Value Elaborator::concat(const CallExpr &expr, const std::vector<Value> &values, Scope &scope) {
  if (expr.dims.size() != 2 || !expr.dims[1].arrow || !expr.dims[0].value->isDim() || !expr.dims[1].value->isDim())
    fail("Q019", "concat takes the parts and the whole: concat[A + B -> C](a, b)", expr.at);
  const Expr &parts = *expr.dims[0].value, &whole = *expr.dims[1].value;
  ir::Size total = extent(parts, scope), size = extent(whole, scope);
  if (leaves(parts) != values.size())
    fail("Q017",
         "concat: " + dimText(parts) + " names " + std::to_string(leaves(parts)) + " parts, " +
             std::to_string(values.size()) + " given",
         expr.at);
  if (leaves(whole) != 1)
    fail("Q012", "concat makes one dimension, not " + dimText(whole), whole.at);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < values.size(); ++i)
    tensors.push_back(
        tensorNamed(values[i], expr.name, i < expr.arguments.size() ? expr.arguments[i].value->at : expr.at));
  batchIn(parts, scope);
  // Straight into the whole where that is one new name; else by way of a nameless dimension.
  DimRef into = whole.kind == Expr::DimName ? label(whole, scope) : nullptr;
  if (into && total != size)
    fail("Q020", into->shown + " is " + size.str() + ", but " + dimText(parts) + " is " + total.str(), expr.at,
         declaredHere(into));
  bool direct = into && parts.kind != Expr::DimName && parts.kind != Expr::Unit;
  for (const Tensor &tensor : tensors)
    direct = direct && !tensor.has(into);
  auto [value, dim] = merge(std::move(tensors), parts, scope, expr.at, direct ? into : nullptr);
  return split(value, dim, whole, scope, expr.at).front();
}

Value Elaborator::valuesOf(const CallExpr &expr, const std::vector<Value> &values, Scope &scope) {
  DimRef dim = oneDim(expr, scope);
  auto list = values.size() == 1 ? values[0].as<ListRef>() : nullptr;
  bool good = list && dim->size.isConstant() && static_cast<int64_t>((*list)->size()) == *dim->size.constant();
  std::vector<double> numbers;
  for (const Value &number : good ? **list : std::vector<Value>()) {
    good &= number.isStaticNumber();
    numbers.push_back(number.isStaticNumber() ? number.number() : 0);
  }
  if (!good)
    fail("Q020",
         "values[" + dim->shown + "] needs a list of " + dim->size.str() + " numbers" +
             (values.size() == 1 ? ", not " + describe(values[0]) : ""),
         expr.at, declaredHere(dim));
  return Tensor{{dim}, Kind::Real, builder.values(dim, numbers)};
}

Value Elaborator::topK(const CallExpr &expr, const Tensor &value, Scope &scope) {
  if (expr.dims.size() != 2 || !expr.dims[1].arrow)
    fail("Q019", "top_k takes two dimensions: top_k[E -> C](x)", expr.at);
  DimRef from = label(*expr.dims[0].value, scope), into = label(*expr.dims[1].value, scope);
  apart(from, expr.at);
  if (!value.has(from))
    fail("Q021", "top_k: the value has no dimension " + from->shown + "; it is " + shownDims(value.dims), expr.at);
  if (value.kind == Kind::Bool)
    fail("Q025", "'top_k' cannot use bool values", expr.at);
  if (into != from && value.has(into))
    fail("Q026", "the result would have " + into->shown + " twice: " + shownDims(value.dims) + " already has it",
         expr.at);
  if (from->size.isConstant() && into->size.isConstant() && *into->size.constant() > *from->size.constant())
    fail("Q020",
         "top_k: " + into->shown + " is " + into->size.str() + ", more than " + from->shown + " with " +
             from->size.str(),
         expr.at, declaredHere(into));
  DimRefs dims;
  for (DimRef dim : value.dims)
    if (dim != from)
      dims.push_back(dim);
  dims.push_back(into);
  auto [largest, positions] = builder.topK(value.handle, from, into);
  auto several = std::make_shared<Several>();
  several->values = {Tensor{dims, value.kind, largest}, Tensor{dims, Kind::Int, positions}};
  return std::shared_ptr<const Several>(several);
}

// ---- element by element

Value Elaborator::pointwise(const CallExpr &expr, const std::vector<Value> &values) {
  const std::string &name = expr.name;
  bool larger = name == "max", extreme = larger || name == "min";
  if (takesDims(name) && !extreme)
    fail("Q019", "'" + name + "' needs its dimension: " + name + "[D](x)", expr.at);
  size_t want = name == "where" ? 3 : extreme ? 2 : 1;
  if (values.size() != want)
    fail("Q015",
         "'" + name + "' takes " + std::to_string(want) + (want > 1 ? " values, " : " value, ") +
             std::to_string(values.size()) + " given" +
             (extreme ? "; to reduce, name the dimension: " + name + "[D](x)" : ""),
         expr.at);
  if (name == "len") {
    if (auto object = values[0].as<ObjectRef>())
      return static_cast<int64_t>((*object)->fields.size());
    if (auto text = values[0].as<std::string>())
      return static_cast<int64_t>(support::utf8Count(*text));
    auto list = values[0].as<ListRef>();
    if (!list)
      fail("Q025", "'len' needs a list, a string or a config object, not " + describe(values[0]), expr.at);
    return static_cast<int64_t>((*list)->size());
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (!values[i].kind())
      fail("Q025", "'" + name + "' cannot use " + describe(values[i]),
           i < expr.arguments.size() ? expr.arguments[i].value->at : expr.at);
  if (name == "where")
    return choose(expr, values);
  if (name == "bool") {
    if (values[0].kind() == Kind::Bool)
      return values[0];
    return combine(Op::NotEqual, values[0], int64_t(0), expr.at, expr.at, expr.at);
  }
  bool bools = std::any_of(values.begin(), values.end(), [](const Value &value) { return value.kind() == Kind::Bool; });
  if (bools && name != "int" && name != "real")
    fail("Q025", "'" + name + "' cannot use true/false values", expr.at);
  bool still = std::all_of(values.begin(), values.end(), [](const Value &value) { return value.isStatic(); });
  if (extreme) {
    Kind kind = values[0].kind() == Kind::Int && values[1].kind() == Kind::Int ? Kind::Int : Kind::Real;
    if (still) {
      bool second = larger ? values[1].number() > values[0].number() : values[1].number() < values[0].number();
      return values[second];
    }
    Tensor a = tensorOf(values[0]), b = tensorOf(values[1]);
    return Tensor{unite({a.dims, b.dims}), kind,
                  builder.binary(larger ? BinaryOp::Max : BinaryOp::Min, a.handle, b.handle)};
  }
  if (still)
    return staticUnary(name, values[0], expr.at);
  UnaryOp op = *find(unaries, name);
  Tensor value = tensorOf(values[0]);
  if (op == UnaryOp::ToInt || op == UnaryOp::ToReal)
    return asKind(value, op == UnaryOp::ToInt ? Kind::Int : Kind::Real);
  bool whole = op == UnaryOp::Floor || op == UnaryOp::Ceil || op == UnaryOp::Round;
  if (whole && value.kind == Kind::Int)
    return value;
  Kind kind = whole ? Kind::Int : op == UnaryOp::Abs ? value.kind : Kind::Real;
  return Tensor{value.dims, kind, builder.unary(op, value.handle)};
}

/// where(c, a, b): a static condition takes its side, with the other's dimensions too.
Value Elaborator::choose(const CallExpr &expr, const std::vector<Value> &values) {
  const Value &c = values[0], &a = values[1], &b = values[2];
  if (c.kind() != Kind::Bool || (a.kind() == Kind::Bool) != (b.kind() == Kind::Bool))
    fail("Q025",
         "where needs a condition and two values of one kind, not " + describe(c) + ", " + describe(a) + ", " +
             describe(b),
         expr.at);
  auto truth = c.as<bool>();
  if (truth && a.isStatic() && b.isStatic())
    return *truth ? a : b;
  Kind kind = a.kind() == Kind::Real || b.kind() == Kind::Real ? Kind::Real : *a.kind();
  std::vector<DimRefs> all;
  for (const Value &value : values)
    if (auto tensor = value.as<Tensor>())
      all.push_back(tensor->dims);
  DimRefs dims = unite(all);
  if (truth) {
    Tensor side = asKind(tensorOf(*truth ? a : b), kind);
    return side.dims.size() == dims.size() ? side : expandTo(side, dims);
  }
  Tensor condition = tensorOf(c), left = tensorOf(a), right = tensorOf(b);
  return Tensor{dims, kind, builder.where(condition.handle, left.handle, right.handle)};
}

Value Elaborator::staticUnary(const std::string &name, const Value &value, Span at) {
  if (auto truth = value.as<bool>())
    return name == "int" ? Value(static_cast<int64_t>(*truth)) : Value(*truth ? 1.0 : 0.0);
  double x = value.number();
  auto whole = [&](double rounded) -> Value {
    if (value.is<int64_t>())
      return value;
    if (!(std::fabs(rounded) < 9.2e18))
      fail("Q027", "'" + name + "' of " + describe(value) + " does not fit 64 bits", at);
    return static_cast<int64_t>(rounded);
  };
  double y = std::numeric_limits<double>::quiet_NaN(); // an error below, where a function has no case here
  switch (*find(unaries, name)) {
  case UnaryOp::Neg: // operators, not functions
  case UnaryOp::Not:
    break;
  case UnaryOp::ToInt:
    return whole(std::trunc(x));
  case UnaryOp::Floor:
    return whole(std::floor(x));
  case UnaryOp::Ceil:
    return whole(std::ceil(x));
  case UnaryOp::Round:
    return whole(std::nearbyint(x));
  case UnaryOp::Abs:
    if (auto n = value.as<int64_t>(); n && *n != INT64_MIN)
      return *n < 0 ? -*n : *n;
    return std::fabs(x);
  case UnaryOp::ToReal:
    y = x;
    break;
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE)                                                                         \
  case UnaryOp::NAME:                                                                                                  \
    y = VALUE;                                                                                                         \
    break;
    QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
  }
  if (std::isnan(y))
    fail("Q027", "'" + name + "' of " + describe(value) + " is no number", at);
  return y;
}

} // namespace quern::frontend
