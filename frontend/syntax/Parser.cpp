// Takes: tokens. Gives: the tree of the file, with every syntax mistake reported (Q002).
// Why by hand: recovery at the next statement of the same depth, and messages that know what was meant.
#include "frontend/syntax/ParserImpl.h"

#include <set>

namespace quern::frontend {

Ast parse(std::shared_ptr<const Source> source, Diagnostics &diagnostics) {
  Ast ast;
  ast.source = source;
  diagnostics.keep(source);
  size_t before = diagnostics.errorCount();
  Lexed lexed = lex(*source, diagnostics);
  if (lexed.readable)
    Parser(ast, diagnostics, std::move(lexed.tokens)).file();
  ast.complete = lexed.readable && diagnostics.errorCount() == before;
  return ast;
}

// ---- small tools

Parser::Deeper::Deeper(Parser &parser) : parser(parser) {
  if (parser.depth >= maxNesting)
    parser.fail("more than 256 levels of nesting");
  ++parser.depth;
}

bool Parser::lineEnd() const {
  const Token &next = token();
  if (next.kind == Token::End)
    return true;
  return next.startsLine && !brackets && at != fresh && at > 0 && !continuesLine(tokens[at - 1]);
}

const Token &Parser::take() {
  const Token &taken = token();
  if (at + 1 < tokens.size())
    ++at;
  return taken;
}

bool Parser::accept(std::string_view text) {
  if (!peek(text))
    return false;
  take();
  return true;
}

void Parser::expect(std::string_view text, std::string_view why) {
  if (!accept(text))
    fail("expected '" + std::string(text) + "'" + std::string(why) + ", found '" + shown() + "'");
}

Named Parser::word(Token::Kind kind, const std::string &what) {
  if (!peekKind(kind)) {
    std::string hint;
    if (peekKind(Token::Dim) || peekKind(Token::Name))
      hint =
          kind == Token::Dim ? "; dimension names begin with a capital" : "; names of values begin with a small letter";
    else if (peekKind(Token::Word))
      hint = "; it is a word of the language";
    fail("expected " + what + ", found '" + shown() + "'" + hint);
  }
  const Token &taken = take();
  return {std::string(taken.text()), taken.at};
}

std::string Parser::shown() const {
  if (token().kind == Token::End)
    return "end of file";
  if (lineEnd())
    return "end of line";
  std::string text(token().text());
  return text.size() > 40 ? text.substr(0, 37) + "..." : text;
}

void Parser::fail(std::string message) {
  if (!lineEnd() && token().kind == Token::Invalid)
    message.clear(); // reported by the lexer
  Span place = token().at;
  if (lineEnd() && at > 0) // behind what is there, not at the line that follows
    place = {place.source, tokens[at - 1].at.end, tokens[at - 1].at.end};
  failAt(std::move(message), place);
}

void Parser::failAt(std::string message, Span span) {
  throw SyntaxError{{"Q002", std::move(message), span, {}}, at};
}

Span Parser::from(size_t start) const {
  return {ast.source.get(), tokens[start].at.begin,
          std::max(tokens[start].at.end, tokens[at > start ? at - 1 : start].at.end)};
}

void Parser::open(std::string_view bracket) {
  expect(bracket);
  ++brackets;
}

void Parser::close(std::string_view bracket) {
  if (!token().is(bracket))
    fail("expected '" + std::string(bracket) + "', found '" + shown() + "'");
  brackets -= brackets > 0;
  take();
}

void Parser::endOfStatement() {
  if (!lineEnd() && !token().is("}")) {
    bool op = token().kind == Token::Operator;
    fail("expected the end of the line, found '" + shown() + "'" +
         (op ? "; to continue a line, end it with an operator or use parentheses" : ""));
  }
  nextLine();
}

// ---- recovery

void Parser::report(const SyntaxError &error) {
  ast.complete = false;
  if (!error.diagnostic.message.empty())
    diagnostics.report(error.diagnostic);
}

/// Whether token i can only be the start of a statement: then an earlier line was left open, and the mistake is there.
/// `scan`, `from` and `end` are no keywords: a statement `scan` followed by a capital can be nothing else.
bool Parser::isScan(size_t i) const {
  return tokens[i].kind == Token::Name && tokens[i].text() == "scan" && i + 1 < tokens.size() &&
         tokens[i + 1].kind == Token::Dim && !tokens[i + 1].startsLine;
}

bool Parser::startsStatement(size_t i) const {
  static const std::set<std::string_view> words = {"param", "dim", "repeat", "if", "return", "require", "block"};
  if (!tokens[i].startsLine)
    return false;
  return tokens[i].kind == Token::Word
             ? words.count(tokens[i].text())
             : tokens[i].kind == Token::Name && (tokens[std::min(i + 1, tokens.size() - 1)].is("=") || isScan(i));
}

/// Where the next statement was read as part of this one, a bracket was left open, and that is the mistake.
void Parser::blameOpenBracket(SyntaxError &error, size_t start) const {
  std::vector<size_t> open;
  for (size_t i = start; i <= at && i < tokens.size() && !error.diagnostic.message.empty(); ++i) {
    if (i > start && startsStatement(i)) {
      if (!open.empty())
        error.diagnostic = {
            "Q002", "this '" + std::string(tokens[open.back()].text()) + "' is not closed", tokens[open.back()].at, {}};
      return;
    }
    if (tokens[i].is("(") || tokens[i].is("["))
      open.push_back(i);
    else if ((tokens[i].is(")") || tokens[i].is("]")) && !open.empty())
      open.pop_back();
    else if (tokens[i].is("{"))
      return;
  }
}

/// To the next line of the same depth as token `start`, or to the brace that closes it.
void Parser::recover(size_t start) {
  brackets = 0;
  inBound = false;
  expressions = 0;
  for (size_t i = start + 1; i <= at && i < tokens.size() && !tokens[i].is("{"); ++i)
    if (startsStatement(i)) {
      at = i;
      return nextLine();
    }
  int level = 0;
  for (size_t i = start; i < at; ++i)
    level += tokens[i].is("{") ? 1 : tokens[i].is("}") ? -1 : 0;
  level = std::max(level, 0);
  while (token().kind != Token::End) {
    if (level == 0 && (token().is("}") || (token().startsLine && at > start)))
      break;
    level += token().is("{") ? 1 : token().is("}") ? -1 : 0;
    take();
  }
  nextLine();
}

void Parser::recoverTopLevel(size_t start) {
  static const std::set<std::string_view> starts = {"model", "block", "config", "ignore"};
  recover(start);
  while (token().kind != Token::End &&
         !(token().kind == Token::Word && token().startsLine && starts.count(token().text())))
    take();
  nextLine();
}

template <typename One> void Parser::braces(One one, Body *statements) {
  Span brace = token().at;
  if (peek("{"))
    Deeper check(*this); // reported before the brace is taken, so that recovery sees it
  expect("{");
  Deeper deeper(*this);
  nextLine();
  while (!token().is("}")) {
    if (token().kind == Token::End) {
      if (!toldUnclosed)
        diagnostics.error("Q002", "this '{' is never closed", brace);
      toldUnclosed = true;
      ast.complete = false;
      if (statements) {
        BrokenStmt rest{{Stmt::Broken, brace}, {}, {}, true};
        statements->push_back(ast.make(std::move(rest)));
      }
      return;
    }
    size_t start = at, count = statements ? statements->size() : 0;
    try {
      one();
      endOfStatement();
    } catch (SyntaxError &error) {
      blameOpenBracket(error, start);
      report(error);
      recover(start);
      if (statements) { // what was read before the mistake does not count
        statements->resize(count);
        statements->push_back(broken(start));
      }
    }
  }
  take();
}

Body Parser::body() {
  Body statements;
  braces([&] { statements.push_back(statement()); }, &statements);
  return statements;
}

// ---- file, model, declarations

void Parser::file() {
  nextLine();
  try {
    if (!accept("quern"))
      fail("the first line must give the language version: quern 1");
    if (lineEnd() || token().text() != "1")
      fail("this compiler knows version 1 of the language, not '" + shown() + "'");
    take();
    endOfStatement();
  } catch (const SyntaxError &error) {
    return report(error);
  }
  while (token().kind != Token::End) {
    size_t start = at;
    try {
      if (peek("block"))
        ast.blocks.push_back(block());
      else if (peek("model"))
        model();
      else if (peek("config"))
        ast.configs.push_back(config());
      else if (accept("ignore"))
        for (std::string &glob : strings(",", "a string"))
          ast.ignores.push_back(std::move(glob));
      else
        fail("expected 'model' or 'block', found '" + shown() + "'");
      if (token().is("}"))
        fail("this '}' closes nothing");
      endOfStatement();
    } catch (const SyntaxError &error) {
      report(error);
      recoverTopLevel(start);
    }
  }
}

std::vector<std::string> Parser::strings(std::string_view separator, const char *what) {
  std::vector<std::string> texts;
  do {
    if (!peekKind(Token::String))
      fail("expected " + std::string(what) + ", found '" + shown() + "'");
    std::string_view text = take().text();
    texts.emplace_back(text.substr(1, text.size() - 2));
  } while (accept(separator));
  return texts;
}

void Parser::model() {
  take();
  Named name = word(Token::Name, "the model's name");
  ModelDecl decl;
  decl.at = name.at;
  decl.name = name.name;
  if (accept("@"))
    decl.path = path();
  braces([&] { modelItem(decl, decl.statements); }, &decl.statements);
  ast.models.push_back(std::move(decl));
}

void Parser::modelItem(ModelDecl &model, Body &statements) {
  if (peek("config"))
    model.configs.push_back(config());
  else if (peek("block")) {
    // A block whose head cannot be read still has a name: calls of it are not reported as unknown.
    std::string name = token(1).kind == Token::Name ? std::string(token(1).text()) : "";
    try {
      model.blocks.push_back(block());
    } catch (const SyntaxError &) {
      BlockDecl decl;
      decl.at = token().at;
      decl.name = name;
      decl.broken = true;
      model.blocks.push_back(ast.make(std::move(decl)));
      throw;
    }
  } else if (accept("ignore")) {
    do {
      if (!peekKind(Token::String))
        fail("expected a string, found '" + shown() + "'");
      model.ignores.push_back(string());
    } while (accept(","));
  } else if (peekKind(Token::Name) && token(1).is("(") && !token(1).startsLine) {
    BlockDecl unread;
    unread.at = token().at;
    unread.name = token().text();
    unread.broken = true;
    try {
      model.functions.push_back(function());
    } catch (const SyntaxError &) {
      model.blocks.push_back(ast.make(std::move(unread)));
      throw;
    }
  } else
    statements.push_back(statement());
}

ConfigDecl Parser::config() {
  take();
  ConfigDecl decl;
  expect("{");
  Deeper deeper(*this);
  nextLine();
  while (!token().is("}")) {
    if (token().kind == Token::End)
      fail("the '{' of this config is never closed");
    size_t start = at;
    try {
      if (accept("ignore")) {
        for (std::string &glob : strings(",", "a string"))
          decl.ignores.push_back(std::move(glob));
      } else {
        ConfigField field;
        field.name = word(Token::Name, "a field's name");
        field.spellings = {field.name.name};
        if (accept("@"))
          field.spellings = strings("|", "a field's name in quotes");
        field.fixed = accept("==");
        if (!field.fixed)
          expect("=", " and a default");
        field.value = expression();
        decl.fields.push_back(std::move(field));
      }
      accept(",");
      if (lineEnd() || token().startsLine)
        nextLine();
    } catch (const SyntaxError &error) {
      report(error);
      recover(start);
    }
  }
  take();
  return decl;
}

const BlockDecl *Parser::block() {
  take();
  Named name = word(Token::Name, "the block's name");
  BlockDecl decl;
  decl.at = name.at;
  decl.name = name.name;
  if (peek("[")) {
    open("[");
    while (true) {
      decl.formals.push_back(word(Token::Dim, "a dimension's name"));
      if (accept(","))
        continue;
      if (!peek("->"))
        break;
      if (decl.arrow)
        fail("a block has one '->' at most");
      take();
      decl.arrow = true;
      decl.inputs = decl.formals.size();
    }
    close("]");
  }
  if (!decl.arrow)
    decl.inputs = decl.formals.size();
  open("(");
  listed(")", [&] { decl.parameters.push_back(parameter()); });
  decl.body = body();
  return ast.make(std::move(decl));
}

/// What the runtime calls a result that has no name of its own.
static std::string usualResult(const std::string &function) {
  return function == "forward" || function == "decode" ? "logits" : function == "encode" ? "memory" : function;
}

const FunctionDecl *Parser::function() {
  FunctionDecl decl;
  const Token &name = take();
  decl.at = name.at;
  decl.name = name.text();
  open("(");
  listed(")", [&] { decl.parameters.push_back(parameter()); });
  expect("->", " and the result's type");
  if (peek("(")) {
    open("(");
    if (peek(")"))
      fail("a function has at least one result");
    listed(")", [&] {
      Named result = word(Token::Name, "a result's name, as in -> (hidden: [B, T, D], pooled: [B, D])");
      expect(":", " and the result's type");
      decl.results.push_back({std::move(result), type()});
    });
  } else {
    TypeNode only = type();
    const Span place = only.at;
    decl.results.push_back({{usualResult(decl.name), place}, std::move(only)});
  }
  auto plain = [&](const std::string &what, const TypeNode *type, Span place) {
    bool good = type && !type->rest;
    for (const Expr *dim : type ? type->dims : Exprs())
      good &= dim->kind == Expr::DimName;
    if (!good)
      failAt(what + ": a function's values need a type of plain dimension names, such as int[B, T]", place);
  };
  for (const Parameter &p : decl.parameters)
    plain(p.name.name, p.type ? &*p.type : nullptr, p.name.at);
  for (const FunctionResult &result : decl.results)
    plain("the result", &result.type, result.type.at);
  decl.body = body();
  return ast.make(std::move(decl));
}

Parameter Parser::parameter() {
  Parameter p;
  p.name = word(Token::Name, "a parameter's name");
  if (accept(":"))
    p.type = type();
  if (accept("="))
    p.fallback = expression();
  return p;
}

TypeNode Parser::type() {
  TypeNode node;
  size_t start = at;
  if (peekKind(Token::Name) && (token().text() == "int" || token().text() == "bool" || token().text() == "real")) {
    std::string_view kind = take().text();
    node.kind = kind == "int" ? Kind::Int : kind == "bool" ? Kind::Bool : Kind::Real;
  }
  if (!peek("["))
    fail("expected a type such as [.., D] or int[B, T], found '" + shown() + "'");
  open("[");
  listed("]", [&] {
    if (accept(".."))
      node.rest = true;
    else
      node.dims.push_back(dimension());
  });
  node.at = from(start);
  return node;
}

} // namespace quern::frontend
