// Takes: a spec without other mistakes. Gives: Q035 for values, parameters of blocks and constants that nothing reads, and (a warning) for blocks that nothing calls.
// Why on the tree: a value that only one config's branch needs is used; what no branch reads is a slip of the pen.
#include "frontend/check/Elaborator.h"

#include <algorithm>

namespace quern::frontend {

namespace {

using Names = std::set<std::string>;

/// Liveness, backwards over bodies. A loop's body is followed by itself: what the next one reads is live at its end.
class Liveness {
public:
  explicit Liveness(Diagnostics &diagnostics) : diagnostics(diagnostics) {}

  /// What is live before `statements`, of which `live` is live after them. Unread values are reported if `report`.
  Names walk(const Body &statements, Names live, bool report) {
    for (auto it = statements.rbegin(); it != statements.rend(); ++it)
      live = step(**it, std::move(live), report);
    return live;
  }

  void addReads(Names &into, const Expr *expr) {
    std::vector<std::string> names, blocks;
    collectVariables(expr, names);
    collectCalls(expr, blocks);
    into.insert(names.begin(), names.end());
    called.insert(blocks.begin(), blocks.end());
  }

  Names called; // blocks, and operations of the language, that any expression calls

private:
  Diagnostics &diagnostics;
  std::map<const Body *, Names> loops; // what a body reads before it gives it a value

  void addReads(Names &into, const Exprs &exprs) {
    for (const Expr *expr : exprs)
      addReads(into, expr);
  }
  void addReads(Names &into, const TypeNode &type) { addReads(into, type.dims); }

  const Names &readsOf(const Body &body) {
    auto it = loops.find(&body);
    if (it == loops.end())
      it = loops.emplace(&body, walk(body, {}, false)).first;
    return it->second;
  }

  /// What is live before a loop of which `live` is live afterwards.
  Names around(const Body &body, Names live, bool report) {
    Names inside = live;
    inside.insert(readsOf(body).begin(), readsOf(body).end());
    Names before = walk(body, std::move(inside), report);
    live.merge(before);
    return live;
  }

  Names step(const Stmt &stmt, Names live, bool report) {
    switch (stmt.kind) {
    case Stmt::If: {
      auto &branch = stmt.as<IfStmt>();
      Names otherwise = walk(branch.otherwise, live, report);
      live = walk(branch.then, std::move(live), report);
      live.merge(otherwise);
      addReads(live, branch.condition);
      return live;
    }
    case Stmt::Repeat: {
      auto &loop = stmt.as<RepeatStmt>();
      live = around(loop.body, std::move(live), report);
      addReads(live, loop.first);
      addReads(live, loop.last);
      addReads(live, loop.path);
      return live;
    }
    case Stmt::Scan:
      return around(stmt.as<ScanStmt>().body, std::move(live), report);
    case Stmt::Return:
      live.clear();
      addReads(live, stmt.as<ReturnStmt>().values);
      return live;
    case Stmt::Require:
      addReads(live, stmt.as<RequireStmt>().condition);
      addReads(live, stmt.as<RequireStmt>().message);
      return live;
    case Stmt::Dim:
      addReads(live, stmt.as<DimStmt>().values);
      return live;
    case Stmt::Param: {
      auto &param = stmt.as<ParamStmt>();
      settle({param.name}, live, report);
      addReads(live, param.type);
      addReads(live, param.path);
      addReads(live, param.initValue);
      return live;
    }
    case Stmt::Assign: {
      auto &assign = stmt.as<AssignStmt>();
      settle(assign.targets, live, report);
      addReads(live, assign.values);
      if (assign.type)
        addReads(live, *assign.type);
      return live;
    }
    case Stmt::Broken:
      break;
    }
    return live;
  }

  void settle(const std::vector<Named> &targets, Names &live, bool report) {
    bool any =
        std::any_of(targets.begin(), targets.end(), [&](const Named &target) { return live.count(target.name); });
    if (report && !any)
      diagnostics.error("Q035", "the value of '" + targets[0].name + "' is never used", targets[0].at);
    for (const Named &target : targets)
      if (report && any && target.name != "_" && !live.count(target.name))
        diagnostics.error("Q035",
                          "the value of '" + target.name + "' is never used; write _ for a result that is not needed",
                          target.at);
    for (const Named &target : targets)
      live.erase(target.name);
  }
};

} // namespace

void reportUnused(const Ast &spec, const ModelDecl &model, Diagnostics &diagnostics) {
  Liveness liveness(diagnostics);
  std::vector<const BlockDecl *> blocks = spec.blocks;
  blocks.insert(blocks.end(), model.blocks.begin(), model.blocks.end());
  Names anywhere; // read by any block or function: constants of the model among them
  for (const BlockDecl *block : blocks) {
    Names live = liveness.walk(block->body, {}, true), inDefaults;
    for (const Parameter &parameter : block->parameters)
      liveness.addReads(inDefaults, parameter.fallback);
    for (const Parameter &parameter : block->parameters)
      if (!live.count(parameter.name.name) && !inDefaults.count(parameter.name.name))
        diagnostics.error("Q035", "'" + block->name + "' never uses its parameter '" + parameter.name.name + "'",
                          parameter.name.at);
    anywhere.insert(live.begin(), live.end());
    anywhere.merge(inDefaults);
  }
  for (const FunctionDecl *function : model.functions) {
    Names live = liveness.walk(function->body, {}, true);
    anywhere.insert(live.begin(), live.end());
    for (const Parameter &parameter : function->parameters)
      liveness.addReads(anywhere, parameter.fallback);
  }
  for (const Expr *glob : model.ignores)
    liveness.addReads(anywhere, glob);
  liveness.walk(model.statements, anywhere, true);
  for (const BlockDecl *block : blocks)
    if (!liveness.called.count(block->name))
      diagnostics.warning("Q035", "the block '" + block->name + "' is never used", block->at);
}

} // namespace quern::frontend
