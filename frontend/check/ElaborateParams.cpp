// Takes: `param` statements and paths. Gives: parameters under their full names, each declared by one place.
#include "frontend/check/Elaborator.h"

#include <algorithm>

namespace quern::frontend {

// Bounds for what a stranger's spec may ask for.
static constexpr size_t maxNames = 1024, maxNameBytes = 4096, maxStackedNames = 1u << 16;

/// The alternatives of one `@`; a dimension in braces stays as {LABEL}.
std::vector<Elaborator::PathPart> Elaborator::alternatives(const Path &path, Scope &scope) {
  std::vector<PathPart> parts;
  for (const Expr *expr : path) {
    PathPart part;
    auto add = [&](const Value &value, Span at) {
      auto text = interpolated(value);
      if (!text)
        fail("Q025", "a parameter's name cannot hold " + describe(value), at);
      part.text += *text;
    };
    if (expr->kind == Expr::String) {
      auto &string = expr->as<StringExpr>();
      for (size_t i = 0; i < string.texts.size(); ++i) {
        part.text += string.texts[i];
        if (i == string.values.size())
          break;
        if (string.values[i]->kind != Expr::DimName) {
          add(eval(*string.values[i], scope), string.values[i]->at);
          continue;
        }
        DimRef dim = label(*string.values[i], scope);
        if (!dim->size.isConstant())
          fail("Q023", "a parameter for each position of " + dim->shown + ", whose size is not fixed by the config",
               string.values[i]->at);
        part.text += "{" + dim->label + "}";
        part.stacked.push_back(dim);
      }
    } else
      add(eval(*expr, scope), expr->at);
    if (part.text.size() > maxNameBytes)
      fail("Q001", "a parameter's name of more than 4096 characters", expr->at);
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Dimensions that parameters are stacked over here, outermost first.
DimRefs Elaborator::stackedNow() const {
  DimRefs stacked;
  for (const std::vector<PathPart> &level : path)
    for (DimRef dim : level.front().stacked)
      if (std::find(stacked.begin(), stacked.end(), dim) == stacked.end())
        stacked.push_back(dim);
  return stacked;
}

void Elaborator::initOf(const ParamStmt &stmt, Scope &scope, ParamInfo &info) {
  static const std::vector<std::string> known = {"normal", "uniform", "zeros", "ones"};
  if (stmt.init.empty())
    return;
  if (std::find(known.begin(), known.end(), stmt.init) == known.end())
    fail("Q010", "unknown initial values '" + stmt.init + "'; there are normal(s), uniform(a), zeros and ones",
         stmt.initAt);
  bool scaled = stmt.init == "normal" || stmt.init == "uniform";
  if (scaled != (stmt.initValue != nullptr))
    fail("Q015", "'" + stmt.init + (scaled ? "' takes one number" : "' takes no number"), stmt.initAt);
  if (stmt.ifAbsent && scaled)
    fail("Q025", "what the checkpoint may lack is zeros or ones, not '" + stmt.init + "'", stmt.initAt);
  info.init = stmt.init;
  info.ifAbsent = stmt.ifAbsent;
  if (!scaled)
    return;
  Value scale = eval(*stmt.initValue, scope);
  if (!scale.isStaticNumber())
    fail("Q025", "'" + stmt.init + "' takes a number known from the config, not " + describe(scale),
         stmt.initValue->at);
  info.scale = scale.number();
}

void Elaborator::param(const ParamStmt &stmt, Scope &scope) {
  if (Scope *holder = scope.holder(stmt.name.name); holder && holder != &scope)
    fail("Q014",
         "'" + stmt.name.name + "' is already a name of the model (config, parameter or constant); choose another",
         stmt.name.at);
  path.push_back(alternatives(stmt.path, scope));
  struct Leave {
    Elaborator &elaborator;
    ~Leave() { elaborator.path.pop_back(); }
  } leave{*this};

  ParamInfo info;
  info.stacked = stackedNow();
  std::vector<PathPart> names = {{}}; // the product of all alternatives, the first of all levels first
  for (const std::vector<PathPart> &level : path) {
    std::vector<PathPart> longer;
    for (const PathPart &front : names)
      for (const PathPart &part : level) {
        PathPart both{front.text + (front.text.empty() || part.text.empty() ? "" : ".") + part.text, front.stacked};
        both.stacked.insert(both.stacked.end(), part.stacked.begin(), part.stacked.end());
        longer.push_back(std::move(both));
      }
    names = std::move(longer);
    if (names.size() > maxNames)
      fail("Q024", "the parameter '" + stmt.name.name + "' has more than 1024 alternative names", stmt.name.at);
  }
  std::set<DimRef> stackedSet(info.stacked.begin(), info.stacked.end());
  for (const PathPart &name : names) {
    if (std::set<DimRef>(name.stacked.begin(), name.stacked.end()) != stackedSet)
      fail("Q012", "all names of a parameter are stacked over the same dimensions", stmt.at);
    if (std::find(info.names.begin(), info.names.end(), name.text) == info.names.end())
      info.names.push_back(name.text);
  }

  // In storage every dimension is one axis; groups are split and ones dropped afterwards.
  Exprs stored;
  for (const Expr *dim : stmt.type.dims)
    if (dim->kind != Expr::DimName || !stackedSet.count(label(*dim, scope)))
      stored.push_back(dim);
  if (stmt.type.rest)
    fail("Q012", "a parameter names all of its dimensions", stmt.type.at);
  if (stmt.type.kind != Kind::Real)
    fail("Q025", "parameters are real", stmt.type.at);
  Tensor value{info.stacked, Kind::Real};
  std::set<DimRef> direct(info.stacked.begin(), info.stacked.end());
  std::vector<std::pair<DimRef, const Expr *>> later;
  for (const Expr *dim : stored) {
    if (leaves(*dim) > 1)
      fail("Q012", "a parameter is one tensor: name its dimension and split the value", dim->at);
    ir::Size size = extent(*dim, scope);
    if (!size.isConstant())
      fail("Q023", "the size of parameter '" + stmt.name.name + "' is not fixed by the config", stmt.name.at);
    DimRef axis = dim->kind == Expr::DimName ? label(*dim, scope) : nullptr;
    if (axis && !direct.insert(axis).second)
      fail("Q026", "the parameter '" + stmt.name.name + "' has " + axis->shown + " twice", dim->at);
    if (!axis) {
      axis = fresh(dimText(*dim), size);
      later.emplace_back(axis, dim);
    }
    info.stored.push_back(axis);
    value.dims.push_back(axis);
  }
  initOf(stmt, scope, info);
  claim(info, stmt);
  builder.place(stmt.name.at);
  builder.leaveScans();
  value.handle = builder.param(info);
  for (auto [axis, dim] : later)
    value = split(value, axis, *dim, scope, dim->at).front();
  builder.returnToScans();
  scope.values[stmt.name.name] = value;
  for (Scanning *scan : scans)
    if (scan->scope == &scope)
      scan->fixed.insert(stmt.name.name);
}

/// Q045: a parameter that all iterations of a loop mean, which is a slip of the pen more often than ALBERT. All: the first
/// two and the last; a name with {i % 2} or {i // 2} is meant so.
void Elaborator::noteSharing(const Site &first, const std::string &name) {
  std::optional<size_t> differs;
  for (size_t i = 0; i < std::min(iterations.size(), first.iterations.size()); ++i)
    if (!(iterations[i] == first.iterations[i])) {
      if (differs) // in the other loop's iteration, it may be another parameter
        return;
      differs = i;
    }
  if (!differs)
    return;
  const Iteration &now = iterations[*differs], &before = first.iterations[*differs];
  const Named &index = now.loop->index;
  if (now.loop != before.loop || index.name == "_" || before.number != before.begin)
    return;
  const auto key = std::pair(now.loop, name);
  if (now.number == now.begin + 1)
    sharedByTwo.insert(key);
  if (now.number == now.end - 1 && sharedByTwo.count(key) && sharing.insert(now.loop).second)
    diagnostics.warning("Q045",
                        "all iterations of the loop share the parameter '" + name + "'; write {" + index.name +
                            "} into its name, or _ for the loop's index if that is what you mean",
                        first.at.front(), {{"the loop", index.at}});
}

/// Q024: a full name belongs to one chain of calls.
void Elaborator::claim(const ParamInfo &info, const ParamStmt &stmt) {
  std::vector<std::string> full = {info.names.front()};
  size_t count = 1;
  for (DimRef dim : info.stacked)
    count =
        std::min<size_t>(maxStackedNames + 1,
                         count * static_cast<size_t>(std::min<int64_t>(*dim->size.constant(), maxStackedNames + 1)));
  if (count <= maxStackedNames) // else the pattern itself stands for its names
    for (DimRef dim : info.stacked) {
      std::vector<std::string> more;
      std::string mark = "{" + dim->label + "}";
      for (const std::string &name : full)
        for (int64_t i = 0; i < *dim->size.constant(); ++i) {
          std::string next = name;
          for (size_t at; (at = next.find(mark)) != std::string::npos;)
            next.replace(at, mark.size(), std::to_string(i));
          more.push_back(std::move(next));
        }
      full = std::move(more);
    }
  std::vector<Span> site = callSpans();
  site.push_back(stmt.at);
  for (const std::string &name : full) {
    auto [it, added] = sites.try_emplace(name, Site{site, iterations});
    if (added)
      continue;
    const std::vector<Span> &before = it->second.at;
    if (before == site) {
      noteSharing(it->second, name);
      continue;
    }
    size_t i = 0;
    while (i + 1 < site.size() && i + 1 < before.size() && site[i] == before[i])
      ++i;
    fail("Q024",
         "two places declare the parameter '" + name +
             "'; give the calls different @ names, or declare it once and use it twice",
         site[i], {{"the other place", before[std::min(i, before.size() - 1)]}});
  }
}

} // namespace quern::frontend
