// Takes: a model without `loss`. Gives: the declaration that training uses, as if it were written in the spec. Why as a
// declaration: the elaborator then checks and inlines it like any other, and the library's cross_entropy is the only
// one.
//
//   forward(tokens: int[B, T], mask: bool[B, T] = true) -> [B, T, V] { ... }
//   =>  loss(tokens: int[B, T], labels: int[B, T], mask: bool[B, T] = true) -> [] {
//         return cross_entropy[V](forward(tokens, mask: mask), labels)
//       }
#include "frontend/check/DefaultLoss.h"

#include <algorithm>

namespace quern::frontend {

namespace {
class Maker {
public:
  Maker(Ast &ast, Span at) : ast(ast), at(at) {}

  const Expr *variable(const std::string &name) { return ast.make(NamedExpr{{Expr::Variable, at}, name}); }

  /// name(first: first, second: second ...).
  const Expr *call(const std::string &name, const std::vector<std::pair<std::string, const Expr *>> &arguments,
                   std::vector<Item> dims = {}) {
    CallExpr expr{{Expr::Call, at}, name, std::move(dims), {}, {}};
    for (const auto &[parameter, value] : arguments)
      expr.arguments.push_back({parameter, at, value});
    return ast.make(std::move(expr));
  }

private:
  Ast &ast;
  Span at;
};
} // namespace

static const FunctionDecl *find(const ModelDecl &model, const std::string &name) {
  auto found =
      std::find_if(model.functions.begin(), model.functions.end(), [&](auto *decl) { return decl->name == name; });
  return found == model.functions.end() ? nullptr : *found;
}

DefaultLoss defaultLoss(const ModelDecl &model, Ast &ast) {
  const FunctionDecl *forward = find(model, "forward"), *decode = find(model, "decode"),
                     *encode = find(model, "encode");
  const FunctionDecl *scored = forward ? forward : decode;
  if (find(model, "loss") || !scored || scored->parameters.empty() || !scored->parameters[0].type ||
      scored->result.kind != Kind::Real || scored->result.dims.size() != 3 ||
      scored->parameters[0].type->dims.size() != 2)
    return {};
  Maker make(ast, scored->at);
  const Parameter &text = scored->parameters[0];
  FunctionDecl loss{scored->at, "loss", {}, {scored->at, Kind::Real, false, {}}, {}};
  auto known = [&](const std::string &name) {
    return std::any_of(loss.parameters.begin(), loss.parameters.end(),
                       [&](const Parameter &p) { return p.name.name == name; });
  };
  auto argumentsOf = [&](const FunctionDecl &decl) {
    std::vector<std::pair<std::string, const Expr *>> arguments;
    for (const Parameter &parameter : decl.parameters) {
      const std::string &name = parameter.name.name;
      if (&decl == decode && name == "memory" && encode)
        continue;
      if (!known(name))
        loss.parameters.push_back(parameter);
      arguments.emplace_back(name, make.variable(name));
    }
    return arguments;
  };
  std::vector<std::pair<std::string, const Expr *>> memory;
  if (scored == decode && encode)
    memory.emplace_back("memory", make.call("encode", argumentsOf(*encode)));
  auto arguments = argumentsOf(*scored);
  arguments.insert(arguments.end(), memory.begin(), memory.end());
  // As every token is given, so is every label: the same type, and no default.
  loss.parameters.push_back({{"labels", scored->at}, text.type, nullptr});
  std::stable_partition(loss.parameters.begin(), loss.parameters.end(), [](const Parameter &p) { return !p.fallback; });
  const Expr *scores = make.call(scored->name, arguments);
  ReturnStmt body{{Stmt::Return, scored->at}, {}};
  body.values.push_back(make.call("cross_entropy", {{"logits", scores}, {"labels", make.variable("labels")}},
                                  {{scored->result.dims.back(), false}}));
  loss.body.push_back(ast.make(std::move(body)));
  return {ast.make(std::move(loss)), scored == forward};
}

} // namespace quern::frontend
