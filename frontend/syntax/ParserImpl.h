// The recursive-descent parser's inside, shared by Parser.cpp, ParseStatements.cpp and ParseExpressions.cpp.
#ifndef QUERN_FRONTEND_SYNTAX_PARSERIMPL_H
#define QUERN_FRONTEND_SYNTAX_PARSERIMPL_H

#include "frontend/syntax/Lexer.h"
#include "frontend/syntax/Parser.h"

namespace quern::frontend {

/// Thrown at a mistake and caught where a statement, a declaration or an attempt ends. An empty message is one that has
/// been reported already (an unreadable character).
struct SyntaxError {
  Diagnostic diagnostic;
  size_t token;
};

class Parser {
public:
  Parser(Ast &ast, Diagnostics &diagnostics, std::vector<Token> tokens)
      : ast(ast), diagnostics(diagnostics), tokens(std::move(tokens)) {}

  void file();

private:
  Ast &ast;
  Diagnostics &diagnostics;
  std::vector<Token> tokens;
  size_t at = 0;
  size_t fresh = 0;      // the token whose line break has been accepted: a statement begins here
  unsigned brackets = 0; // ( and [ that are open: line ends mean nothing inside
  unsigned depth = 0;    // nesting, bounded
  unsigned expressions = 0, operators = 0;
  bool inBound = false; // in a repeat's bounds '@' belongs to the repeat
  bool toldUnclosed = false;

  /// One level deeper for a scope's time.
  struct Deeper {
    Parser &parser;
    explicit Deeper(Parser &parser);
    ~Deeper() { --parser.depth; }
  };

  // Parser.cpp: tokens, recovery, declarations
  const Token &token(size_t ahead = 0) const { return tokens[std::min(at + ahead, tokens.size() - 1)]; }
  bool lineEnd() const;
  bool peek(std::string_view text) const { return !lineEnd() && token().is(text); }
  /// A name that means something at this place alone, as `end` behind `from`.
  bool isWord(std::string_view text) const { return peekKind(Token::Name) && token().text() == text; }
  bool peekKind(Token::Kind kind) const { return !lineEnd() && token().kind == kind; }
  const Token &take();
  bool accept(std::string_view text);
  void expect(std::string_view text, std::string_view why = "");
  Named word(Token::Kind kind, const std::string &what);
  std::string shown() const;
  [[noreturn]] void fail(std::string message);
  [[noreturn]] void failAt(std::string message, Span at);
  Span from(size_t start) const;
  void open(std::string_view bracket);
  void close(std::string_view bracket);
  void nextLine() { fresh = at; }
  void endOfStatement();
  void report(const SyntaxError &error);
  bool startsStatement(size_t i) const;
  bool isScan(size_t i) const;
  void blameOpenBracket(SyntaxError &error, size_t start) const;
  void recover(size_t start);
  void recoverTopLevel(size_t start);
  template <typename One> void listed(std::string_view closing, One one);
  template <typename One> void braces(One one, Body *body);

  std::vector<std::string> strings(std::string_view separator, const char *what);
  void model();
  void modelItem(ModelDecl &model, Body &statements);
  ConfigDecl config();
  const BlockDecl *block();
  const FunctionDecl *function();
  Parameter parameter();
  TypeNode type();

  // ParseStatements.cpp
  Body body();
  const Stmt *statement();
  const Stmt *param(size_t start);
  const Stmt *dim(size_t start);
  const Stmt *repeat(size_t start);
  const Stmt *scan(size_t start);
  const Stmt *conditional(size_t start);
  const Stmt *assign(size_t start);
  const Stmt *broken(size_t start);
  Exprs several();

  // ParseExpressions.cpp
  Path path();
  const Expr *string();
  const Expr *dimension();
  const Expr *dimensionTerm();
  std::vector<Item> items();
  const Expr *item();
  const Expr *dimensionOrExpression();
  const Expr *expression();
  const Expr *binary(int level);
  const Expr *comparison();
  const Expr *unary();
  const Expr *postfix();
  const Expr *call(size_t start, const std::string &name, std::vector<Item> dims);
  const Expr *primary();
  const Expr *number();
  void countOperator();

  friend class StringParser;
};

template <typename One> void Parser::listed(std::string_view closing, One one) {
  while (!peek(closing)) {
    one();
    if (!accept(","))
      break;
  }
  close(closing);
}

} // namespace quern::frontend
#endif
