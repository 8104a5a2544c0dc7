// Takes: tokens at the start of a statement. Gives: its node. Mistakes leave by SyntaxError.
#include "frontend/syntax/Idioms.h"
#include "frontend/syntax/ParserImpl.h"

namespace quern::frontend {

const Stmt *Parser::statement() {
  size_t start = at;
  expressions = operators = 0;
  if (accept("param"))
    return param(start);
  if (accept("dim"))
    return dim(start);
  if (accept("repeat"))
    return repeat(start);
  if (accept("if"))
    return conditional(start);
  if (accept("return")) {
    ReturnStmt stmt{{Stmt::Return, {}}, several()};
    stmt.at = from(start);
    return ast.make(std::move(stmt));
  }
  if (accept("require")) {
    RequireStmt stmt{{Stmt::Require, {}}, expression(), nullptr};
    if (accept(","))
      stmt.message = expression();
    stmt.at = from(start);
    return ast.make(std::move(stmt));
  }
  if (!lineEnd() && isScan(at))
    return scan(start);
  if (!peekKind(Token::Name)) {
    bool op = peekKind(Token::Operator);
    fail("a statement cannot begin with '" + shown() + "'" +
         (op                     ? "; to continue a line, end it with an operator or use parentheses"
          : peekKind(Token::Dim) ? "; names of values begin with a small letter, and a dimension is declared by dim"
          : peek("ignore")
              ? "; it stands in the model or its config, outside of functions and branches: what is used is not ignored"
              : ""));
  }
  return assign(start);
}

const Stmt *Parser::param(size_t start) {
  ParamStmt stmt;
  stmt.kind = Stmt::Param;
  stmt.name = word(Token::Name, "the parameter's name");
  expect(":");
  stmt.type = type();
  expect("@", " and the tensor's name in the checkpoint");
  stmt.path = path();
  if (accept("~")) {
    Named init = word(Token::Name, "normal, uniform, zeros or ones");
    stmt.init = init.name;
    stmt.initAt = init.at;
    if (peek("(")) {
      open("(");
      if (!peek(")"))
        stmt.initValue = expression();
      close(")");
    }
    if (accept("if")) {
      if (!isWord("absent"))
        fail("expected 'absent', found '" + shown() +
             "': 'zeros if absent' is what the parameter is where the checkpoint has none");
      take();
      stmt.ifAbsent = true;
    }
  }
  stmt.at = from(start);
  return ast.make(std::move(stmt));
}

const Stmt *Parser::dim(size_t start) {
  DimStmt stmt;
  stmt.kind = Stmt::Dim;
  do {
    stmt.names.push_back(word(Token::Dim, "a dimension's name"));
    expect("=");
    stmt.values.push_back(expression());
  } while (accept(","));
  stmt.at = from(start);
  return ast.make(std::move(stmt));
}

const Stmt *Parser::repeat(size_t start) {
  RepeatStmt stmt;
  stmt.kind = Stmt::Repeat;
  stmt.index = word(Token::Name, "the loop index");
  expect("in");
  inBound = true; // here '@' belongs to the repeat, not to a call in its bound
  stmt.first = nullptr;
  stmt.last = expression();
  if (accept("..")) {
    stmt.first = stmt.last;
    stmt.last = expression();
  }
  inBound = false;
  if (accept("@"))
    stmt.path = path();
  stmt.at = from(start);
  stmt.body = body();
  return ast.make(std::move(stmt));
}

const Stmt *Parser::scan(size_t start) {
  take();
  ScanStmt stmt{{Stmt::Scan, {}}, word(Token::Dim, "the dimension to scan"), false, {}};
  if (isWord("from")) {
    take();
    if (!isWord("end"))
      fail("expected 'end', found '" + shown() + "': a scan runs from the first position on, or 'from end'");
    take();
    stmt.fromEnd = true;
  }
  stmt.at = from(start);
  stmt.body = body();
  return ast.make(std::move(stmt));
}

const Stmt *Parser::conditional(size_t start) {
  IfStmt stmt;
  stmt.kind = Stmt::If;
  stmt.condition = expression();
  stmt.at = from(start);
  stmt.then = body();
  if (token().is("else")) { // also on a line of its own
    nextLine();
    take();
    size_t next = at;
    if (peek("if")) {
      Deeper deeper(*this);
      take();
      stmt.otherwise.push_back(conditional(next));
    } else
      stmt.otherwise = body();
  }
  return ast.make(std::move(stmt));
}

const Stmt *Parser::assign(size_t start) {
  AssignStmt stmt;
  stmt.kind = Stmt::Assign;
  do
    stmt.targets.push_back(word(Token::Name, "a name"));
  while (accept(","));
  if (stmt.targets.size() == 1 && accept(":"))
    stmt.type = type();
  if (!accept("="))
    fail("expected '=', found '" + shown() + "': a statement gives a name to a value" +
         idiomForStatement(stmt.targets[0].name, token().text()));
  stmt.values = several();
  stmt.at = from(start);
  return ast.make(std::move(stmt));
}

Exprs Parser::several() {
  Exprs values;
  do
    values.push_back(expression());
  while (accept(","));
  return values;
}

/// What tokens start .. at-1 would have given names to, had they been readable.
const Stmt *Parser::broken(size_t start) {
  BrokenStmt stmt{{Stmt::Broken, from(start)}, {}, {}, false};
  for (size_t i = start; i < at; ++i) {
    bool assigned = tokens[std::min(i + 1, tokens.size() - 1)].is("=");
    std::string text(tokens[i].text());
    if (tokens[i].kind == Token::Name && (assigned || i == start || tokens[i - 1].is("param")))
      for (size_t j = i;; j -= 2) { // a, b, c = ...
        stmt.names.emplace_back(tokens[j].text());
        if (j < start + 2 || !tokens[j - 1].is(",") || tokens[j - 2].kind != Token::Name)
          break;
      }
    else if (tokens[i].kind == Token::Name && i > start && tokens[i - 1].is(",") && tokens[start].kind == Token::Name &&
             i < start + 16)
      stmt.names.push_back(text); // a, b ... with the rest unreadable
    else if (tokens[i].kind == Token::Dim && (assigned || (i > start && tokens[i - 1].is("dim"))))
      stmt.dims.push_back(text);
    else if (tokens[i].is("return"))
      stmt.mayReturn = true;
  }
  return ast.make(std::move(stmt));
}

} // namespace quern::frontend
