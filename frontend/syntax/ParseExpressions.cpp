// Takes: tokens where an expression, a dimension or a path may stand. Gives: its tree, of bounded depth.
// Why attempts in brackets: `[K]` may be a dimension and `[K - 1]` a position in a list; both are read, the longer
// wins.
#include "frontend/syntax/Idioms.h"
#include "frontend/syntax/ParserImpl.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace quern::frontend {

// ---- paths and strings

Path Parser::path() {
  Path alternatives;
  do {
    if (peek("(")) {
      open("(");
      alternatives.push_back(expression());
      close(")");
    } else if (peekKind(Token::String))
      alternatives.push_back(string());
    else
      fail("expected a checkpoint name in quotes, found '" + shown() + "'");
  } while (accept("|"));
  return alternatives;
}

/// "a{b}c": texts and values alternate. `\"`, `\\`, `\{` and `\}` stand for the second character.
const Expr *Parser::string() {
  const Token &token = take();
  StringExpr node;
  node.kind = Expr::String;
  node.at = token.at;
  node.texts.emplace_back();
  std::string_view all = ast.source->getText();
  for (uint32_t i = token.at.begin + 1, end = token.at.end - 1; i < end; ++i) {
    if (all[i] == '\\' && i + 1 < end && std::string_view("\"\\{}").find(all[i + 1]) != std::string_view::npos) {
      node.texts.back() += all[++i];
      continue;
    }
    size_t close = all[i] == '{' ? all.find_first_of("{}", i + 1) : std::string_view::npos;
    if (close >= end || all[close] != '}') {
      node.texts.back() += all[i];
      continue;
    }
    Deeper deeper(*this);
    Parser inner(ast, diagnostics, lex(*ast.source, i + 1, close, diagnostics).tokens);
    inner.depth = depth;
    inner.brackets = 1; // line ends cannot occur; nothing here ends a statement
    try {
      node.values.push_back(inner.expression());
      if (inner.token().kind != Token::End)
        inner.fail("expected '}', found '" + inner.shown() + "'");
    } catch (SyntaxError &error) {
      if (!error.diagnostic.message.empty())
        error.diagnostic.message = "in braces: " + error.diagnostic.message;
      error.token = at;
      throw;
    }
    node.texts.emplace_back();
    i = close;
  }
  return ast.make(std::move(node));
}

// ---- dimensions

const Expr *Parser::dimension() {
  size_t start = at;
  Exprs parts = {dimensionTerm()};
  while (accept("+")) {
    countOperator();
    parts.push_back(dimensionTerm());
  }
  if (parts.size() == 1)
    return parts[0];
  return ast.make(ListExpr{{Expr::Sum, from(start)}, std::move(parts)});
}

const Expr *Parser::dimensionTerm() {
  size_t start = at;
  if (peekKind(Token::Number) && token().text() == "1") {
    take();
    return ast.make(Expr{Expr::Unit, from(start)});
  }
  if (peek("(")) {
    Deeper deeper(*this);
    open("(");
    Exprs parts;
    listed(")", [&] { parts.push_back(dimension()); });
    if (parts.empty())
      failAt("an empty group of dimensions", from(start));
    if (parts.size() == 1)
      return parts[0];
    return ast.make(ListExpr{{Expr::Group, from(start)}, std::move(parts)});
  }
  Named name = word(Token::Dim, "a dimension");
  return ast.make(NamedExpr{{Expr::DimName, name.at}, name.name});
}

std::vector<Item> Parser::items() {
  Deeper deeper(*this);
  open("[");
  std::vector<Item> list;
  bool arrow = false;
  while (true) {
    list.push_back({item(), arrow});
    arrow = peek("->");
    if (!accept(",") && !accept("->"))
      break;
  }
  close("]");
  return list;
}

const Expr *Parser::item() {
  size_t start = at;
  if (accept(".."))
    return ast.make(Expr{Expr::Rest, from(start)});
  if (peekKind(Token::Dim) && token(1).is("=")) {
    std::string name(take().text());
    take();
    const Expr *index = expression();
    return ast.make(GatherItem{{Expr::Gather, from(start)}, name, index});
  }
  if (peekKind(Token::Dim) && token(1).is(":")) {
    RangeItem range{{Expr::Range, {}}, std::string(take().text()), nullptr, nullptr};
    take();
    if (!peek(".."))
      range.first = expression();
    expect("..", ": a range is first..end");
    if (!peek("->") && !peek("]") && !peek(","))
      range.last = expression();
    range.at = from(start);
    return ast.make(std::move(range));
  }
  return dimensionOrExpression();
}

