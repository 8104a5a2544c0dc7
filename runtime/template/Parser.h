// The parser of templates: expressions in ParseExpressions.cpp, statements in ParseStatements.cpp.
#ifndef QUERN_RUNTIME_TEMPLATE_PARSER_H
#define QUERN_RUNTIME_TEMPLATE_PARSER_H

#include "runtime/Error.h"
#include "runtime/template/Ast.h"
#include "runtime/template/Lexer.h"

#include <algorithm>
#include <initializer_list>

namespace quern::runtime::jinja {

class Parser {
public:
  explicit Parser(std::vector<Token> tokens) : tokens(std::move(tokens)) {}
  Body run() {
    Body body = statements({});
    if (peek().kind != TokenKind::End)
      fail("unexpected end of a block");
    return body;
  }

private:
  static constexpr int deepest = 100; // of brackets and blocks in each other
  std::vector<Token> tokens;
  size_t at = 0;
  int depth = 0, loops = 0;
  std::string ended; // the tag that ended the last body

  struct Deeper {
    int &depth;
    explicit Deeper(Parser &parser) : depth(parser.depth) {
      if (++depth > deepest)
        parser.fail("blocks and brackets are nested too deeply");
    }
    ~Deeper() { --depth; }
  };

  const Token &peek(size_t ahead = 0) const { return tokens[std::min(at + ahead, tokens.size() - 1)]; }
  [[noreturn]] void fail(const std::string &message) const {
    throw UserError(format("line %d of the template: %s", peek().line, message.c_str()));
  }
  bool isOperator(std::string_view text) const { return peek().kind == TokenKind::Operator && peek().text == text; }
  bool isName(std::string_view text) const { return peek().kind == TokenKind::Name && peek().text == text; }
  bool accept(std::string_view text) {
    bool found = isOperator(text) || isName(text);
    at += found;
    return found;
  }
  void expect(std::string_view text) {
    if (!accept(text))
      fail("expected " + quote(text) + (peek().text.empty() ? "" : ", not " + quote(peek().text)));
  }
  std::string name() {
    if (peek().kind != TokenKind::Name)
      fail("expected a name" + (peek().text.empty() ? std::string() : ", not " + quote(peek().text)));
    return tokens[at++].text;
  }
  void endBlock() {
    if (peek().kind != TokenKind::BlockEnd)
      fail("unexpected " + quote(peek().text) + " in a tag");
    ++at;
  }

  ExprPtr node(ExprKind kind, std::string name = "") const {
    return std::make_unique<Expr>(Expr{kind, peek().line, std::move(name), {}, {}, {}, {}});
  }
  template <typename... Parts> ExprPtr node(ExprKind kind, std::string name, Parts... parts) const {
    ExprPtr made = node(kind, std::move(name));
    (made->parts.push_back(std::move(parts)), ...);
    return made;
  }

  ExprPtr expression(bool choices = true);
  ExprPtr tuple();
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr chain(std::initializer_list<std::string_view> operators, ExprPtr (Parser::*part)());
  ExprPtr sum() { return chain({"+", "-"}, &Parser::joined); }
  ExprPtr joined() { return chain({"~"}, &Parser::product); }
  ExprPtr product() { return chain({"*", "//", "/", "%"}, &Parser::power); }
  ExprPtr power();
  ExprPtr unary(bool filters);
  ExprPtr primary();
  ExprPtr postfix(ExprPtr value);
  ExprPtr filters(ExprPtr value);
  ExprPtr test(ExprPtr value);
  ExprPtr subscript(ExprPtr value);
  void arguments(Expr &call);

  Body statements(std::initializer_list<std::string_view> ends);
  Body bodyUntil(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Stmt> statement(const std::string &tag);
  void ifBody(Stmt &made);
  void forBody(Stmt &made);
  void setBody(Stmt &made);
  void macroBody(Stmt &made);
};

} // namespace quern::runtime::jinja
#endif
