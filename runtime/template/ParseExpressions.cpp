// Takes: tokens. Gives: an expression. The grammar is Jinja 3's.
#include "runtime/template/Parser.h"

#include <charconv>
#include <cstdlib>

namespace quern::runtime::jinja {

ExprPtr Parser::expression(bool choices) {
  Deeper deeper(*this);
  ExprPtr value = disjunction();
  while (choices && isName("if")) {
    ++at;
    ExprPtr condition = disjunction(), otherwise = accept("else") ? expression() : nullptr;
    value = node(ExprKind::Choice, "", std::move(condition), std::move(value), std::move(otherwise));
  }
  return value;
}

/// One expression, or several with commas between them.
ExprPtr Parser::tuple() {
  ExprPtr first = expression();
  if (!isOperator(","))
    return first;
  ExprPtr made = node(ExprKind::List, "", std::move(first));
  while (accept(",") && peek().kind != TokenKind::PrintEnd && peek().kind != TokenKind::BlockEnd && !isOperator(")"))
    made->parts.push_back(expression());
  return made;
}

ExprPtr Parser::disjunction() {
  ExprPtr left = conjunction();
  while (accept("or"))
    left = node(ExprKind::Binary, "or", std::move(left), conjunction());
  return left;
}

ExprPtr Parser::conjunction() {
  ExprPtr left = negation();
  while (accept("and"))
    left = node(ExprKind::Binary, "and", std::move(left), negation());
  return left;
}

ExprPtr Parser::negation() {
  Deeper deeper(*this);
  if (accept("not"))
    return node(ExprKind::Unary, "not", negation());
  return comparison();
}

ExprPtr Parser::comparison() {
  ExprPtr first = sum();
  ExprPtr made;
  while (true) {
    std::string found;
    for (const char *one : {"==", "!=", "<=", ">=", "<", ">", "in"})
      if (isOperator(one) || isName(one))
        found = one;
    if (found.empty() && isName("not") && peek(1).kind == TokenKind::Name && peek(1).text == "in") {
      found = "not in";
      ++at;
    }
    if (found.empty())
      return made ? std::move(made) : std::move(first);
    ++at;
    if (!made)
      made = node(ExprKind::Compare, "", std::move(first));
    made->names.push_back(found);
    made->parts.push_back(sum());
  }
}

ExprPtr Parser::chain(std::initializer_list<std::string_view> operators, ExprPtr (Parser::*part)()) {
  ExprPtr left = (this->*part)();
  while (true) {
    auto found =
        std::find_if(operators.begin(), operators.end(), [&](std::string_view one) { return isOperator(one); });
    if (found == operators.end())
      return left;
    ++at;
    left = node(ExprKind::Binary, std::string(*found), std::move(left), (this->*part)());
  }
}

ExprPtr Parser::power() {
  ExprPtr left = unary(true);
  while (accept("**"))
    left = node(ExprKind::Binary, "**", std::move(left), unary(true));
  return left;
}

ExprPtr Parser::unary(bool filtered) {
  Deeper deeper(*this);
  ExprPtr value;
  if (isOperator("-") || isOperator("+")) {
    std::string sign = tokens[at++].text;
    value = node(ExprKind::Unary, sign, unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return filtered ? filters(std::move(value)) : std::move(value);
}

ExprPtr Parser::primary() {
  const Token &token = peek();
  ExprPtr made = node(ExprKind::Constant);
  switch (token.kind) {
  case TokenKind::String: {
    std::string text;
    while (peek().kind == TokenKind::String)
      text += tokens[at++].text;
    made->value = text;
    return made;
  }
  case TokenKind::Integer: {
    int64_t number = 0;
    if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), number).ec != std::errc())
      fail("the number " + quote(token.text) + " is too large");
    made->value = number;
    ++at;
    return made;
  }
  case TokenKind::Real: {
    made->value = std::strtod(token.text.c_str(), nullptr);
    ++at;
    return made;
  }
  case TokenKind::Name: {
    std::string text = name();
    if (text == "true" || text == "True" || text == "false" || text == "False")
      made->value = text[0] == 't' || text[0] == 'T';
    else if (text == "none" || text == "None")
      made->value = nullptr;
    else
      made = node(ExprKind::Name, text);
    return made;
  }
  default:
    break;
  }
  if (accept("(")) {
    if (accept(")"))
      return node(ExprKind::List);
    made = tuple();
    expect(")");
    return made;
  }
  if (accept("[")) {
    made = node(ExprKind::List);
    while (!accept("]")) {
      if (!made->parts.empty())
        expect(",");
      if (accept("]"))
        break;
      made->parts.push_back(expression());
    }
    return made;
  }
  if (accept("{")) {
    made = node(ExprKind::Dict);
    while (!accept("}")) {
      if (!made->parts.empty())
        expect(",");
      if (accept("}"))
        break;
      made->parts.push_back(expression());
      expect(":");
      made->parts.push_back(expression());
    }
    return made;
  }
  fail(token.text.empty() ? "an expression is missing" : "unexpected " + quote(token.text));
}

