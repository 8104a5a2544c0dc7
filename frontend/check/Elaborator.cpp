// Takes: the tree of a spec and a config. Gives: diagnostics, and through a Builder the functions of the spec.
// Why one walk: types depend on the config (branches, sizes, paths), so checking a spec is running it with shapes only.
#include "frontend/check/Elaborator.h"

#include <algorithm>
#include <cmath>

namespace quern::frontend {

// Bounds for what a stranger's spec may unfold to; the largest real models stay a hundredfold below.
static constexpr size_t maxSteps = 5'000'000;
static constexpr size_t maxStackBytes = 4u << 20;

DimRef Scope::dim(const std::string &name) const {
  auto it = dims.find(name);
  return it != dims.end() ? it->second : parent ? parent->dim(name) : nullptr;
}

Scope *Scope::holder(const std::string &name) {
  return values.count(name) ? this : parent ? parent->holder(name) : nullptr;
}

Elaborator::Elaborator(const Ast &spec, const Ast &library, const ConfigFile &config, Diagnostics &diagnostics,
                       Builder &builder)
    : spec(spec), library(library), config(config), diagnostics(diagnostics), builder(builder) {
  if (!spec.models.empty())
    model = &spec.models.front();
}

void Elaborator::fail(const char *code, std::string message, Span at, std::vector<Note> notes) const {
  throw Failure{{code, std::move(message), at, std::move(notes)}};
}

std::vector<Span> Elaborator::callSpans() const {
  std::vector<Span> spans;
  for (const Call &call : calls)
    spans.push_back(call.at);
  return spans;
}

/// The author's own line first: a mistake found inside the library is shown at the call, the library line as a note.
void Elaborator::report(Diagnostic diagnostic) {
  for (auto it = calls.rbegin(); it != calls.rend(); ++it)
    diagnostic.notes.push_back({"in the call of '" + it->name + "'", it->at});
  if (diagnostic.at && diagnostic.at.source != spec.source.get())
    for (size_t i = 0; i < diagnostic.notes.size(); ++i)
      if (Span user = diagnostic.notes[i].at; user && user.source == spec.source.get()) {
        diagnostic.notes.erase(diagnostic.notes.begin() + i);
        diagnostic.notes.insert(diagnostic.notes.begin(), {"found here", diagnostic.at});
        diagnostic.at = user;
        break;
      }
  diagnostics.report(std::move(diagnostic));
}

template <typename Action> void Elaborator::guarded(Action action) {
  try {
    action();
  } catch (const Failure &failure) {
    report(failure.diagnostic);
  } catch (const Poisoned &) {
  } catch (const Abandoned &) {
  }
}

/// Called once an expression and a statement: bounds the work, and the depth of the machine's stack.
void Elaborator::step(Span at) {
  if (++steps > maxSteps)
    throw GiveUp{{"Q034", "the calls and loops of this spec unfold to more than 5 million steps", at, {}}};
  std::ptrdiff_t used = stackBase - static_cast<const char *>(__builtin_frame_address(0));
  if (static_cast<size_t>(used < 0 ? -used : used) > maxStackBytes)
    fail("Q002", "calls and expressions are nested too deeply", at);
}

void Elaborator::run() {
  stackBase = static_cast<const char *>(__builtin_frame_address(0));
  if (!model) {
    if (spec.complete)
      diagnostics.error("Q003", "the file holds no model", {spec.source.get(), 0, 1});
    return;
  }
  if (spec.models.size() > 1)
    diagnostics.warning("Q003", "the file holds several models; '" + model->name + "' is the one that counts",
                        spec.models[1].at);
  try {
    declarations();
    bindConfig();
    if (model->functions.empty() && spec.complete)
      diagnostics.error(
          "Q003", "the model '" + model->name + "' has no function; it needs forward, or encode and decode", model->at);
    for (const FunctionDecl *decl : model->functions)
      function(*decl);
  } catch (const GiveUp &end) {
    report(end.diagnostic);
  }
  if (diagnostics.hasErrors())
    return;
  reportUnused(spec, *model, diagnostics);
  std::set<std::string> known;
  for (const ConfigDecl &decl : model->configs)
    for (const ConfigField &field : decl.fields)
      for (const std::string &spelling : field.spellings)
        known.insert(spelling.substr(0, spelling.find('.')));
  config.warnUnread(known, configIgnores(), diagnostics);
}

std::vector<std::string> Elaborator::configIgnores() const {
  std::vector<std::string> globs;
  auto add = [&](const std::vector<ConfigDecl> &decls) {
    for (const ConfigDecl &decl : decls)
      globs.insert(globs.end(), decl.ignores.begin(), decl.ignores.end());
  };
  add(library.configs);
  add(spec.configs);
  if (model)
    add(model->configs);
  return globs;
}

std::vector<std::string> Elaborator::tensorIgnores() const {
  std::vector<std::string> globs = library.ignores;
  globs.insert(globs.end(), spec.ignores.begin(), spec.ignores.end());
  globs.insert(globs.end(), ignoredTensors.begin(), ignoredTensors.end());
  return globs;
}

/// Tables of blocks and functions, and what may not be declared.
void Elaborator::declarations() {
  for (const BlockDecl *block : library.blocks)
    libraryBlocks[block->name] = block;
  fileBlocks = libraryBlocks;
  auto add = [&](BlockTable &table, const std::vector<const BlockDecl *> &blocks) {
    std::map<std::string, Span> own;
    for (const BlockDecl *block : blocks) {
      if (isPrimitive(block->name)) {
        diagnostics.error("Q013", "'" + block->name + "' is a primitive of the language and cannot be redefined",
                          block->at);
        continue;
      }
      if (auto [it, added] = own.try_emplace(block->name, block->at); !added && !block->broken)
        diagnostics.error("Q014", "the block '" + block->name + "' is declared twice", block->at,
                          {{"the other place", it->second}});
      table[block->name] = block;
      std::set<std::string> seen;
      for (const Named &formal : block->formals)
        if (!seen.insert(formal.name).second)
          diagnostics.error("Q011", "'" + block->name + "' has the dimension " + formal.name + " twice", formal.at);
      for (const Parameter &parameter : block->parameters)
        if (!seen.insert(parameter.name.name).second)
          diagnostics.error("Q014", "'" + block->name + "' has the parameter '" + parameter.name.name + "' twice",
                            parameter.name.at);
    }
  };
  add(fileBlocks, spec.blocks);
  modelBlocks = fileBlocks;
  add(modelBlocks, model->blocks);
  for (const FunctionDecl *decl : model->functions) {
    if (isPrimitive(decl->name))
      diagnostics.error("Q013", "'" + decl->name + "' is a primitive of the language and cannot be redefined",
                        decl->at);
    if (!functions.try_emplace(decl->name, decl).second)
      diagnostics.error("Q014", "the function '" + decl->name + "' is declared twice", decl->at,
                        {{"the other place", functions[decl->name]->at}});
    std::set<std::string> seen;
    for (const Parameter &parameter : decl->parameters)
      if (!seen.insert(parameter.name.name).second)
        diagnostics.error("Q014", "'" + decl->name + "' has the parameter '" + parameter.name.name + "' twice",
                          parameter.name.at);
    checkResultNames(*decl, seen);
  }
}

/// A result's name is a key of what `eval` writes, and what `decode` is given: it means one tensor.
void Elaborator::checkResultNames(const FunctionDecl &decl, const std::set<std::string> &parameters) {
  if (decl.name == "loss" && decl.results.size() > 1)
    diagnostics.error("Q016", "'loss' gives one number: -> []", decl.results[1].name.at);
  std::set<std::string> seen;
  for (const FunctionResult &result : decl.results) {
    const std::string &name = result.name.name;
    if (parameters.count(name))
      diagnostics.error("Q014", "'" + decl.name + "' has the parameter '" + name + "'; a result needs another name",
                        result.name.at);
    else if (!seen.insert(name).second)
      diagnostics.error("Q014", "'" + decl.name + "' has the result '" + name + "' twice", result.name.at);
  }
}

// ---- config

Value Elaborator::boundField(const ConfigField &field) {
  Value fallback = single(eval(*field.value, outerScope), field.value->at);
  const Value *given = config.find(field.spellings);
  if (const Value *set = config.setting(field.name.name))
    given = set->isNull() ? nullptr : set;
  Span place = config.place(field.spellings[0]);
  std::vector<Note> there;
  if (place)
    there.push_back({"the file's value", place});
  Value value = given ? *given : fallback;
  if (given && !fallback.isNull()) {
    bool whole = fallback.is<int64_t>() && value.is<double>() &&
                 std::nearbyint(*value.as<double>()) == *value.as<double>() && std::fabs(*value.as<double>()) < 9e15;
    bool widened = fallback.is<double>() && value.is<int64_t>();
    if (whole)
      value = static_cast<int64_t>(*value.as<double>());
    else if (!widened && value.data.index() != fallback.data.index())
      fail("Q041",
           "config: " + field.spellings[0] + " is " + describe(value) + " in the file; the spec's default is " +
               describe(fallback) + ", another kind",
           field.name.at, there);
  }
  size_t budget = 1'000'000;
  if (field.fixed && !equalStatic(value, fallback, budget))
    fail("Q040",
         "config.json has " + field.spellings[0] + " = " + describe(value) + "; this spec is only for " +
             describe(fallback),
         field.name.at, there);
  return value;
}

void Elaborator::bindConfig() {
  outerScope.blocks = &modelBlocks;
  std::map<std::string, Span> seen;
  for (const ConfigDecl &decl : model->configs)
    for (const ConfigField &field : decl.fields) {
      Value value = Poison{};
      guarded([&] {
        if (auto [it, added] = seen.try_emplace(field.name.name, field.name.at); !added)
          fail("Q014", "the config has the field '" + field.name.name + "' twice", field.name.at,
               {{"the other place", it->second}});
        value = boundField(field);
        if (!value.isStatic())
          fail("Q041", "a config field cannot be a tensor", field.value->at);
      });
      outerScope.values[field.name.name] = value;
      fields.emplace_back(field.name.name, value);
    }
}

// ---- functions

/// The model's own statements, as seen by the function that runs; then the names of all signatures.
void Elaborator::prologue(const FunctionDecl *running) {
  dims.clear();
  serial = counter = 0;
  batch = nullptr;
  calls.clear();
  path.clear();
  modelScope = Scope{&outerScope, &modelBlocks, false, {}, {}};
  if (!model->path.empty())
    guarded([&] { path.push_back(alternatives(model->path, modelScope)); });
  guarded([&] {
    if (body(model->statements, modelScope))
      fail("Q032", "return stands outside of all functions and blocks", model->at);
  });
  ignoredTensors.clear();
  for (const Expr *glob : model->ignores)
    guarded([&] { ignoredTensors.push_back(*evalString(glob->as<StringExpr>(), modelScope).as<std::string>()); });
  auto declare = [&](const FunctionDecl *decl, bool sized) {
    for (const Parameter &parameter : decl->parameters)
      for (const Expr *dim : parameter.type->dims) {
        std::string name = dim->as<NamedExpr>().name;
        if (modelScope.dim(name))
          continue;
        dims.push_back({name, name, ir::Size::symbol(name), dim->at, ++serial, sized});
        modelScope.dims[name] = &dims.back();
      }
  };
  if (running)
    declare(running, true);
  for (const FunctionDecl *decl : model->functions)
    declare(decl, false);
}

void Elaborator::function(const FunctionDecl &decl) {
  builder.beginFunction(decl.name);
  prologue(&decl);
  guarded([&] {
    FunctionInfo info;
    for (const FunctionResult &result : decl.results)
      info.results.push_back(result.name.name);
    for (const Parameter &parameter : decl.parameters) {
      FunctionInfo::Input input{
          parameter.name.name, parameter.type->kind, {}, parameter.fallback != nullptr, parameter.name.at};
      for (const Expr *dim : parameter.type->dims)
        input.dims.push_back(label(*dim, modelScope));
      for (size_t i = 0; i < input.dims.size(); ++i)
        if (std::count(input.dims.begin(), input.dims.end(), input.dims[i]) > 1)
          fail("Q026", "'" + input.name + "' has " + input.dims[i]->shown + " twice", parameter.type->at);
      info.inputs.push_back(std::move(input));
    }
    if (!info.inputs.empty() && !info.inputs[0].dims.empty()) {
      info.batch = info.inputs[0].dims.front()->label;
      if (decl.name == "forward" || decl.name == "decode")
        info.time = info.inputs[0].dims.back()->label;
    }
    std::vector<Handle> handles = builder.inputs(info);
    std::map<std::string, Value> arguments;
    for (size_t i = 0; i < info.inputs.size(); ++i)
      arguments[info.inputs[i].name] = Tensor{info.inputs[i].dims, info.inputs[i].kind, handles[i]};
    if (std::vector<Tensor> results = functionBody(decl, arguments, false); !results.empty())
      builder.endFunction(results);
  });
  for (const Parameter &parameter : decl.parameters)
    if (parameter.fallback)
      defaultFunction(decl, parameter);
}

void Elaborator::defaultFunction(const FunctionDecl &decl, const Parameter &parameter) {
  builder.beginFunction(decl.name + ".default." + parameter.name.name);
  prologue(&decl);
  guarded([&] {
    builder.inputs({{parameter.name.name}, {}, "", ""});
    builder.place(parameter.name.at);
    Scope scope{&modelScope, &modelBlocks, false, {}, {}};
    Tensor value = spread(eval(*parameter.fallback, scope), *parameter.type, scope,
                          decl.name + ": '" + parameter.name.name + "'", parameter.name.at);
    builder.endFunction({value});
  });
}

/// A value with all the dimensions of a type: repeated along those that it lacks.
Tensor Elaborator::spread(const Value &value, const TypeNode &type, Scope &scope, const std::string &what, Span at) {
  if (!value.kind())
    fail("Q025", what + " is " + describe(value) + "; a tensor is needed", at);
  Tensor tensor = tensorOf(value);
  DimRefs want;
  for (const Expr *dim : type.dims)
    want.push_back(label(*dim, scope));
  for (DimRef dim : tensor.dims)
    if (std::find(want.begin(), want.end(), dim) == want.end())
      fail("Q021", what + " also has " + dim->shown + "; " + shownDims(want) + " was declared", at);
  if (tensor.kind != type.kind && !(type.kind == Kind::Real && tensor.kind == Kind::Int))
    fail("Q025", what + " is " + kindName(tensor.kind) + "; " + kindName(type.kind) + " is needed", at);
  return expandTo(asKind(tensor, type.kind), want);
}

/// The results, stored in the declared order; none if the function could not be read to its end.
std::vector<Tensor> Elaborator::functionBody(const FunctionDecl &decl, const std::map<std::string, Value> &arguments,
                                             bool inlined) {
  Scope scope{&modelScope, &modelBlocks, inlined, {}, {}};
  DimRef outside = batch;
  functionStack.push_back(&decl);
  std::vector<Tensor> results;
  guarded([&] {
    batch = nullptr;
    if (!decl.parameters.empty() && !decl.parameters[0].type->dims.empty() && decl.name != "loss")
      batch = label(*decl.parameters[0].type->dims[0], modelScope);
    for (const Parameter &parameter : decl.parameters) {
      auto given = arguments.find(parameter.name.name);
      if (given != arguments.end()) {
        scope.values[parameter.name.name] = given->second;
        continue;
      }
      if (!parameter.fallback)
        fail("Q015", decl.name + ": no value for '" + parameter.name.name + "'", parameter.name.at);
      Scope outer{&modelScope, &modelBlocks, inlined, {}, {}};
      scope.values[parameter.name.name] = spread(eval(*parameter.fallback, outer), *parameter.type, modelScope,
                                                 decl.name + ": '" + parameter.name.name + "'", parameter.name.at);
    }
    std::optional<Value> value = body(decl.body, scope);
    if (!value)
      fail("Q016", "'" + decl.name + "' returns nothing", decl.at);
    std::vector<Value> values = value->several() ? value->several()->values : std::vector<Value>{*value};
    if (values.size() != decl.results.size()) {
      const std::string count = std::to_string(values.size());
      if (decl.results.size() == 1)
        fail("Q016",
             "'" + decl.name + "' returns " + count + " values, not one tensor; give each a name and a type: -> (" +
                 decl.results[0].name.name + ": ..., ...)",
             decl.at);
      fail("Q017",
           "'" + decl.name + "' promises " + std::to_string(decl.results.size()) + " results and returns " + count +
               (values.size() == 1 ? " value" : " values"),
           decl.at);
    }
    std::vector<Tensor> made;
    for (size_t i = 0; i < values.size(); ++i)
      made.push_back(resultOf(decl, decl.results[i], values[i], scope));
    results = std::move(made);
  });
  functionStack.pop_back();
  batch = outside;
  return results;
}

/// A value as the result that was declared; an int may be promised as a real, as everywhere.
Tensor Elaborator::resultOf(const FunctionDecl &decl, const FunctionResult &result, const Value &value, Scope &scope) {
  const TypeNode &type = result.type;
  builder.place(type.at);
  DimRefs want;
  for (const Expr *dim : type.dims)
    want.push_back(label(*dim, scope));
  // Of several results the message says which.
  const std::string which = decl.results.size() > 1 ? " as '" + result.name.name + "'" : "";
  if (!value.kind())
    fail("Q016",
         "'" + decl.name + "' returns " + describe(value) + which + ", not " + (which.empty() ? "one" : "a") +
             " tensor",
         decl.at);
  Tensor tensor = tensorOf(value);
  if (std::set<DimRef>(tensor.dims.begin(), tensor.dims.end()) != std::set<DimRef>(want.begin(), want.end()) ||
      want.size() != tensor.dims.size())
    fail("Q021", "'" + decl.name + "' promises " + shownDims(want) + which + " and returns " + shownDims(tensor.dims),
         type.at);
  if (tensor.kind == Kind::Int && type.kind == Kind::Real)
    tensor = asKind(tensor, Kind::Real);
  if (tensor.kind != type.kind)
    fail("Q025",
         "'" + decl.name + "' promises " + kindName(type.kind) + which + " and returns " + kindName(tensor.kind),
         type.at);
  return Tensor{want, tensor.kind, tensor.handle};
}

} // namespace quern::frontend