const Expr *Parser::dimensionOrExpression() {
  size_t ahead = 0;
  while (token(ahead).is("("))
    ++ahead;
  const Token &first = token(ahead);
  if (first.kind != Token::Dim && !(first.kind == Token::Number && first.text() == "1"))
    return expression();
  size_t start = at;
  unsigned openBrackets = brackets, counted = operators;
  SyntaxError asDimension;
  try {
    const Expr *dim = dimension();
    if (peek(",") || peek("->") || peek("]"))
      return dim;
    asDimension = {{"Q002", "expected ']', found '" + shown() + "'", token().at, {}}, at};
  } catch (const SyntaxError &error) {
    asDimension = error;
  }
  at = start;
  brackets = openBrackets;
  operators = counted;
  try {
    return expression();
  } catch (const SyntaxError &error) {
    throw error.token > asDimension.token ? error : asDimension;
  }
}

// ---- expressions

void Parser::countOperator() {
  if (++operators > maxOperators)
    fail("more than 4096 operators in one expression; give names to parts of it");
}

const Expr *Parser::expression() {
  Deeper deeper(*this);
  struct Count { // operators are counted over the outermost expression
    unsigned &n;
    ~Count() { --n; }
  } count{expressions};
  if (!expressions++)
    operators = 0;
  size_t start = at;
  const Expr *value = binary(0);
  while (accept("??")) {
    countOperator();
    const Expr *right = binary(0);
    value = ast.make(BinaryExpr{{Expr::Binary, from(start)}, Op::Else, value, right});
  }
  if (accept("if")) {
    const Expr *condition = expression();
    expect("else", lineEnd() ? " (a conditional value has both sides; in parentheses it may go over several lines)"
                             : " (a conditional value has both sides)");
    const Expr *otherwise = expression();
    value = ast.make(ChooseExpr{{Expr::Choose, from(start)}, condition, value, otherwise});
  }
  return value;
}

namespace {
struct Spelled {
  std::string_view text;
  Op op;
};
} // namespace

static const std::vector<std::vector<Spelled>> levels = {
    {{"or", Op::Or}},
    {{"and", Op::And}},
    {}, // not
    {}, // comparisons
    {{"+", Op::Add}, {"-", Op::Sub}},
    {{"*", Op::Mul}, {"/", Op::Div}, {"//", Op::FloorDiv}, {"%", Op::Mod}}};

const Expr *Parser::binary(int level) {
  size_t start = at;
  if (level == 6)
    return unary();
  if (level == 3)
    return comparison();
  if (level == 2) {
    if (!accept("not"))
      return binary(3);
    Deeper deeper(*this);
    countOperator();
    const Expr *value = binary(2);
    return ast.make(UnaryExpr{{Expr::Unary, from(start)}, Op::Not, value});
  }
  const Expr *value = binary(level + 1);
  while (true) {
    const Spelled *found = nullptr;
    for (const Spelled &candidate : levels[level])
      if (peek(candidate.text))
        found = &candidate;
    if (!found)
      return value;
    take();
    countOperator();
    const Expr *right = binary(level + 1);
    value = ast.make(BinaryExpr{{Expr::Binary, from(start)}, found->op, value, right});
  }
}

const Expr *Parser::comparison() {
  static const std::vector<Spelled> ops = {
      {"<", Op::Less},   {"<=", Op::LessEqual}, {">", Op::Greater}, {">=", Op::GreaterEqual},
      {"==", Op::Equal}, {"!=", Op::NotEqual},  {"in", Op::In}};
  size_t start = at;
  ChainExpr chain;
  chain.kind = Expr::Chain;
  chain.operands.push_back(binary(4));
  while (true) {
    const Spelled *found = nullptr;
    for (const Spelled &candidate : ops)
      if (peek(candidate.text))
        found = &candidate;
    bool negated = peek("not") && token(1).is("in");
    if (!found && !negated)
      break;
    take();
    if (negated)
      take();
    countOperator();
    chain.ops.push_back(negated ? Op::NotIn : found->op);
    chain.operands.push_back(binary(4));
  }
  if (chain.ops.empty())
    return chain.operands[0];
  chain.at = from(start);
  if (chain.ops.size() == 1)
    return ast.make(BinaryExpr{{Expr::Binary, chain.at}, chain.ops[0], chain.operands[0], chain.operands[1]});
  return ast.make(std::move(chain));
}

const Expr *Parser::unary() {
  size_t start = at;
  if (accept("-")) {
    Deeper deeper(*this);
    countOperator();
    const Expr *value = unary();
    return ast.make(UnaryExpr{{Expr::Unary, from(start)}, Op::Neg, value});
  }
  const Expr *value = postfix();
  if (!accept("^"))
    return value;
  Deeper deeper(*this); // tighter than a minus on its left, takes one on its right
  countOperator();
  const Expr *right = unary();
  return ast.make(BinaryExpr{{Expr::Binary, from(start)}, Op::Pow, value, right});
}

