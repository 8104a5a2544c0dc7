// Takes: `scan` statements. Gives: a body walked once, or until its states no longer gain dimensions; the names after it.
// Why roles by type: what has the dimension is read at the position, what had a value and lacks it is carried, what is new
// is stacked. So a spec needs no lists of them, and two codes (Q038, Q039) catch what this could let pass.
#include "frontend/check/Elaborator.h"

#include <algorithm>

namespace quern::frontend {

static constexpr int maxRounds = 64;

static DimRefs without(const DimRefs &dims, DimRef gone) {
  DimRefs kept;
  for (DimRef dim : dims)
    if (dim != gone)
      kept.push_back(dim);
  return kept;
}

/// A number (or true, false) over all dimensions of a type: `h: [B, E] = 0`.
Tensor Elaborator::spreadNumber(const Value &value, const TypeNode &type, Scope &scope, const Named &name) {
  if (*value.kind() != type.kind && !(type.kind == Kind::Real && value.kind() == Kind::Int))
    fail("Q025", "'" + name.name + "' is " + kindName(*value.kind()) + "; " + kindName(type.kind) + " is needed",
         name.at);
  DimRefs dims;
  for (const Expr *dim : type.dims) {
    DimRef label = this->label(*dim, scope);
    unscanned(label, dim->at);
    if (std::find(dims.begin(), dims.end(), label) != dims.end())
      fail("Q026", "'" + name.name + "' has " + label->shown + " twice", dim->at);
    dims.push_back(label);
  }
  Tensor tensor = expandTo(asKind(tensorOf(value), type.kind), dims);
  tensor.open = type.rest;
  return tensor;
}

void Elaborator::scan(const ScanStmt &stmt, Scope &scope) {
  DimRef dim = labelNamed(stmt.dim.name, stmt.dim.at, scope);
  apart(dim, stmt.dim.at);
  if (dim->twinOf)
    fail("Q037", dim->shown + " is a twin of " + dim->twinOf->shown + "; scan " + dim->twinOf->shown, stmt.dim.at,
         declaredHere(dim));
  std::vector<std::string> names, declared;
  collectAssigned(stmt.body, names, declared);
  std::set<std::string> named(names.begin(), names.end());
  std::map<std::string, Tensor> entry;
  for (const std::string &name : named)
    if (auto it = scope.values.find(name); it != scope.values.end() && it->second.kind()) {
      builder.place(stmt.at);
      Tensor tensor = tensorOf(it->second);
      if (!tensor.has(dim))
        entry[name] = tensor;
    }
  std::map<std::string, Tensor> states = entry;
  unsigned labels = counter;
  for (int round = 0; round < maxRounds; ++round) {
    counter = labels;
    if (scanStep(stmt, scope, dim, named, states, entry))
      return;
  }
  fail("Q033", "the states of this scan gain dimensions without end", stmt.dim.at);
}

/// Whether a state leaves as it entered. `state` gains what its update brings, where it may. A difference goes to
/// `failures`.
bool Elaborator::carriedBy(const ScanStmt &stmt, Scope &scope, const std::string &name, const Tensor &entry,
                           Tensor &state, std::vector<Failure> &failures) {
  Value &value = scope.values[name];
  auto differs = [&](const std::string &now, const std::string &hint) {
    failures.push_back({{"Q033",
                         "'" + name + "' enters the scan as " + kindName(state.kind) + " " + shownDims(state.dims) +
                             " and leaves as " + now + hint,
                         stmt.dim.at,
                         {}}});
    value = Poison{};
    return true;
  };
  if (!value.kind())
    return differs(describe(value), "");
  Tensor now = value.is<Tensor>() ? *value.as<Tensor>() : Tensor{{}, *value.kind(), nullptr};
  bool kinds = now.kind == state.kind || (now.kind == Kind::Int && state.kind == Kind::Real) ||
               (now.kind == Kind::Real && state.kind == Kind::Int && entry.dims.empty() && !entry.open);
  auto lacks = [](const DimRefs &dims, DimRef dim) { return std::find(dims.begin(), dims.end(), dim) == dims.end(); };
  DimRefs more;
  for (DimRef dim : now.dims)
    if (lacks(state.dims, dim))
      more.push_back(dim);
  bool lost = std::any_of(entry.dims.begin(), entry.dims.end(), [&](DimRef dim) { return lacks(now.dims, dim); });
  if (!kinds || (!more.empty() && !entry.open) || lost) {
    std::string type;
    for (DimRef dim : now.dims)
      type += (type.empty() ? "" : ", ") + dim->shown;
    if (!blockStack.empty()) // a block cannot name the batch
      type = std::string("..") + (now.dims.empty() ? "" : ", ") + (now.dims.empty() ? "" : now.dims.back()->shown);
    bool undeclared = entry.dims.empty() && !entry.open && !now.dims.empty();
    return differs(
        std::string(kindName(now.kind)) + " " + shownDims(now.dims),
        undeclared ? "; declare it: " + name + ": " + (now.kind == Kind::Int ? "int" : "") + "[" + type + "] = 0" : "");
  }
  bool same = more.empty() && !(now.kind == Kind::Real && state.kind == Kind::Int);
  // In front of those that its type names, as `..` stands there: the batch stays outermost.
  auto named = static_cast<std::ptrdiff_t>(entry.dims.size());
  state.dims.insert(state.dims.end() - named, more.begin(), more.end());
  if (now.kind == Kind::Real)
    state.kind = Kind::Real;
  return same;
}

/// One walk of the body, with `states` carried. False: they gained dimensions, and the body must be walked again.
bool Elaborator::scanStep(const ScanStmt &stmt, Scope &scope, DimRef dim, const std::set<std::string> &named,
                          std::map<std::string, Tensor> &states, const std::map<std::string, Tensor> &entry) {
  std::map<std::string, Value> before = scope.values;
  std::map<std::string, DimRef> dimsBefore = scope.dims;
  Scanning frame{dim, &scope, named, {}, {}, {}};
  std::vector<std::string> names;
  std::vector<Tensor> carried;
  builder.place(stmt.at);
  for (auto &[name, state] : states) {
    const Tensor &from = entry.at(name);
    Tensor wide = expandTo(asKind(from, state.kind), state.dims);
    names.push_back(name);
    carried.push_back(wide);
  }
  std::vector<Handle> inside = builder.beginScan(dim, stmt.fromEnd, carried);
  for (size_t i = 0; i < names.size(); ++i)
    scope.values[names[i]] = Tensor{carried[i].dims, carried[i].kind, inside[i]};
  for (auto &[name, value] : before)
    if (auto tensor = value.as<Tensor>(); tensor && tensor->has(dim)) {
      scope.values[name] = Tensor{without(tensor->dims, dim), tensor->kind, builder.slice(tensor->handle)};
      frame.sliced.insert(name);
    }
  std::map<std::string, Value> started = scope.values;
  struct Leave {
    Elaborator &elaborator;
    ~Leave() { elaborator.scans.pop_back(); }
  };
  bool returned = false;
  {
    scans.push_back(&frame);
    Leave leave{*this};
    returned = body(stmt.body, scope).has_value();
  }
  builder.place(stmt.at);
  auto giveUp = [&] { // nothing is built after a mistake
    builder.abandonScan();
    scope.dims = dimsBefore;
  };
  if (returned) {
    giveUp();
    scope.values = before;
    fail("Q032", "return inside scan: it runs through all positions", stmt.at);
  }

  bool poisoned = std::any_of(scope.values.begin(), scope.values.end(),
                              [](const auto &entry) { return entry.second.template is<Poison>(); });
  bool again = false, any = false;
  std::vector<Failure> failures;
  for (const std::string &name : frame.assigned) {
    auto was = started.find(name);
    if (was == started.end())
      continue;
    any = true;
    if (scope.values[name].is<Poison>() || was->second.is<Poison>())
      continue;
    auto state = states.find(name);
    if (state == states.end()) {
      failures.push_back({{"Q033",
                           "'" + name + "' is " + describe(was->second) + " and cannot be carried by a scan",
                           stmt.dim.at,
                           {}}});
      scope.values[name] = Poison{};
    } else if (!carriedBy(stmt, scope, name, entry.at(name), state->second, failures))
      again = true;
  }
  if (again && failures.empty()) {
    giveUp();
    scope.values = before;
    return false;
  }
  if (!any && !poisoned)
    failures.push_back(
        {{"Q039",
          "this scan carries nothing: no value that was there before without " + dim->shown + " is assigned in it",
          stmt.at,
          {}}});
  for (const Failure &failure : failures)
    report(failure.diagnostic);

  // The names afterwards: states as they are after the last position, what was made inside stacked.
  std::vector<std::optional<Tensor>> leaving;
  std::vector<Tensor> made;
  std::vector<std::string> madeNames;
  std::map<std::string, Value> after = before;
  bool build = failures.empty() && !poisoned;
  for (const std::string &name : names) {
    bool assigned = frame.assigned.count(name);
    const Value &now = scope.values[name];
    if (!assigned || !build) {
      leaving.push_back(std::nullopt);
      if (assigned)
        after[name] = now.is<Poison>() ? Value(Poison{}) : Value(states[name]);
      continue;
    }
    const Tensor &state = states[name];
    leaving.push_back(expandTo(asKind(tensorOf(now), state.kind), state.dims));
  }
  for (auto &[name, value] : scope.values) {
    if (before.count(name))
      continue;
    auto tensor = value.as<Tensor>();
    after[name] = value;
    if (!tensor || frame.fixed.count(name))
      continue;
    DimRefs dims = {dim};
    dims.insert(dims.end(), tensor->dims.begin(), tensor->dims.end());
    after[name] = Tensor{dims, tensor->kind, nullptr};
    madeNames.push_back(name);
    made.push_back(*tensor);
  }
  scope.dims = dimsBefore;
  if (!build) {
    builder.abandonScan();
    scope.values = std::move(after);
    return true;
  }
  std::vector<Handle> results = builder.endScan(leaving, made);
  for (size_t i = 0; i < names.size(); ++i)
    if (leaving[i])
      after[names[i]] = Tensor{states[names[i]].dims, states[names[i]].kind, results[i]};
  for (size_t i = 0; i < made.size(); ++i) {
    Tensor stack = *after[madeNames[i]].as<Tensor>();
    stack.handle = results[names.size() + i];
    after[madeNames[i]] = stack;
    builder.named(madeNames[i], stack, stmt.dim.at);
  }
  scope.values = std::move(after);
  return true;
}

} // namespace quern::frontend
