// Takes: tokens. Gives: statements. The tags are Jinja 3's, without those that load other templates.
#include "runtime/template/Parser.h"

namespace quern::runtime::jinja {

/// Up to a tag that is one of `ends`, whose name is then taken; or up to the end of the text.
Body Parser::statements(std::initializer_list<std::string_view> ends) {
  Deeper deeper(*this);
  Body body;
  while (true) {
    const Token &token = peek();
    if (token.kind == TokenKind::End)
      return body;
    int line = token.line;
    auto add = [&](StmtKind kind) -> Stmt & {
      body.push_back(std::make_unique<Stmt>());
      body.back()->kind = kind;
      body.back()->line = line;
      return *body.back();
    };
    ++at;
    if (token.kind == TokenKind::Text) {
      add(StmtKind::Text).name = token.text;
    } else if (token.kind == TokenKind::Print) {
      add(StmtKind::Print).value = tuple();
      if (peek().kind != TokenKind::PrintEnd)
        fail("unexpected " + quote(peek().text) + " in {{ }}");
      ++at;
    } else {
      std::string tag = name();
      if (std::find(ends.begin(), ends.end(), tag) != ends.end()) {
        ended = tag;
        return body;
      }
      body.push_back(statement(tag));
      body.back()->line = line;
    }
  }
}

Body Parser::bodyUntil(std::initializer_list<std::string_view> ends) {
  int line = peek().line;
  ended.clear();
  Body body = statements(ends);
  if (ended.empty())
    throw UserError(format("line %d of the template: a block is not closed; expected {%% %s %%}", line,
                           std::string(*(ends.end() - 1)).c_str()));
  return body;
}

std::unique_ptr<Stmt> Parser::statement(const std::string &tag) {
  auto made = std::make_unique<Stmt>();
  if (tag == "if") {
    ifBody(*made);
  } else if (tag == "for") {
    forBody(*made);
  } else if (tag == "set") {
    setBody(*made);
  } else if (tag == "macro") {
    macroBody(*made);
  } else if (tag == "break" || tag == "continue") {
    if (loops == 0)
      fail("'" + tag + "' stands outside of a loop");
    made->kind = tag == "break" ? StmtKind::Break : StmtKind::Continue;
    endBlock();
  } else if (tag == "generation") { // Hugging Face's mark of what the assistant says
    made->kind = StmtKind::Group;
    endBlock();
    made->body = bodyUntil({"endgeneration"});
    endBlock();
  } else {
    --at;
    fail("the tag " + quote(tag) + " is not known here");
  }
  return made;
}

void Parser::ifBody(Stmt &made) {
  made.kind = StmtKind::If;
  Stmt *now = &made;
  while (true) {
    now->value = tuple();
    endBlock();
    now->body = bodyUntil({"elif", "else", "endif"});
    if (ended != "elif")
      break;
    now->otherwise.push_back(std::make_unique<Stmt>());
    now = now->otherwise.back().get();
    now->kind = StmtKind::If;
    now->line = peek().line;
  }
  if (ended == "else") {
    endBlock();
    now->otherwise = bodyUntil({"endif"});
  }
  endBlock();
}

void Parser::forBody(Stmt &made) {
  made.kind = StmtKind::For;
  bool bracket = accept("(");
  do
    made.targets.push_back(name());
  while (accept(","));
  if (bracket)
    expect(")");
  expect("in");
  made.value = expression(false);
  if (accept("if"))
    made.condition = expression();
  if (isName("recursive"))
    fail("recursive loops are not known here");
  endBlock();
  ++loops;
  made.body = bodyUntil({"else", "endfor"});
  --loops;
  if (ended == "else") {
    endBlock();
    made.otherwise = bodyUntil({"endfor"});
  }
  endBlock();
}

void Parser::setBody(Stmt &made) {
  made.kind = StmtKind::Set;
  std::string first = name();
  made.target = node(ExprKind::Name, first);
  if (accept(".")) {
    std::string attribute = name();
    made.target = node(ExprKind::Attribute, attribute, std::move(made.target));
  } else if (isOperator(",")) {
    made.target = node(ExprKind::List, "", std::move(made.target));
    while (accept(",")) {
      std::string next = name();
      made.target->parts.push_back(node(ExprKind::Name, next));
    }
  }
  if (accept("=")) {
    made.value = tuple();
    endBlock();
    return;
  }
  endBlock();
  made.body = bodyUntil({"endset"});
  endBlock();
}

void Parser::macroBody(Stmt &made) {
  made.kind = StmtKind::Macro;
  made.name = name();
  expect("(");
  while (!accept(")")) {
    if (!made.targets.empty())
      expect(",");
    made.targets.push_back(name());
    if (accept("="))
      made.defaults.push_back(expression());
    else if (!made.defaults.empty())
      fail("an argument without a default follows one with a default");
  }
  endBlock();
  int outer = std::exchange(loops, 0);
  made.body = bodyUntil({"endmacro"});
  loops = outer;
  endBlock();
}

Body parse(const std::string &source) {
  return Parser(lex(source)).run();
}

} // namespace quern::runtime::jinja
