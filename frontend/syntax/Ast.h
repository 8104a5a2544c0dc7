// The tree of a spec as written. Nodes live in the Ast's arena: no destructor recurses, however deep the tree.
#ifndef QUERN_FRONTEND_SYNTAX_AST_H
#define QUERN_FRONTEND_SYNTAX_AST_H

#include "frontend/syntax/Source.h"
#include "support/Storage.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quern::frontend {

// ---- expressions; dimension expressions are among them, as brackets may hold either

struct Expr {
  enum Kind : uint8_t {
    Integer,
    Real,
    True,
    False,
    Null,
    String,
    Variable,
    List,
    Tuple, // several values; never of one
    Unary,
    Binary,
    Chain,
    Choose,
    Member,
    Index,
    Call, // values
    DimName,
    Unit,
    Group,
    Sum, // dimensions
    Rest,
    Gather,
    Range // in brackets only
  };
  Kind kind;
  Span at;

  bool isDim() const { return kind >= DimName && kind <= Sum; }
  template <typename T> const T &as() const { return static_cast<const T &>(*this); }
};

enum class Op : uint8_t {
  Or,
  And,
  Not,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  Equal,
  NotEqual,
  In,
  NotIn,
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  Mod,
  Pow,
  Neg,
  Else
};
const char *spelling(Op op);

using Exprs = std::vector<const Expr *>;

struct IntegerExpr : Expr {
  int64_t value;
};
struct RealExpr : Expr {
  double value;
}; // also inf and pi
struct StringExpr : Expr {
  std::vector<std::string> texts;
  Exprs values;
}; // text, value, text, ... , text
struct NamedExpr : Expr {
  std::string name;
}; // Variable, DimName
struct ListExpr : Expr {
  Exprs values;
}; // List; Group and Sum of dimensions
struct UnaryExpr : Expr {
  Op op;
  const Expr *value;
};
struct BinaryExpr : Expr {
  Op op;
  const Expr *left, *right;
};
struct ChainExpr : Expr {
  Exprs operands;
  std::vector<Op> ops;
}; // a <= b < c: each operand is computed once
struct ChooseExpr : Expr {
  const Expr *condition, *then, *otherwise;
};
struct MemberExpr : Expr {
  const Expr *value;
  std::string name;
};
struct GatherItem : Expr {
  std::string name;
  const Expr *index;
}; // D = index
struct RangeItem : Expr {
  std::string name;
  const Expr *first, *last;
}; // D: first..last, either may be null

/// What stands between [ and ]: items, each with whether `->` (not a comma) stands before it.
struct Item {
  const Expr *value;
  bool arrow;
};
struct IndexExpr : Expr {
  const Expr *value;
  std::vector<Item> items;
};

using Path = Exprs; // alternatives

struct Argument {
  std::string name; // empty: by position
  Span nameAt;
  const Expr *value;
};
struct CallExpr : Expr {
  std::string name;
  std::vector<Item> dims;
  std::vector<Argument> arguments;
  Path path; // empty: no @
};

// ---- types and statements

using support::Kind;
using support::kindName;

struct TypeNode {
  Span at;
  Kind kind = Kind::Real;
  bool rest = false; // has ..
  Exprs dims;
};

struct Stmt {
  enum Kind : uint8_t { Assign, Dim, Param, Repeat, Scan, If, Return, Require, Broken };
  Kind kind;
  Span at;
  template <typename T> const T &as() const { return static_cast<const T &>(*this); }
};
using Body = std::vector<const Stmt *>;

struct Named {
  std::string name;
  Span at;
};
struct AssignStmt : Stmt {
  std::vector<Named> targets;
  std::optional<TypeNode> type;
  Exprs values;
};
struct DimStmt : Stmt {
  std::vector<Named> names;
  Exprs values;
};
struct ParamStmt : Stmt {
  Named name;
  TypeNode type;
  Path path;
  std::string init;
  Span initAt;
  const Expr *initValue = nullptr;
  bool ifAbsent = false;
};
struct RepeatStmt : Stmt {
  Named index;
  const Expr *first, *last;
  Path path;
  Body body;
}; // first may be null
struct ScanStmt : Stmt {
  Named dim;
  bool fromEnd;
  Body body;
};
struct IfStmt : Stmt {
  const Expr *condition;
  Body then, otherwise;
};
struct ReturnStmt : Stmt {
  Exprs values;
};
struct RequireStmt : Stmt {
  const Expr *condition, *message;
}; // message may be null
/// What could not be read. The names that it seems to give are unknown afterwards, in silence.
struct BrokenStmt : Stmt {
  std::vector<std::string> names, dims;
  bool mayReturn;
};

// ---- declarations

struct Parameter {
  Named name;
  std::optional<TypeNode> type;
  const Expr *fallback = nullptr;
};

struct BlockDecl {
  Span at; // of the name
  std::string name;
  std::vector<Named> formals;
  size_t inputs = 0; // formals left of ->; all of them without an arrow
  bool arrow = false;
  std::vector<Parameter> parameters;
  Body body;
  bool broken = false;
  /// "linear[I -> O]".
  std::string form() const;
};

/// `name: type`, or a type alone: the only result, with the name that the runtime has for it.
struct FunctionResult {
  Named name;
  TypeNode type;
};

struct FunctionDecl {
  Span at;
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<FunctionResult> results; // at least one
  Body body;
  /// The number of the result that text is scored with: the only one, or of several `logits`. -1: there is none.
  int scored() const;
};

struct ConfigField {
  Named name;
  std::vector<std::string> spellings;
  const Expr *value;
  bool fixed; // == : no other value will do
};

struct ConfigDecl {
  std::vector<ConfigField> fields;
  std::vector<std::string> ignores;
};

struct ModelDecl {
  Span at;
  std::string name;
  Path path;
  std::vector<ConfigDecl> configs;
  std::vector<const BlockDecl *> blocks;
  std::vector<const FunctionDecl *> functions;
  Body statements;
  Exprs ignores; ///< strings
};

class Ast {
public:
  std::shared_ptr<const Source> source;
  std::vector<ModelDecl> models;
  std::vector<const BlockDecl *> blocks;
  std::vector<ConfigDecl> configs; // only std.quern has these two
  std::vector<std::string> ignores;
  bool complete = true; // false after a mistake: what is missing is not missed

  template <typename T> T *make(T node) {
    auto owned = std::make_shared<T>(std::move(node));
    T *raw = owned.get();
    arena.push_back(std::move(owned));
    return raw;
  }

private:
  std::deque<std::shared_ptr<void>> arena;
};

/// Names of values (Variable) anywhere inside, in order.
void collectVariables(const Expr *expr, std::vector<std::string> &names);
/// The names of all calls in an expression.
void collectCalls(const Expr *expr, std::vector<std::string> &names);
/// Names of dimensions anywhere inside (in a dimension expression: its parts), in order.
std::vector<std::string> dimNames(const Expr &dim);
/// As in the source, for messages: "(H, K) + (H, K)".
std::string dimText(const Expr &dim);
/// How many tensors a dimension expression stands for (saturating).
size_t leaves(const Expr &dim);
/// Names given a value, or dimensions declared, anywhere inside.
void collectAssigned(const Body &body, std::vector<std::string> &names, std::vector<std::string> &dims);
bool containsReturn(const Body &body);

} // namespace quern::frontend
#endif
