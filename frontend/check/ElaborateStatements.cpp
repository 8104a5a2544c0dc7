// Takes: statements and a scope. Gives: names bound in the scope; what is returned.
// Why loops are walked iteration by iteration: branches, paths and sizes may differ between iterations, and a pass
// folds equal ones.
#include "frontend/check/Elaborator.h"

#include <algorithm>
#include <cmath>

namespace quern::frontend {

static constexpr size_t maxIterations = 100'000;

const Dim poisonDim{"?", "?", ir::Size(1), {}, 0, true};

std::optional<Value> Elaborator::body(const Body &statements, Scope &scope) {
  for (const Stmt *stmt : statements)
    if (auto value = statement(*stmt, scope))
      return value;
  return std::nullopt;
}

/// A value means: return it. A mistake is reported once, and what the statement names is poisoned.
std::optional<Value> Elaborator::statement(const Stmt &stmt, Scope &scope) {
  step(stmt.at);
  builder.place(stmt.at);
  try {
    return execute(stmt, scope);
  } catch (const Failure &failure) {
    report(failure.diagnostic);
  } catch (const Poisoned &) {
  }
  bool decides = stmt.kind == Stmt::Return || (stmt.kind == Stmt::Require && !calls.empty()) ||
                 (stmt.kind == Stmt::Broken && stmt.as<BrokenStmt>().mayReturn) ||
                 (stmt.kind == Stmt::If &&
                  (containsReturn(stmt.as<IfStmt>().then) || containsReturn(stmt.as<IfStmt>().otherwise)));
  if (decides)
    throw Abandoned();
  poison(stmt, scope);
  return std::nullopt;
}

void Elaborator::poison(const Stmt &stmt, Scope &scope) {
  std::vector<std::string> names, dimensions;
  collectAssigned({&stmt}, names, dimensions);
  for (const std::string &name : names)
    if (name != "_" && (scope.values.count(name) || !scope.holder(name)))
      scope.values[name] = Poison{};
  for (const std::string &name : dimensions)
    if (!scope.dim(name))
      scope.dims[name] = &poisonDim;
}

std::optional<Value> Elaborator::execute(const Stmt &stmt, Scope &scope) {
  switch (stmt.kind) {
  case Stmt::Assign:
    return assign(stmt.as<AssignStmt>(), scope), std::nullopt;
  case Stmt::Dim:
    return declareDims(stmt.as<DimStmt>(), scope), std::nullopt;
  case Stmt::Param:
    return param(stmt.as<ParamStmt>(), scope), std::nullopt;
  case Stmt::Repeat:
    return repeat(stmt.as<RepeatStmt>(), scope), std::nullopt;
  case Stmt::Scan:
    return scan(stmt.as<ScanStmt>(), scope), std::nullopt;
  case Stmt::Require:
    return require(stmt.as<RequireStmt>(), scope), std::nullopt;
  case Stmt::If: {
    auto &branch = stmt.as<IfStmt>();
    return body(condition(*branch.condition, scope) ? branch.then : branch.otherwise, scope);
  }
  case Stmt::Return: {
    auto several = std::make_shared<Several>();
    for (const Expr *value : stmt.as<ReturnStmt>().values)
      several->values.push_back(eval(*value, scope));
    if (several->values.size() == 1)
      return several->values[0];
    for (size_t i = 0; i < several->values.size(); ++i)
      single(several->values[i], stmt.as<ReturnStmt>().values[i]->at);
    return Value(std::shared_ptr<const Several>(several));
  }
  case Stmt::Broken:
    throw Poisoned();
  }
  return std::nullopt;
}

bool Elaborator::condition(const Expr &expr, Scope &scope) {
  Value value = eval(expr, scope);
  if (auto truth = value.as<bool>())
    return *truth;
  if (value.is<Tensor>())
    fail("Q030", "the condition is a tensor, known only at run time; use where(condition, a, b)", expr.at);
  fail("Q030", "the condition is " + describe(value) + ", not true or false", expr.at);
}

void Elaborator::require(const RequireStmt &stmt, Scope &scope) {
  if (condition(*stmt.condition, scope))
    return;
  std::string text = "the spec requires " + std::string(stmt.condition->at.text());
  if (stmt.message) {
    auto given = interpolated(eval(*stmt.message, scope));
    if (!given)
      fail("Q025", "the message of a requirement is a string", stmt.message->at);
    text = *given;
  }
  std::vector<std::string> names;
  collectVariables(stmt.condition, names);
  std::set<std::string> reported;
  for (const std::string &name : names)
    if (Scope *holder = scope.holder(name); holder && reported.insert(name).second && holder->values[name].isStatic())
      text += "; " + name + " = " + describe(holder->values[name]);
  fail("Q040", text, stmt.at);
}

void Elaborator::assign(const AssignStmt &stmt, Scope &scope) {
  std::vector<Value> values; // all are computed before any is named
  for (const Expr *expr : stmt.values)
    values.push_back(eval(*expr, scope));
  if (values.size() > 1)
    for (size_t i = 0; i < values.size(); ++i)
      single(values[i], stmt.values[i]->at);
  else if (const Several *several = values[0].several())
    values = std::vector<Value>(several->values);
  if (values.size() != stmt.targets.size()) {
    auto count = [](size_t n, const char *what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
    fail("Q017", count(stmt.targets.size(), "name") + " for " + count(values.size(), "value"), stmt.at);
  }
  if (stmt.type && values[0].kind() && !values[0].is<Tensor>())
    values[0] = spreadNumber(values[0], *stmt.type, scope, stmt.targets[0]);
  else if (stmt.type)
    fits(values[0], *stmt.type, scope, "'" + stmt.targets[0].name + "'", stmt.at);
  for (size_t i = 0; i < values.size(); ++i) {
    const Named &target = stmt.targets[i];
    Scope *holder = scope.holder(target.name);
    if (holder && holder != &scope)
      fail("Q014",
           "'" + target.name + "' is already a name of the model (config, parameter or constant); choose another",
           target.at);
    if (target.name == "_")
      continue;
    for (Scanning *scan : scans)
      if (scan->scope == &scope) {
        if (scan->sliced.count(target.name))
          fail("Q038",
               "'" + target.name + "' has " + scan->dim->shown + ": inside 'scan " + scan->dim->shown +
                   "' it is read at the current position and cannot be assigned; choose another name for the result",
               target.at);
        scan->assigned.insert(target.name);
      }
    scope.values[target.name] = values[i];
    if (const Tensor *tensor = values[i].as<Tensor>())
      builder.named(target.name, *tensor, target.at);
  }
}

void Elaborator::declareDims(const DimStmt &stmt, Scope &scope) {
  for (size_t i = 0; i < stmt.names.size(); ++i) {
    const Named &name = stmt.names[i];
    Value value = eval(*stmt.values[i], scope);
    ir::Size size;
    if (auto poly = value.as<ir::Size>())
      size = *poly;
    else if (auto whole = value.as<int64_t>())
      size = *whole;
    else if (auto real = value.as<double>(); real && std::nearbyint(*real) == *real && std::fabs(*real) < 9e15)
      size = static_cast<int64_t>(*real);
    else
      fail("Q022",
           name.name + " would be " + (value.is<Tensor>() ? "a tensor" : describe(value)) +
               ": a size is a whole number",
           name.at);
    if (size.isConstant() && *size.constant() <= 0)
      fail("Q022", name.name + " would be " + size.str() + ": a size is at least 1", name.at);
    if (DimRef old = scope.dim(name.name)) {
      if (old == &poisonDim)
        throw Poisoned();
      fail("Q011", name.name + " already has a size here" + (old->sized ? " (" + old->size.str() + ")" : ""), name.at,
           declaredHere(old));
    }
    DimRef like = stmt.values[i]->kind == Expr::DimName ? label(*stmt.values[i], scope) : nullptr;
    if (like && like->twinOf)
      like = like->twinOf;
    if (scanOf(like))
      fail("Q037",
           name.name + " would be a twin of " + like->shown +
               ", which is being scanned: inside, only the current position exists",
           name.at);
    scope.dims[name.name] = makeDim(name.name, size, scope.numbered, name.at);
    dims.back().twinOf = like;
  }
}

// ---- loops

void Elaborator::repeat(const RepeatStmt &stmt, Scope &scope) {
  Value first = stmt.first ? eval(*stmt.first, scope) : Value(int64_t(0)), last = eval(*stmt.last, scope);
  auto begin = first.as<int64_t>(), end = last.as<int64_t>();
  if (!begin || !end)
    fail("Q031",
         "the bounds of a repeat must be whole numbers known from the config, not " + describe(begin ? last : first) +
             "; over positions: cumsum[T](x) adds up, scan T { ... } carries a state (docs/language.md)",
         stmt.at);
  if (scope.holder(stmt.index.name))
    fail("Q014", "'" + stmt.index.name + "' already has a value; choose another loop index", stmt.index.at);
  uint64_t count = *end > *begin ? static_cast<uint64_t>(*end) - static_cast<uint64_t>(*begin) : 0;
  if (count > maxIterations || (iterationCount += count) > maxIterations)
    throw GiveUp{{"Q031", "the loops of this spec make more than 100000 iterations", stmt.at, {}}};
  std::set<std::string> asTensors;
  unsigned labels = counter, most = counter;
  for (int64_t i = *begin; i < *end; ++i) {
    counter = labels; // each iteration names its own dimensions alike, so that equal ones are equal text
    const Iteration iteration{&stmt, i, *begin, *end};
    if (!runIteration(iteration, scope, asTensors)) {
      counter = labels;
      runIteration(iteration, scope, asTensors);
    }
    most = std::max(most, counter);
  }
  counter = most;
}

/// Where a body gives `name` its last value.
static std::optional<Span> lastAssignment(const Body &body, const std::string &name) {
  std::optional<Span> found;
  for (const Stmt *stmt : body) {
    if (stmt->kind == Stmt::Assign)
      for (const Named &target : stmt->as<AssignStmt>().targets)
        if (target.name == name)
          found = stmt->at;
    if (stmt->kind == Stmt::Repeat)
      if (auto inner = lastAssignment(stmt->as<RepeatStmt>().body, name))
        found = inner;
  }
  return found;
}

/// One iteration. False: a number that was carried in became a tensor, and it must be walked again with it as one
/// (`asTensors` then holds its name).
bool Elaborator::runIteration(const Iteration &iteration, Scope &scope, std::set<std::string> &asTensors) {
  const RepeatStmt &stmt = *iteration.loop;
  std::vector<std::string> assigned, declared;
  collectAssigned(stmt.body, assigned, declared);
  std::map<std::string, Value> before = scope.values;
  std::map<std::string, DimRef> dimsBefore = scope.dims;
  std::vector<std::string> carriedNames;
  std::vector<Tensor> carried;
  for (const std::string &name : std::set<std::string>(assigned.begin(), assigned.end())) {
    auto it = scope.values.find(name);
    if (it == scope.values.end() || !(it->second.is<Tensor>() || asTensors.count(name)) || !it->second.kind())
      continue;
    if (asTensors.count(name) && !it->second.is<Tensor>())
      it->second = asKind(tensorOf(it->second), asTensors.count(name + " real") ? Kind::Real : *it->second.kind());
    carriedNames.push_back(name);
    carried.push_back(*it->second.as<Tensor>());
    before[name] = it->second;
  }
  std::vector<Handle> inside = builder.beginIteration(carried);
  for (size_t k = 0; k < carried.size(); ++k)
    scope.values[carriedNames[k]] = Tensor{carried[k].dims, carried[k].kind, inside[k]};
  std::map<std::string, Value> entered = scope.values;
  scope.values[stmt.index.name] = iteration.number;
  struct Leave { // paths and iterations are left however the body ends
    Elaborator &elaborator;
    size_t depth;
    ~Leave() {
      elaborator.path.resize(depth);
      elaborator.iterations.pop_back();
    }
  } leave{*this, path.size()};
  iterations.push_back(iteration);
  if (!stmt.path.empty())
    path.push_back(alternatives(stmt.path, scope));
  if (body(stmt.body, scope))
    fail("Q032", "return inside repeat: a loop runs to its end", stmt.at);

  builder.place(stmt.at);
  bool again = false;
  std::vector<Failure> failures;
  for (auto it = scope.values.begin(); it != scope.values.end();) {
    auto old = entered.find(it->first);
    if (old == entered.end()) {
      it = scope.values.erase(it); // lived for one iteration
      continue;
    }
    Value &now = it->second;
    const Value &was = old->second;
    if (!now.is<Poison>() && !was.is<Poison>() &&
        std::find(assigned.begin(), assigned.end(), it->first) != assigned.end()) {
      bool bad = now.kind().has_value() != was.kind().has_value() ||
                 (!now.kind() && now.data.index() != was.data.index() && !now.isNull() && !was.isNull());
      if (!bad && now.kind()) {
        DimRefs nowDims = now.is<Tensor>() ? now.as<Tensor>()->dims : DimRefs(),
                wasDims = was.is<Tensor>() ? was.as<Tensor>()->dims : DimRefs();
        bool sameDims =
            std::set<DimRef>(nowDims.begin(), nowDims.end()) == std::set<DimRef>(wasDims.begin(), wasDims.end());
        bool widened = *was.kind() == Kind::Int && *now.kind() == Kind::Real; // a number carried becomes a scalar
        bad = !sameDims || (*now.kind() == Kind::Bool) != (*was.kind() == Kind::Bool) || (widened && !wasDims.empty());
        if (!bad && ((now.is<Tensor>() && !was.is<Tensor>()) || (widened && was.is<Tensor>()))) {
          asTensors.insert(it->first);
          if (widened)
            asTensors.insert(it->first + " real");
          again = true;
        } else if (!bad && was.is<Tensor>() && !now.is<Tensor>())
          now = tensorOf(now);
      }
      if (bad) {
        auto shown = [](const Value &v) { return v.is<Tensor>() ? shownDims(v.as<Tensor>()->dims) : describe(v); };
        bool kinds =
            now.is<Tensor>() && was.is<Tensor>() && now.as<Tensor>()->dims.size() == was.as<Tensor>()->dims.size();
        failures.push_back(
            {{"Q033",
              "'" + it->first + "' enters the loop as " + (kinds ? describe(was) : shown(was)) + " and leaves as " +
                  (kinds ? describe(now) : shown(now)) +
                  (was.isStaticNumber() && now.is<Tensor>() ? "; give it these dimensions before the loop" : ""),
              lastAssignment(stmt.body, it->first).value_or(stmt.index.at),
              {{"the loop", stmt.index.at}}}});
        now = Poison{};
      }
    }
    ++it;
  }
  for (const Failure &failure : failures)
    report(failure.diagnostic);
  scope.dims = dimsBefore;
  if (again && failures.empty()) {
    builder.abandonIteration();
    for (auto &[name, value] : before)
      if (asTensors.count(name + " real") && value.is<Tensor>())
        value = asKind(*value.as<Tensor>(), Kind::Real);
    scope.values = before;
    return false;
  }
  std::vector<Tensor> leaving;
  for (const std::string &name : carriedNames) {
    Value &now = scope.values[name];
    if (!now.is<Tensor>()) { // poisoned: nothing is built any more
      builder.abandonIteration();
      return true;
    }
    const Tensor &was = *entered[name].as<Tensor>();
    Tensor tensor = asKind(*now.as<Tensor>(), was.kind);
    leaving.push_back({was.dims, was.kind, tensor.handle});
  }
  std::vector<Handle> after = builder.endIteration(leaving);
  for (size_t k = 0; k < leaving.size(); ++k)
    scope.values[carriedNames[k]] = Tensor{leaving[k].dims, leaving[k].kind, after[k]};
  return true;
}

} // namespace quern::frontend
