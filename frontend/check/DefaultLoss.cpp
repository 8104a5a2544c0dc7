// Takes: a model without `loss`. Gives: the declaration that training uses, as if it were written in the spec. Why as a
// declaration: the elaborator then checks and inlines it like any other, and the library's cross_entropy is the only
// one.
//
//   forward(tokens: int[B, T], mask: bool[B, T] = true) -> [B, T, V] { ... }
//   =>  loss(tokens: int[B, T], labels: int[B, T], mask: bool[B, T] = true) -> [] {
//         return cross_entropy[V](forward(tokens, mask: mask), labels)
//       }
//
// Of a function with several results, `logits` counts: `_, logits = forward(tokens, mask: mask)` stands before the return.
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
  const int number = scored ? scored->scored() : -1;
  if (find(model, "loss") || number < 0 || scored->parameters.empty() || !scored->parameters[0].type ||
      scored->parameters[0].type->dims.size() != 2)
    return {};
  const TypeNode &scores = scored->results[size_t(number)].type;
  if (scores.kind != Kind::Real || scores.dims.size() != 3)
    return {};
  Maker make(ast, scored->at);
  FunctionDecl loss{scored->at, "loss", {}, {{{"loss", scored->at}, {scored->at, Kind::Real, false, {}}}}, {}};
  auto known = [&](const std::string &name) {
    return std::any_of(loss.parameters.begin(), loss.parameters.end(),
                       [&](const Parameter &p) { return p.name.name == name; });
  };
  auto takes = [](const FunctionDecl &decl, const std::string &name) {
    return std::any_of(decl.parameters.begin(), decl.parameters.end(),
                       [&](const Parameter &p) { return p.name.name == name; });
  };
  std::vector<std::pair<std::string, const Expr *>> passed; // what `encode` gives `decode`
  auto argumentsOf = [&](const FunctionDecl &decl) {
    std::vector<std::pair<std::string, const Expr *>> arguments;
    for (const Parameter &parameter : decl.parameters) {
      const std::string &name = parameter.name.name;
      if (std::any_of(passed.begin(), passed.end(), [&](const auto &one) { return one.first == name; }))
        continue;
      if (!known(name))
        loss.parameters.push_back(parameter);
      arguments.emplace_back(name, make.variable(name));
    }
    return arguments;
  };
  // A call's results, of which `wanted` are used: its only one as an expression, several by a statement that names them.
  auto results = [&](const FunctionDecl &decl, const Expr *call, auto wanted) {
    std::vector<std::pair<std::string, const Expr *>> values;
    AssignStmt assign{{Stmt::Assign, scored->at}, {}, std::nullopt, {call}};
    for (const FunctionResult &result : decl.results) {
      const std::string &name = result.name.name;
      const bool used = wanted(name);
      assign.targets.push_back({used ? name : "_", scored->at});
      if (used)
        values.emplace_back(name, decl.results.size() == 1 ? call : make.variable(name));
    }
    if (decl.results.size() > 1)
      loss.body.push_back(ast.make(std::move(assign)));
    return values;
  };
  if (scored == decode && encode)
    passed = results(*encode, make.call("encode", argumentsOf(*encode)),
                     [&](const std::string &name) { return takes(*decode, name); });
  auto arguments = argumentsOf(*scored);
  arguments.insert(arguments.end(), passed.begin(), passed.end());
  // As every token is given, so is every label: the same type, and no default.
  loss.parameters.push_back({{"labels", scored->at}, scored->parameters[0].type, nullptr});
  std::stable_partition(loss.parameters.begin(), loss.parameters.end(), [](const Parameter &p) { return !p.fallback; });
  const std::string &logits = scored->results[size_t(number)].name.name;
  auto values =
      results(*scored, make.call(scored->name, arguments), [&](const std::string &name) { return name == logits; });
  ReturnStmt body{{Stmt::Return, scored->at}, {}};
  body.values.push_back(make.call("cross_entropy", {{"logits", values[0].second}, {"labels", make.variable("labels")}},
                                  {{scores.dims.back(), false}}));
  loss.body.push_back(ast.make(std::move(body)));
  return {ast.make(std::move(loss)), scored == forward};
}

} // namespace quern::frontend
