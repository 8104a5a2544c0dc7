// Takes: trees. Gives: small facts about them that both the parser and the checker ask for.
#include "frontend/syntax/Ast.h"

#include <algorithm>

namespace quern::frontend {

const char *spelling(Op op) {
  static const char *const names[] = {"or",     "and", "not", "<", "<=", ">",  ">=", "==", "!=", "in",
                                      "not in", "+",   "-",   "*", "/",  "//", "%",  "^",  "-",  "??"};
  return names[static_cast<int>(op)];
}

std::string BlockDecl::form() const {
  if (formals.empty())
    return name;
  std::string text = name + "[";
  for (size_t i = 0; i < formals.size(); ++i)
    text += (!i ? "" : arrow && i == inputs ? " -> " : ", ") + formals[i].name;
  return text + "]";
}

/// `visit` for every expression directly below this one.
template <typename Visit> static void forChildren(const Expr &expr, Visit visit) {
  auto each = [&](const Exprs &list) {
    for (const Expr *e : list)
      visit(e);
  };
  auto maybe = [&](const Expr *e) {
    if (e)
      visit(e);
  };
  switch (expr.kind) {
  case Expr::String:
    return each(expr.as<StringExpr>().values);
  case Expr::List:
  case Expr::Tuple:
  case Expr::Group:
  case Expr::Sum:
    return each(expr.as<ListExpr>().values);
  case Expr::Unary:
    return visit(expr.as<UnaryExpr>().value);
  case Expr::Binary:
    return visit(expr.as<BinaryExpr>().left), visit(expr.as<BinaryExpr>().right);
  case Expr::Chain:
    return each(expr.as<ChainExpr>().operands);
  case Expr::Choose: {
    auto &choose = expr.as<ChooseExpr>();
    return visit(choose.condition), visit(choose.then), visit(choose.otherwise);
  }
  case Expr::Member:
    return visit(expr.as<MemberExpr>().value);
  case Expr::Index:
    visit(expr.as<IndexExpr>().value);
    for (const Item &item : expr.as<IndexExpr>().items)
      visit(item.value);
    return;
  case Expr::Call:
    for (const Item &item : expr.as<CallExpr>().dims)
      visit(item.value);
    for (const Argument &argument : expr.as<CallExpr>().arguments)
      visit(argument.value);
    return each(expr.as<CallExpr>().path);
  case Expr::Gather:
    return visit(expr.as<GatherItem>().index);
  case Expr::Range:
    return maybe(expr.as<RangeItem>().first), maybe(expr.as<RangeItem>().last);
  default:
    return;
  }
}

void collectVariables(const Expr *expr, std::vector<std::string> &names) {
  if (!expr)
    return;
  if (expr->kind == Expr::Variable)
    names.push_back(expr->as<NamedExpr>().name);
  forChildren(*expr, [&](const Expr *child) { collectVariables(child, names); });
}

void collectCalls(const Expr *expr, std::vector<std::string> &names) {
  if (!expr)
    return;
  if (expr->kind == Expr::Call)
    names.push_back(expr->as<CallExpr>().name);
  forChildren(*expr, [&](const Expr *child) { collectCalls(child, names); });
}

static void collectDims(const Expr *expr, std::vector<std::string> &names) {
  if (expr->kind == Expr::DimName)
    names.push_back(expr->as<NamedExpr>().name);
  else if (expr->kind == Expr::Gather)
    names.push_back(expr->as<GatherItem>().name);
  else if (expr->kind == Expr::Range)
    names.push_back(expr->as<RangeItem>().name);
  forChildren(*expr, [&](const Expr *child) { collectDims(child, names); });
}

std::vector<std::string> dimNames(const Expr &dim) {
  std::vector<std::string> names;
  collectDims(&dim, names);
  return names;
}

std::string dimText(const Expr &dim) {
  switch (dim.kind) {
  case Expr::DimName:
    return dim.as<NamedExpr>().name;
  case Expr::Unit:
    return "1";
  case Expr::Rest:
    return "..";
  case Expr::Group:
  case Expr::Sum: {
    bool group = dim.kind == Expr::Group;
    std::string text;
    for (const Expr *part : dim.as<ListExpr>().values)
      text += (text.empty() ? "" : group ? ", " : " + ") + dimText(*part);
    return group ? "(" + text + ")" : text;
  }
  default:
    return "...";
  }
}

size_t leaves(const Expr &dim) {
  constexpr size_t most = 1u << 20; // far beyond what a call may return; keeps products from wrapping
  size_t n = dim.kind == Expr::Sum ? 0 : 1;
  if (dim.kind == Expr::Sum || dim.kind == Expr::Group)
    for (const Expr *part : dim.as<ListExpr>().values)
      n = std::min(most, dim.kind == Expr::Sum ? n + leaves(*part) : n * leaves(*part));
  return n;
}

int FunctionDecl::scored() const {
  for (size_t i = 0; i < results.size(); ++i)
    if (results.size() == 1 || results[i].name.name == "logits")
      return int(i);
  return -1;
}

void collectAssigned(const Body &body, std::vector<std::string> &names, std::vector<std::string> &dims) {
  for (const Stmt *stmt : body)
    switch (stmt->kind) {
    case Stmt::Assign:
      for (const Named &target : stmt->as<AssignStmt>().targets)
        names.push_back(target.name);
      break;
    case Stmt::Dim:
      for (const Named &dim : stmt->as<DimStmt>().names)
        dims.push_back(dim.name);
      break;
    case Stmt::Param:
      names.push_back(stmt->as<ParamStmt>().name.name);
      break;
    case Stmt::Repeat:
      collectAssigned(stmt->as<RepeatStmt>().body, names, dims);
      break;
    case Stmt::Scan:
      collectAssigned(stmt->as<ScanStmt>().body, names, dims);
      break;
    case Stmt::If:
      collectAssigned(stmt->as<IfStmt>().then, names, dims);
      collectAssigned(stmt->as<IfStmt>().otherwise, names, dims);
      break;
    case Stmt::Broken: {
      auto &broken = stmt->as<BrokenStmt>();
      names.insert(names.end(), broken.names.begin(), broken.names.end());
      dims.insert(dims.end(), broken.dims.begin(), broken.dims.end());
      break;
    }
    default:
      break;
    }
}

bool containsReturn(const Body &body) {
  for (const Stmt *stmt : body) {
    if (stmt->kind == Stmt::Return || (stmt->kind == Stmt::Broken && stmt->as<BrokenStmt>().mayReturn))
      return true;
    if (stmt->kind == Stmt::If &&
        (containsReturn(stmt->as<IfStmt>().then) || containsReturn(stmt->as<IfStmt>().otherwise)))
      return true;
    if (stmt->kind == Stmt::Repeat && containsReturn(stmt->as<RepeatStmt>().body))
      return true;
    if (stmt->kind == Stmt::Scan && containsReturn(stmt->as<ScanStmt>().body))
      return true;
  }
  return false;
}

} // namespace quern::frontend