void Parser::arguments(Expr &call) {
  bool first = true;
  while (!accept(")")) {
    if (!first)
      expect(",");
    first = false;
    if (accept(")"))
      return;
    if (peek().kind == TokenKind::Name && peek(1).kind == TokenKind::Operator && peek(1).text == "=") {
      std::string named = name();
      ++at;
      call.named.emplace_back(named, expression());
    } else {
      call.parts.push_back(expression());
    }
  }
}

ExprPtr Parser::subscript(ExprPtr value) {
  ExprPtr bounds[3];
  bool slice = false;
  for (int i = 0; i < 3; ++i) {
    if (!isOperator(":") && !isOperator("]"))
      bounds[i] = i == 0 ? tuple() : expression();
    if (!accept(":"))
      break;
    slice = true;
  }
  expect("]");
  if (slice)
    return node(ExprKind::Slice, "", std::move(value), std::move(bounds[0]), std::move(bounds[1]),
                std::move(bounds[2]));
  if (!bounds[0])
    fail("an index is missing");
  return node(ExprKind::Item, "", std::move(value), std::move(bounds[0]));
}

ExprPtr Parser::postfix(ExprPtr value) {
  for (int count = 0;; ++count) {
    if (count > deepest)
      fail("too many attributes and calls after each other");
    if (accept(".")) {
      if (peek().kind == TokenKind::Integer) {
        ExprPtr index = primary();
        value = node(ExprKind::Item, "", std::move(value), std::move(index));
      } else {
        std::string attribute = name();
        value = node(ExprKind::Attribute, attribute, std::move(value));
      }
    } else if (accept("[")) {
      value = subscript(std::move(value));
    } else if (accept("(")) {
      value = node(ExprKind::Call, "", std::move(value));
      arguments(*value);
    } else {
      return value;
    }
  }
}

ExprPtr Parser::filters(ExprPtr value) {
  for (int count = 0;; ++count) {
    if (count > deepest)
      fail("too many filters after each other");
    if (accept("|")) {
      std::string filter = name();
      value = node(ExprKind::Filter, filter, std::move(value));
      if (accept("("))
        arguments(*value);
    } else if (accept("is")) {
      value = test(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr Parser::test(ExprPtr value) {
  bool negated = accept("not");
  std::string which = name();
  ExprPtr made = node(ExprKind::Test, which, std::move(value));
  TokenKind next = peek().kind;
  if (accept("(")) {
    arguments(*made);
  } else if (next == TokenKind::String || next == TokenKind::Integer || next == TokenKind::Real || isOperator("[") ||
             isOperator("{") ||
             (next == TokenKind::Name && !isName("else") && !isName("or") && !isName("and") && !isName("is") &&
              !isName("if") && !isName("not") && !isName("in"))) {
    made->parts.push_back(postfix(primary()));
  }
  return negated ? node(ExprKind::Unary, "not", std::move(made)) : std::move(made);
}

} // namespace quern::runtime::jinja