/// D, or D[..]: what someone calls who means a class.
static bool isDimName(const Expr &value) {
  return value.kind == Expr::DimName ||
         (value.kind == Expr::Index && value.as<IndexExpr>().value->kind == Expr::DimName);
}

const Expr *Parser::postfix() {
  size_t start = at;
  const Expr *value = primary();
  while (true) {
    bool callable = value->kind == Expr::Variable;
    if (accept(".")) {
      countOperator();
      Named name = word(Token::Name, "a field's name");
      value = ast.make(MemberExpr{{Expr::Member, from(start)}, value, name.name});
    } else if (peek("[")) {
      countOperator();
      std::vector<Item> list = items();
      if (callable && peek("("))
        value = call(start, value->as<NamedExpr>().name, std::move(list));
      else
        value = ast.make(IndexExpr{{Expr::Index, from(start)}, value, std::move(list)});
    } else if (peek("(") && callable) {
      value = call(start, value->as<NamedExpr>().name, {});
    } else if (peek("(") && value->kind == Expr::Member) {
      fail("blocks are called by their own name, as in softmax[D](x): there are no methods and no modules");
    } else if (peek("(") && isDimName(*value)) {
      fail("names of blocks begin with a small letter, as in rms_norm[D](x, eps)");
    } else if (peek("@") && !inBound) {
      Span sign = take().at;
      if (value->kind != Expr::Call)
        failAt("'@' names the parameters of a call; this is not a call; a product of matrices is sum[D](a * b)", sign);
      CallExpr named = value->as<CallExpr>();
      named.path = path();
      named.at = from(start);
      return ast.make(std::move(named));
    } else
      return value;
  }
}

const Expr *Parser::call(size_t start, const std::string &name, std::vector<Item> dims) {
  CallExpr node;
  node.kind = Expr::Call;
  node.name = name;
  node.dims = std::move(dims);
  Deeper deeper(*this);
  open("(");
  listed(")", [&] {
    Argument argument;
    if (token().kind == Token::Name && token(1).is(":")) {
      argument.nameAt = token().at;
      argument.name = take().text();
      take();
    }
    argument.value = expression();
    node.arguments.push_back(std::move(argument));
  });
  node.at = from(start);
  return ast.make(std::move(node));
}

const Expr *Parser::number() {
  const Token &token = take();
  std::string_view text = token.text();
  if (text.find_first_of(".eE") == std::string_view::npos) {
    int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
      throw SyntaxError{{"Q001", "this integer does not fit 64 bits", token.at, {}}, at};
    return ast.make(IntegerExpr{{Expr::Integer, token.at}, value});
  }
  double value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
    throw SyntaxError{{"Q001", "this number does not fit a double", token.at, {}}, at};
  return ast.make(RealExpr{{Expr::Real, token.at}, value});
}

const Expr *Parser::primary() {
  size_t start = at;
  if (peekKind(Token::Number))
    return number();
  if (peekKind(Token::String))
    return string();
  if (peekKind(Token::Dim) || peekKind(Token::Name)) {
    const Token &name = take();
    return ast.make(
        NamedExpr{{name.kind == Token::Dim ? Expr::DimName : Expr::Variable, name.at}, std::string(name.text())});
  }
  for (auto [text, kind] : {std::pair{"true", Expr::True}, {"false", Expr::False}, {"null", Expr::Null}})
    if (accept(text))
      return ast.make(Expr{kind, from(start)});
  if (accept("inf"))
    return ast.make(RealExpr{{Expr::Real, from(start)}, std::numeric_limits<double>::infinity()});
  if (accept("pi"))
    return ast.make(RealExpr{{Expr::Real, from(start)}, M_PI});
  if (peek("(")) {
    open("(");
    ListExpr values;
    values.kind = Expr::Tuple;
    listed(")", [&] { values.values.push_back(expression()); });
    values.at = from(start);
    if (values.values.empty())
      failAt("expected a value, found ')'", values.at);
    return values.values.size() == 1 ? values.values[0] : ast.make(std::move(values));
  }
  if (peek("[")) {
    open("[");
    ListExpr list;
    list.kind = Expr::List;
    listed("]", [&] { list.values.push_back(expression()); });
    list.at = from(start);
    return ast.make(std::move(list));
  }
  fail("expected a value, found '" + shown() + "'" +
       (at > 0 && !lineEnd() ? idiomForValue(tokens[at - 1].text(), token().text()) : ""));
}

} // namespace quern::frontend
