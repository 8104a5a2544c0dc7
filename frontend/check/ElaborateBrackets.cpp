// Takes: a value and what stands in brackets after it. Gives: renamed, split, merged, cut and gathered values.
// Why split and merge are inverse walks over one notation: fused checkpoint layouts and concat are the same expression,
// read in the two directions.
#include "frontend/check/Elaborator.h"

#include "support/Utf8.h"

#include <algorithm>

namespace quern::frontend {

static std::string sized(const ir::Size &size) {
  return size.str() + (size.isConstant() ? "" : " (known only at run time)");
}

Tensor Elaborator::renamed(Tensor tensor, const std::vector<std::pair<DimRef, DimRef>> &table) {
  for (DimRef &dim : tensor.dims)
    for (auto [from, to] : table)
      if (dim == from) {
        dim = to;
        break;
      }
  tensor.handle = builder.rename(tensor.handle, table);
  return tensor;
}

static DimRefs replaced(const DimRefs &dims, DimRef old, const DimRefs &with) {
  DimRefs out;
  for (DimRef dim : dims)
    if (dim == old)
      out.insert(out.end(), with.begin(), with.end());
    else
      out.push_back(dim);
  return out;
}

// ---- one dimension into several

/// `dim` of the tensor becomes what `into` says: one tensor for each leaf of a sum.
std::vector<Tensor> Elaborator::split(Tensor tensor, DimRef dim, const Expr &into, Scope &scope, Span at) {
  if (into.kind == Expr::DimName) {
    DimRef target = label(into, scope, dim->shown);
    if (target->size != dim->size)
      fail("Q020", target->shown + " is " + sized(target->size) + ", but " + dim->shown + " is " + sized(dim->size), at,
           declaredHere(target));
    if (target == dim)
      return {tensor};
    if (tensor.has(target))
      fail("Q026", "the result would have " + target->shown + " twice: " + shownDims(tensor.dims) + " already has it",
           at);
    return {renamed(tensor, {{dim, target}})};
  }
  if (ir::Size total = extent(into, scope); total != dim->size) {
    std::vector<Note> notes;
    for (const std::string &name : dimNames(into))
      for (Note &note : declaredHere(scope.dim(name)))
        if (notes.empty() || notes.back().message != note.message)
          notes.push_back(note);
    fail("Q020", dimText(into) + " is " + sized(total) + ", but " + dim->shown + " is " + sized(dim->size), at, notes);
  }
  if (into.kind == Expr::Unit)
    return {{replaced(tensor.dims, dim, {}), tensor.kind, builder.squeeze(tensor.handle, dim)}};
  const Exprs &parts = into.as<ListExpr>().values;
  if (into.kind == Expr::Group)
    return splitGroup(tensor, dim, parts, scope, at);
  std::vector<Tensor> pieces;
  ir::Size offset(0);
  for (const Expr *part : parts) {
    ir::Size size = extent(*part, scope);
    DimRef piece = part->kind == Expr::DimName ? label(*part, scope) : nullptr;
    bool direct = piece && piece != dim && !tensor.has(piece);
    if (!direct)
      piece = fresh(dim->shown, size);
    Tensor cut{replaced(tensor.dims, dim, {piece}), tensor.kind, builder.cut(tensor.handle, dim, offset, piece)};
    if (direct)
      pieces.push_back(cut);
    else
      for (Tensor &next : split(cut, piece, *part, scope, at))
        pieces.push_back(next);
    offset = offset + size;
  }
  return pieces;
}

std::vector<Tensor> Elaborator::splitGroup(Tensor tensor, DimRef dim, const Exprs &parts, Scope &scope, Span at) {
  DimRefs inner;
  std::vector<std::pair<DimRef, const Expr *>> later;
  std::set<DimRef> used;
  for (const Expr *part : parts) {
    DimRef piece = part->kind == Expr::DimName ? label(*part, scope) : nullptr;
    if (piece && (!used.insert(piece).second || (piece != dim && tensor.has(piece))))
      fail("Q026", "the result would have " + piece->shown + " twice", at);
    if (piece == dim)
      piece = nullptr; // x[D -> (D, N)]: by way of a fresh one
    if (!piece) {
      piece = fresh(part->kind == Expr::DimName ? dimText(*part) : dim->shown, extent(*part, scope));
      later.emplace_back(piece, part);
    }
    inner.push_back(piece);
  }
  std::vector<Tensor> pieces = {
      {replaced(tensor.dims, dim, inner), tensor.kind, builder.split(tensor.handle, dim, inner)}};
  for (auto [piece, part] : later) {
    std::vector<Tensor> next;
    for (Tensor &t : pieces)
      for (Tensor &q : split(t, piece, *part, scope, at))
        next.push_back(q);
    pieces = std::move(next);
  }
  return pieces;
}

// ---- several dimensions into one

/// The inverse of split: the tensor, and the one dimension that `from` became (`into`, where given).
std::pair<Tensor, DimRef> Elaborator::merge(std::vector<Tensor> tensors, const Expr &from, Scope &scope, Span at,
                                            DimRef into) {
  if (from.kind == Expr::DimName) {
    DimRef dim = label(from, scope);
    Tensor &tensor = tensors[0];
    if (!tensor.has(dim))
      fail("Q021", "the value has no dimension " + dim->shown + "; it is " + shownDims(tensor.dims), at);
    if (into && into != dim)
      return {renamed(tensor, {{dim, into}}), into};
    return {tensor, dim};
  }
  if (from.kind == Expr::Unit) {
    DimRef one = into ? into : fresh("1", 1);
    Tensor tensor = tensors[0];
    tensor.handle = builder.unit(tensor.handle, one);
    tensor.dims.push_back(one);
    return {tensor, one};
  }
  const Exprs &parts = from.as<ListExpr>().values;
  if (!into)
    into = fresh(dimText(from), extent(from, scope));
  return from.kind == Expr::Sum ? mergeSum(std::move(tensors), parts, scope, at, into)
                                : mergeGroup(std::move(tensors), parts, scope, at, into);
}

std::pair<Tensor, DimRef> Elaborator::mergeSum(std::vector<Tensor> tensors, const Exprs &parts, Scope &scope, Span at,
                                               DimRef into) {
  std::vector<Handle> handles;
  DimRefs axes, dims;
  Kind kind = Kind::Int;
  bool bools = false, numbers = false;
  size_t next = 0;
  for (const Expr *part : parts) {
    size_t count = leaves(*part);
    std::vector<Tensor> own(tensors.begin() + next, tensors.begin() + next + count);
    next += count;
    batchIn(*part, scope);
    auto [tensor, axis] = merge(std::move(own), *part, scope, at);
    (tensor.kind == Kind::Bool ? bools : numbers) = true;
    if (tensor.kind != Kind::Int)
      kind = tensor.kind;
    handles.push_back(tensor.handle);
    axes.push_back(axis);
    for (DimRef dim : tensor.dims)
      if (dim != axis && std::find(dims.begin(), dims.end(), dim) == dims.end())
        dims.push_back(dim);
  }
  if (bools && numbers)
    fail("Q025", "concat cannot join true/false values with numbers", at);
  if (std::find(dims.begin(), dims.end(), into) != dims.end())
    fail("Q026", "the result would have " + into->shown + " twice: " + shownDims(dims) + " already has it", at);
  dims.push_back(into);
  return {{dims, bools ? Kind::Bool : kind, builder.concat(handles, axes, into)}, into};
}

/// Tensors in the order that splitting gives them: the first part's leaves vary slowest.
std::pair<Tensor, DimRef> Elaborator::mergeGroup(std::vector<Tensor> tensors, const Exprs &parts, Scope &scope, Span at,
                                                 DimRef into) {
  DimRefs axes(parts.size());
  for (size_t p = parts.size(); p-- > 0;) {
    size_t count = leaves(*parts[p]);
    if (count == 1)
      continue;
    std::vector<Tensor> fewer;
    for (size_t i = 0; i < tensors.size(); i += count) {
      auto [tensor, axis] = merge({tensors.begin() + i, tensors.begin() + i + count}, *parts[p], scope, at, axes[p]);
      axes[p] = axis;
      fewer.push_back(tensor);
    }
    tensors = std::move(fewer);
  }
  Tensor tensor = tensors[0];
  for (size_t p = 0; p < parts.size(); ++p)
    if (!axes[p]) {
      batchIn(*parts[p], scope);
      std::tie(tensor, axes[p]) = merge({tensor}, *parts[p], scope, at);
    }
  std::set<DimRef> unique(axes.begin(), axes.end());
  if (unique.size() < axes.size())
    fail("Q026", "a dimension stands twice in a group", at);
  DimRefs dims;
  for (DimRef dim : tensor.dims)
    if (!unique.count(dim))
      dims.push_back(dim);
  if (std::find(dims.begin(), dims.end(), into) != dims.end())
    fail("Q026", "the result would have " + into->shown + " twice: " + shownDims(dims) + " already has it", at);
  dims.push_back(into);
  return {{dims, tensor.kind, builder.merge(tensor.handle, axes, into)}, into};
}

// ---- [...] after a value

int64_t Elaborator::listIndex(const Expr &item, Scope &scope) {
  Value index = eval(item, scope);
  auto whole = index.as<int64_t>();
  if (!whole)
    fail("Q028", "a position is a whole number, not " + describe(index), item.at);
  return *whole;
}

Value Elaborator::brackets(const IndexExpr &expr, Scope &scope) {
  Value value = eval(*expr.value, scope);
  bool valueItem = expr.items.size() == 1 && expr.items[0].value->kind < Expr::Rest;
  if (value.isNull()) { // null[i] is null
    if (valueItem && !expr.items[0].value->isDim())
      eval(*expr.items[0].value, scope);
    return value;
  }
  auto position = [&](const std::string &what, const std::string &word, size_t length) {
    if (!valueItem)
      fail("Q019", "a " + what + " takes one position: " + word + "[i]", expr.at);
    int64_t index = listIndex(*expr.items[0].value, scope);
    if (index < 0 || index >= static_cast<int64_t>(length))
      fail("Q028", "position " + std::to_string(index) + " of a " + what + " of " + std::to_string(length), expr.at);
    return static_cast<size_t>(index);
  };
  if (auto object = value.as<ObjectRef>()) {
    Value name = valueItem ? eval(*expr.items[0].value, scope) : Value();
    if (!name.is<std::string>())
      fail("Q018", "a config object takes one name, a string: object[\"name\"]", expr.at);
    return member(**object, *name.as<std::string>());
  }
  if (auto list = value.as<ListRef>())
    return (**list)[position("list", "list", (*list)->size())];
  if (auto text = value.as<std::string>()) {
    steps += text->size(); // its characters are counted each time
    step(expr.at);
    size_t at = 0;
    for (size_t i = position("string", "text", support::utf8Count(*text)); i > 0; --i)
      at += support::utf8Length((*text)[at]);
    return text->substr(at, support::utf8Length((*text)[at]));
  }
  single(value, expr.value->at);
  if (!value.is<Tensor>())
    fail("Q018", "[...] needs a tensor, a list, a string or a config object, not " + describe(value), expr.at);

  Tensor tensor = *value.as<Tensor>();
  struct Arrow {
    DimRef from;
    const Expr *into;
    bool cut = false; // a part of the dimension it is named after
  };
  std::vector<Arrow> arrows;
  std::set<DimRef> taken;
  auto take = [&](DimRef dim, Span at) {
    apart(dim, at);
    if (!taken.insert(dim).second)
      fail("Q026", dim->shown + " stands left of two arrows", at);
  };
  std::vector<std::pair<const Expr *, const Expr *>> merges;
  for (size_t i = 0; i < expr.items.size(); ++i) {
    const Expr &item = *expr.items[i].value;
    const Expr *target = i + 1 < expr.items.size() && expr.items[i + 1].arrow ? expr.items[++i].value : nullptr;
    if (target && !target->isDim())
      fail("Q012", "a dimension is needed after '->'", target->at);
    builder.place(item.at);
    if (item.kind == Expr::Gather && !target)
      tensor = gather(tensor, item.as<GatherItem>(), scope);
    else if (item.kind == Expr::Range) {
      auto &cut = item.as<RangeItem>();
      if (!target)
        fail("Q019", "a range is another dimension and needs a name: " + cut.name + ": ... -> " + cut.name + "2",
             item.at);
      auto [next, dim] = range(tensor, cut, scope);
      tensor = next;
      arrows.push_back({dim, target, true});
    } else if (target && (item.kind == Expr::DimName || item.kind == Expr::Group || item.kind == Expr::Sum)) {
      if (leaves(item) > 1)
        fail("Q012", "a sum of dimensions on the left needs several tensors: use concat", item.at);
      merges.emplace_back(&item, target); // after all gathers and ranges
    } else if (target && item.kind == Expr::Unit)
      merges.emplace_back(&item, target);
    else
      fail("Q019", "expected A -> B, A = positions, or A: first..end -> B", item.at);
  }
  for (auto [item, target] : merges) {
    batchIn(*item, scope);
    builder.place(item->at);
    auto [next, dim] = merge({tensor}, *item, scope, item->at);
    tensor = next;
    take(dim, item->at);
    arrows.push_back({dim, target});
  }
  builder.place(expr.at);

  std::vector<std::pair<DimRef, DimRef>> table; // plain renames happen at once, so that names may be swapped
  std::vector<Arrow> rest;
  for (const Arrow &arrow : arrows) {
    if (arrow.into->kind != Expr::DimName) {
      rest.push_back(arrow);
      continue;
    }
    DimRef target = label(*arrow.into, scope, arrow.cut ? arrow.from->size.str() : arrow.from->shown);
    apart(target, arrow.into->at);
    if (target->size != arrow.from->size)
      fail("Q020",
           target->shown + " is " + sized(target->size) + ", but " + arrow.from->shown + " is " +
               sized(arrow.from->size),
           expr.at, declaredHere(target));
    if (target != arrow.from)
      table.emplace_back(arrow.from, target);
  }
  // What is split makes room first: x[D -> (H, K), T -> D] is allowed.
  if (!table.empty())
    for (Arrow &arrow : rest) {
      DimRef aside = fresh(arrow.from->shown, arrow.from->size);
      table.emplace_back(arrow.from, aside);
      arrow.from = aside;
    }
  if (!table.empty()) {
    Tensor next = tensor;
    for (DimRef &dim : next.dims)
      for (auto [from, to] : table)
        if (dim == from) {
          dim = to;
          break;
        }
    for (DimRef dim : next.dims)
      if (std::count(next.dims.begin(), next.dims.end(), dim) > 1)
        fail("Q026", "the result would have " + dim->shown + " twice: " + shownDims(tensor.dims) + " already has it",
             expr.at);
    tensor = renamed(tensor, table);
  }
  std::vector<Tensor> pieces = {tensor};
  for (const Arrow &arrow : rest) {
    std::vector<Tensor> next;
    for (Tensor &piece : pieces)
      for (Tensor &part : split(piece, arrow.from, *arrow.into, scope, expr.at))
        next.push_back(part);
    pieces = std::move(next);
  }
  if (pieces.size() == 1)
    return pieces[0];
  auto several = std::make_shared<Several>();
  several->values.assign(pieces.begin(), pieces.end());
  return std::shared_ptr<const Several>(several);
}

Tensor Elaborator::gather(const Tensor &value, const GatherItem &item, Scope &scope) {
  DimRef dim = labelNamed(item.name, item.at, scope);
  unscanned(dim, item.at);
  if (!value.has(dim))
    fail("Q021", "the value has no dimension " + dim->shown + "; it is " + shownDims(value.dims), item.at);
  apart(dim, item.at);
  Value index = single(eval(*item.index, scope), item.index->at);
  if (index.kind() != Kind::Int)
    fail("Q025", "positions along " + dim->shown + " must be integers, not " + describe(index), item.index->at);
  builder.place(item.at);
  DimRefs rest = replaced(value.dims, dim, {});
  if (auto position = index.as<int64_t>(); position && dim->size.isConstant()) {
    if (*position < 0 || *position >= *dim->size.constant())
      fail("Q028",
           "position " + std::to_string(*position) + " along " + dim->shown + ", whose size is " + dim->size.str(),
           item.at);
    DimRef one = fresh(dim->shown, 1);
    Handle cut = builder.cut(value.handle, dim, *position, one);
    return {rest, value.kind, builder.squeeze(cut, one)};
  }
  if (auto position = index.as<int64_t>(); position && *position < 0)
    fail("Q028", "position " + std::to_string(*position) + " along " + dim->shown + ": positions count from 0",
         item.at);
  Tensor positions = tensorOf(index);
  DimRefs dims; // positions stand where the dimension was: words[V = tokens] is [B, T, D]
  for (DimRef d : value.dims) {
    if (d == dim)
      dims.insert(dims.end(), positions.dims.begin(), positions.dims.end());
    else if (!positions.has(d))
      dims.push_back(d);
  }
  return {dims, value.kind, builder.gather(value.handle, positions.handle, dim)};
}

std::pair<Tensor, DimRef> Elaborator::range(const Tensor &value, const RangeItem &item, Scope &scope) {
  DimRef dim = labelNamed(item.name, item.at, scope);
  unscanned(dim, item.at);
  if (!value.has(dim))
    fail("Q021", "the value has no dimension " + dim->shown + "; it is " + shownDims(value.dims), item.at);
  apart(dim, item.at);
  auto end = [&](const Expr *expr, const ir::Size &missing) -> ir::Size {
    if (!expr)
      return missing;
    Value given = eval(*expr, scope);
    if (auto n = given.as<int64_t>())
      return *n;
    if (auto size = given.as<ir::Size>())
      return *size;
    fail("Q028", "the end of a range is a whole number, not " + describe(given), expr->at);
  };
  ir::Size first = end(item.first, 0), last = end(item.last, dim->size);
  ir::Size size = checkedSize(Op::Sub, last, first, item.at);
  auto outside = [](const ir::Size &difference) { return difference.isConstant() && *difference.constant() < 0; };
  if (outside(first) || outside(checkedSize(Op::Sub, dim->size, last, item.at)) ||
      (size.isConstant() && *size.constant() < 1))
    fail("Q028", dim->shown + ": " + first.str() + ".." + last.str() + " of a dimension of size " + dim->size.str(),
         item.at);
  DimRef part = fresh(dim->shown, size);
  builder.place(item.at);
  return {{replaced(value.dims, dim, {part}), value.kind, builder.cut(value.handle, dim, first, part)}, part};
}

// ---- types

/// `given`: the value before a call's dimensions were renamed, and `asked` what the caller wrote, for the message.
void Elaborator::fits(const Value &value, const TypeNode &type, Scope &scope, const std::string &what, Span at,
                      const Tensor *given, const std::map<std::string, std::string> *asked) {
  if (!value.kind())
    fail("Q025", what + " is " + describe(value) + "; a tensor is needed", at);
  DimRefs have = value.is<Tensor>() ? value.as<Tensor>()->dims : DimRefs(), want;
  Kind kind = *value.kind();
  for (const Expr *dim : type.dims)
    want.push_back(label(*dim, scope));
  std::string shown = shownDims(given ? given->dims : have);
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::find(have.begin(), have.end(), want[i]) != have.end())
      continue;
    std::string name = dimText(*type.dims[i]);
    if (asked && asked->count(name))
      name = asked->at(name);
    std::string hint;
    for (DimRef twin : given ? given->dims : have)
      if (!want[i]->size.isConstant() && twin->size == want[i]->size && hint.empty())
        hint = "; did you forget [" + twin->shown + " -> " + name + "]?";
    fail("Q021", what + " has no dimension " + name + "; it is " + shown + hint, at);
  }
  DimRefs extra;
  for (DimRef dim : have)
    if (std::find(want.begin(), want.end(), dim) == want.end())
      extra.push_back(dim);
  if (!extra.empty() && !type.rest)
    fail("Q021", what + " also has " + shownDims(extra) + "; " + shownDims(want) + " was declared", at);
  if (kind != type.kind && !(type.kind == Kind::Real && kind == Kind::Int))
    fail("Q025", what + " is " + kindName(kind) + "; " + kindName(type.kind) + " is needed", at);
}

} // namespace quern::frontend
