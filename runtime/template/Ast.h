// A parsed template.
#ifndef QUERN_RUNTIME_TEMPLATE_AST_H
#define QUERN_RUNTIME_TEMPLATE_AST_H

#include "runtime/template/Value.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quern::runtime::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind {
  Constant,  // value
  Name,      // name
  List,      // parts; a tuple as well
  Dict,      // parts: keys and values, alternating
  Attribute, // parts[0].name
  Item,      // parts[0][parts[1]]
  Slice,     // parts[0][parts[1]:parts[2]:parts[3]], null where nothing is said
  Call,      // parts[0](...)
  Filter,    // parts[0] | name(...)
  Test,      // parts[0] is name(...)
  Unary,     // name: "not", "-", "+"
  Binary,    // name: an operator, "and", "or", "in", "~"
  Compare,   // parts[0] names[0] parts[1] names[1] ...
  Choice,    // parts[1] if parts[0] else parts[2], which may be null
};

struct Expr {
  ExprKind kind;
  int line;
  std::string name;
  Value value;
  std::vector<ExprPtr> parts;
  std::vector<std::string> names;
  std::vector<std::pair<std::string, ExprPtr>> named; // arguments by name
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

enum class StmtKind {
  Text,  // name
  Print, // value
  If,    // value, body, otherwise
  For,   // targets in value, where `condition`: body; none at all: otherwise
  Set,   // target = value, or of body's text where there is no value
  Macro, // name(targets, defaults): body
  Break,
  Continue,
  Group, // body
};

struct Stmt {
  StmtKind kind;
  int line;
  std::string name;
  ExprPtr value, condition;
  ExprPtr target; // a name, a list of names, or an attribute of a name
  std::vector<std::string> targets;
  std::vector<ExprPtr> defaults; // of the last targets
  Body body, otherwise;
};

/// Throws UserError with the line.
Body parse(const std::string &source);

} // namespace quern::runtime::jinja
#endif
