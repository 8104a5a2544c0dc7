// Takes: calls of blocks and functions. Gives: their results, inlined.
// Why inputs are aliased where it cannot be noticed: `causal[T, S]` must speak of the caller's T, or no mask could be
// compared with the caller's positions later; and a rename that says nothing is not written.
#include "frontend/check/Elaborator.h"

#include <algorithm>

namespace quern::frontend {

static constexpr size_t maxCallDepth = 200;

/// How the language says what other libraries have a function for; "" for other names.
static std::string idiomFor(const std::string &name) {
  static const std::map<std::string, std::string> idioms = [] {
    std::map<std::string, std::string> table;
    auto add = [&](std::initializer_list<const char *> names, const std::string &idiom) {
      for (const char *name : names)
        table[name] = idiom;
    };
    add({"tril", "triu", "causal_mask"}, "a causal mask is index(S) <= index(T), with dim S = T");
    add({"masked_fill", "select", "clamp"}, "write where(condition, x, y), max(x, low), min(x, high)");
    add({"einsum", "matmul", "bmm", "mm", "dot", "tensordot"}, "a product is sum[D](a * b), over dimensions by name");
    add({"transpose", "permute", "swapaxes", "unsqueeze", "squeeze", "expand", "broadcast_to", "repeat_interleave"},
        "tensors meet by the names of their dimensions, in any order");
    add({"view", "reshape", "flatten", "rearrange", "chunk", "stack"},
        "x[D -> (H, K)] splits, x[(H, K) -> D] merges, x[D -> A + B] cuts in parts");
    add({"arange", "range", "iota"}, "positions along T are index(T)");
    add({"zeros", "ones", "full", "zeros_like", "ones_like"}, "a number is a tensor of any shape: write 0 or 1");
    add({"embedding", "gather", "index_select", "take"}, "rows of a table are gathered by table[V = tokens]");
    add({"cat", "concatenate", "hstack", "vstack"}, "concat[A + B -> C](x, y) puts them behind each other");
    add({"norm", "normalise", "batch_norm", "group_norm"},
        "write rms_norm[D](x, eps), layer_norm[D](x, eps) or normalize[D](x)");
    add({"dropout"}, "leave it out: nothing is dropped at random here");
    add({"scaled_dot_product_attention", "sdpa"}, "attention[S, K](q, k[T -> S], v[T -> S], mask: ...)");
    return table;
  }();
  auto found = idioms.find(name);
  return found == idioms.end() ? "" : "; " + found->second;
}

Value Elaborator::call(const CallExpr &expr, Scope &scope) {
  if (auto block = scope.blocks->find(expr.name); block != scope.blocks->end()) {
    if (block->second->broken)
      throw Poisoned();
    return callBlock(*block->second, expr, scope);
  }
  bool inModel = scope.blocks == &modelBlocks;
  if (auto function = functions.find(expr.name); inModel && function != functions.end())
    return callFunction(*function->second, expr, scope);
  if (!isPrimitive(expr.name)) {
    std::vector<std::string> known = primitiveNames();
    for (const auto &[name, block] : *scope.blocks)
      known.push_back(name);
    if (inModel)
      for (const auto &[name, function] : functions)
        known.push_back(name);
    std::string hint = idiomFor(expr.name);
    if (hint.empty())
      hint = didYouMean(expr.name, known);
    if (hint.empty() && !inModel && modelBlocks.count(expr.name))
      hint = "; it is declared in the model, and a block outside of it sees only what is outside";
    fail("Q010", "unknown block '" + expr.name + "'" + hint, expr.at);
  }
  return primitive(expr, scope);
}

std::map<std::string, Value> Elaborator::matched(const std::string &name, const std::vector<Parameter> &parameters,
                                                 const CallExpr &expr, Scope &scope) {
  std::map<std::string, Value> given;
  std::vector<std::string> known;
  for (const Parameter &parameter : parameters)
    known.push_back(parameter.name.name);
  for (size_t i = 0; i < expr.arguments.size(); ++i) {
    const Argument &argument = expr.arguments[i];
    std::string wanted = argument.name;
    if (wanted.empty()) {
      if (i >= parameters.size())
        fail("Q015", "'" + name + "' takes " + std::to_string(parameters.size()) + " values", argument.value->at);
      wanted = known[i];
    }
    if (std::find(known.begin(), known.end(), wanted) == known.end()) {
      std::string list;
      for (const std::string &one : known)
        list += (list.empty() ? "" : ", ") + one;
      fail("Q015", "'" + name + "' has no parameter '" + wanted + "'" + (list.empty() ? "" : "; it has " + list),
           argument.nameAt);
    }
    if (given.count(wanted))
      fail("Q015", "'" + wanted + "' is given twice", argument.value->at);
    given[wanted] = single(eval(*argument.value, scope), argument.value->at);
  }
  return given;
}

Value Elaborator::callFunction(const FunctionDecl &decl, const CallExpr &expr, Scope &scope) {
  if (!expr.dims.empty())
    fail("Q019", "'" + decl.name + "' is a function and takes no dimensions", expr.at);
  if (!expr.path.empty())
    fail("Q019", "'" + decl.name + "' is a function, whose parameters have their names already; '@' is for blocks",
         expr.at);
  if (std::find(functionStack.begin(), functionStack.end(), &decl) != functionStack.end())
    fail("Q034", "'" + decl.name + "' calls itself", expr.at, {{"declared here", decl.at}});
  std::map<std::string, Value> arguments = matched(decl.name, decl.parameters, expr, scope);
  for (const Parameter &parameter : decl.parameters) {
    auto given = arguments.find(parameter.name.name);
    if (given == arguments.end())
      continue;
    std::string what = decl.name + ": '" + parameter.name.name + "'";
    if (given->second.is<Tensor>())
      fits(given->second, *parameter.type, modelScope, what, expr.at);
    given->second = spread(given->second, *parameter.type, modelScope, what, expr.at);
  }
  for (const Parameter &parameter : decl.parameters)
    if (!parameter.fallback && !arguments.count(parameter.name.name))
      fail("Q015", decl.name + ": no value for '" + parameter.name.name + "'", expr.at);
  std::vector<Call> outside = std::move(calls); // its parameters have the same chain of calls, whoever runs it
  calls.clear();
  builder.enterCall(expr.at);
  std::vector<Tensor> results = functionBody(decl, arguments, true);
  builder.leaveCall();
  calls = std::move(outside);
  if (results.empty())
    throw Poisoned();
  if (results.size() == 1)
    return results[0];
  auto several = std::make_shared<Several>();
  several->values.assign(results.begin(), results.end());
  return std::shared_ptr<const Several>(several);
}

// ---- blocks

/// Names that may mean the model's dimensions in a block of the model, or in a block that it calls.
const std::set<std::string> &Elaborator::mentioned(const BlockDecl &decl) {
  auto [it, added] = mentionedBy.try_emplace(decl.name);
  if (!added)
    return it->second;
  // Every capitalised word of the source between the block's name and its end: more than needed is harmless.
  std::set<std::string> names;
  std::string_view text = spec.source->getText();
  uint32_t begin = decl.at.begin, end = decl.at.end;
  std::vector<const Body *> bodies = {&decl.body};
  for (size_t i = 0; i < bodies.size(); ++i)
    for (const Stmt *stmt : *bodies[i]) {
      end = std::max(end, stmt->at.end);
      if (stmt->kind == Stmt::If) {
        bodies.push_back(&stmt->as<IfStmt>().then);
        bodies.push_back(&stmt->as<IfStmt>().otherwise);
      } else if (stmt->kind == Stmt::Repeat)
        bodies.push_back(&stmt->as<RepeatStmt>().body);
      else if (stmt->kind == Stmt::Scan)
        bodies.push_back(&stmt->as<ScanStmt>().body);
    }
  std::vector<const BlockDecl *> called;
  auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (uint32_t i = begin; i < end;) {
    if (!isWord(text[i])) {
      ++i;
      continue;
    }
    uint32_t stop = i;
    while (stop < end && isWord(text[stop]))
      ++stop;
    std::string word(text.substr(i, stop - i));
    if (std::isupper(static_cast<unsigned char>(word[0])))
      names.insert(word);
    else if (auto block = modelBlocks.find(word);
             block != modelBlocks.end() && block->second->at.source == spec.source.get() && block->second != &decl)
      called.push_back(block->second);
    i = stop;
  }
  for (const Named &formal : decl.formals) // inside, these are the block's own
    names.erase(formal.name);
  for (const BlockDecl *block : called) {
    const std::set<std::string> &more = mentioned(*block);
    names.insert(more.begin(), more.end());
  }
  return mentionedBy[decl.name] = names;
}

/// Whether a formal may simply be the dimension it is given: nothing inside can see the difference, and nothing of that
/// name is stacked.
bool Elaborator::mayAlias(const BlockDecl &decl, DimRef dim, bool inModel, const DimRefs &stacked) {
  if (std::find(stacked.begin(), stacked.end(), dim) != stacked.end())
    return false;
  if (!inModel)
    return true;
  // A block of the model also sees the model's own dimensions, and tensors over those of fixed size.
  if (modelScope.dim(dim->shown) != dim)
    return true;
  return !dim->size.isConstant() && !mentioned(decl).count(dim->shown);
}

std::vector<Elaborator::Binding> Elaborator::bindFormals(const BlockDecl &decl, const CallExpr &expr, Scope &scope,
                                                         Scope &inner, bool inModel, const DimRefs &stacked,
                                                         std::map<std::string, Value> &given) {
  std::vector<Binding> bound;
  auto holds = [&](DimRef dim) {
    return std::any_of(given.begin(), given.end(), [&](const auto &entry) {
      return entry.second.template is<Tensor>() && entry.second.template as<Tensor>()->has(dim);
    });
  };
  std::set<DimRef> aliased;
  for (size_t i = 0; i < decl.formals.size(); ++i) {
    const Expr &dim = *expr.dims[i].value;
    ir::Size size = extent(dim, scope);
    DimRef plain = dim.kind == Expr::DimName ? label(dim, scope) : nullptr;
    bool input = i < decl.inputs;
    DimRef formal = nullptr;
    if (plain && !aliased.count(plain) && mayAlias(decl, plain, inModel, stacked) && (input || !holds(plain)))
      formal = plain;
    if (formal)
      aliased.insert(formal);
    else {
      formal = makeDim(decl.formals[i].name, size, true, decl.formals[i].at);
      dims.back().twinOf = plain ? plain->twinOf : nullptr;
    }
    if (plain)
      unscanned(plain, dim.at);
    inner.dims[decl.formals[i].name] = formal;
    bound.push_back({formal, &dim});
    if (!input)
      continue;
    batchIn(dim, scope);
    if (leaves(dim) > 1 || dim.kind == Expr::Unit)
      fail("Q012", dimText(dim) + " cannot be an input dimension", dim.at);
    if (formal == plain)
      continue;
    DimRefs parts;
    for (const std::string &name : dimNames(dim))
      parts.push_back(labelNamed(name, dim.at, scope));
    for (auto &[name, value] : given)
      if (auto tensor = value.as<Tensor>();
          tensor && std::all_of(parts.begin(), parts.end(), [&](DimRef part) { return tensor->has(part); }))
        value = merge({*tensor}, dim, scope, expr.at, formal).first;
  }
  return bound;
}

void Elaborator::bindParameters(const BlockDecl &decl, const CallExpr &expr, Scope &inner,
                                const std::map<std::string, Value> &original, std::map<std::string, Value> &given) {
  std::map<std::string, std::string> asked; // a formal, as the caller spelled it
  for (size_t i = 0; i < decl.formals.size(); ++i)
    asked[decl.formals[i].name] = dimText(*expr.dims[i].value);
  for (const Parameter &parameter : decl.parameters) {
    const std::string &name = parameter.name.name;
    auto value = given.find(name);
    if (value == given.end()) {
      if (!parameter.fallback)
        fail("Q015", decl.form() + ": no value for '" + name + "'", expr.at, {{"declared here", parameter.name.at}});
      inner.values[name] = single(eval(*parameter.fallback, inner), parameter.fallback->at);
      continue;
    }
    inner.values[name] = value->second;
    if (!parameter.type && !value->second.isStatic()) {
      bool own = parameter.name.at.source == expr.at.source; // a block of the library is as it is
      fail("Q025", decl.name + ": '" + name + "' takes a value known from the config, not a tensor", expr.at,
           {{own ? "declared here; to take tensors it needs a type: " + name + ": [..]" : "declared here",
             parameter.name.at}});
    }
    bool absent = value->second.isNull() && parameter.fallback && parameter.fallback->kind == Expr::Null;
    if (parameter.type && !absent) {
      const Value &before = original.at(name);
      fits(value->second, *parameter.type, inner, decl.name + ": '" + name + "'", expr.at, before.as<Tensor>(), &asked);
    }
  }
}

/// Formals turn back into the caller's dimensions.
std::vector<Value> Elaborator::results(const BlockDecl &decl, const CallExpr &expr, Scope &scope,
                                       const std::vector<Binding> &bound, const Value &value, unsigned before) {
  std::vector<Value> values = value.several() ? value.several()->values : std::vector<Value>{value};
  std::vector<Value> out;
  for (const Value &one : values) {
    auto tensor = one.as<Tensor>();
    if (!tensor) {
      out.push_back(one);
      continue;
    }
    for (DimRef dim : tensor->dims)
      if (dim->serial > before &&
          std::none_of(bound.begin(), bound.end(), [&](const Binding &b) { return b.inner == dim; }))
        fail("Q029",
             "'" + decl.name + "' returns " + shownDims(tensor->dims) + ", whose " + dim->shown +
                 " exists only inside it; make it a dimension of the block",
             decl.at);
    std::vector<Tensor> pieces = {*tensor};
    for (const Binding &binding : bound) {
      std::vector<Tensor> next;
      for (Tensor &piece : pieces)
        if (piece.has(binding.inner))
          for (Tensor &part : split(piece, binding.inner, *binding.given, scope, expr.at))
            next.push_back(part);
        else
          next.push_back(piece);
      pieces = std::move(next);
    }
    if (pieces.size() > 1 && values.size() > 1)
      fail("Q012", "'" + decl.name + "' returns several values; a sum of dimensions needs one", expr.at);
    out.insert(out.end(), pieces.begin(), pieces.end());
  }
  return out;
}

Value Elaborator::callBlock(const BlockDecl &decl, const CallExpr &expr, Scope &scope) {
  bool fit = expr.dims.size() == decl.formals.size();
  for (size_t i = 0; fit && i < expr.dims.size(); ++i)
    fit = expr.dims[i].arrow == (decl.arrow && i == decl.inputs);
  if (!fit)
    fail("Q019",
         decl.formals.empty() ? "this call does not match the block's dimensions: '" + decl.name + "' takes none"
         : expr.dims.empty()  ? "write " + decl.form() + "(...): the dimensions that a block works on are in brackets"
                              : "this call does not match the block's dimensions: " + decl.form(),
         expr.at, {{"declared here", decl.at}});
  for (const Item &item : expr.dims)
    if (!item.value->isDim())
      fail("Q012", "dimensions are needed between [ and ]", item.value->at);
  if (std::find(blockStack.begin(), blockStack.end(), &decl) != blockStack.end())
    fail("Q034", "'" + decl.name + "' calls itself", expr.at, {{"declared here", decl.at}});
  if (blockStack.size() >= maxCallDepth)
    fail("Q034", "more than 200 calls inside each other", expr.at);

  std::map<std::string, Value> given = matched(decl.name, decl.parameters, expr, scope), original = given;
  std::set<std::string> taken;
  for (size_t i = 0; i < decl.inputs; ++i)
    for (const std::string &name : dimNames(*expr.dims[i].value))
      if (!taken.insert(name).second)
        fail("Q026", "the dimension " + name + " is given twice to " + decl.form(), expr.at);

  auto own = std::find(model->blocks.begin(), model->blocks.end(), &decl);
  bool inModel = own != model->blocks.end();
  Scope inner{inModel ? &modelScope : nullptr,
              inModel                               ? &modelBlocks
              : decl.at.source == spec.source.get() ? &fileBlocks
                                                    : &libraryBlocks,
              true,
              {},
              {}};
  unsigned before = serial;
  builder.place(expr.at);
  size_t depth = path.size();
  struct Leave {
    Elaborator &elaborator;
    size_t depth, callDepth, stackDepth;
    ~Leave() {
      elaborator.path.resize(depth);
      if (elaborator.calls.size() > callDepth) {
        elaborator.calls.resize(callDepth);
        elaborator.builder.leaveCall();
      }
      elaborator.blockStack.resize(stackDepth);
    }
  } leave{*this, depth, calls.size(), blockStack.size()};
  std::vector<PathPart> named;
  if (!expr.path.empty())
    named = alternatives(expr.path, scope);
  DimRefs stacked = stackedNow();
  if (!named.empty())
    stacked.insert(stacked.end(), named.front().stacked.begin(), named.front().stacked.end());
  std::vector<Binding> bound = bindFormals(decl, expr, scope, inner, inModel, stacked, given);
  builder.enterCall(expr.at);
  calls.push_back({decl.name, expr.at});
  bindParameters(decl, expr, inner, original, given);
  if (!named.empty())
    path.push_back(std::move(named));
  blockStack.push_back(&decl);
  std::optional<Value> value;
  try {
    value = body(decl.body, inner);
  } catch (const Abandoned &) {
    throw Poisoned();
  }
  if (!value)
    fail("Q016", "'" + decl.name + "' returns nothing", decl.at, {{"in this call", expr.at}});
  builder.place(expr.at);
  std::vector<Value> out = results(decl, expr, scope, bound, *value, before);
  if (out.size() == 1)
    return out[0];
  auto several = std::make_shared<Several>();
  several->values = std::move(out);
  return std::shared_ptr<const Several>(several);
}

} // namespace quern::frontend
