// Takes: values. Gives: their texts, kinds and comparisons.
#include "frontend/check/Value.h"

#include "ir/Union.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

namespace quern::frontend {

bool Tensor::has(DimRef dim) const {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

const Value *Object::find(const std::string &name) const {
  for (const auto &[key, value] : fields)
    if (key == name)
      return &value;
  return nullptr;
}

Value Value::ofSize(const ir::Size &size) {
  if (auto constant = size.constant())
    return *constant;
  return size;
}

const Several *Value::several() const {
  auto held = as<std::shared_ptr<const Several>>();
  return held ? held->get() : nullptr;
}

std::optional<Kind> Value::kind() const {
  if (auto tensor = as<Tensor>())
    return tensor->kind;
  if (is<bool>())
    return Kind::Bool;
  if (is<int64_t>() || is<ir::Size>())
    return Kind::Int;
  if (is<double>())
    return Kind::Real;
  return std::nullopt;
}

std::string realText(double value) {
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".en") == std::string::npos)
    text += ".0";
  return text;
}

static void describeInto(const Value &value, std::string &out) {
  constexpr size_t longest = 80;
  if (out.size() > longest)
    return;
  if (auto truth = value.as<bool>())
    out += *truth ? "true" : "false";
  else if (auto n = value.as<int64_t>())
    out += std::to_string(*n);
  else if (auto x = value.as<double>())
    out += realText(*x);
  else if (auto text = value.as<std::string>())
    out += "\"" + (text->size() > longest ? text->substr(0, longest) + "..." : *text) + "\"";
  else if (auto size = value.as<ir::Size>())
    out += size->str();
  else if (auto tensor = value.as<Tensor>())
    out += std::string(kindName(tensor->kind)) + " " + shownDims(tensor->dims);
  else if (value.several())
    out += std::to_string(value.several()->values.size()) + " values";
  else if (auto list = value.as<ListRef>()) {
    out += "[";
    for (size_t i = 0; i < (*list)->size() && out.size() <= longest; ++i) {
      out += i ? ", " : "";
      describeInto((**list)[i], out);
    }
    out += out.size() > longest ? " ...]" : "]";
  } else if (auto object = value.as<ObjectRef>()) {
    out += "{";
    for (size_t i = 0; i < (*object)->fields.size() && out.size() <= longest; ++i) {
      out += (i ? ", " : "") + (*object)->fields[i].first + ": ";
      describeInto((*object)->fields[i].second, out);
    }
    out += out.size() > longest ? " ...}" : "}";
  } else
    out += "null";
}

std::string describe(const Value &value) {
  std::string out;
  describeInto(value, out);
  return out;
}

std::string shownDims(const DimRefs &dims) {
  std::string text = "[";
  for (DimRef dim : dims)
    text += (text.size() > 1 ? ", " : "") + dim->shown;
  return text + "]";
}

DimRefs unite(const std::vector<DimRefs> &operands) {
  return ir::uniteDims<DimRef>(operands, std::equal_to<>());
}

std::optional<std::string> interpolated(const Value &value) {
  if (auto text = value.as<std::string>())
    return *text;
  if (value.is<bool>() || value.isStaticNumber())
    return describe(value);
  return std::nullopt;
}

bool sameSort(const Value &a, const Value &b) {
  return (a.isStaticNumber() && b.isStaticNumber()) || a.data.index() == b.data.index();
}

bool equalStatic(const Value &a, const Value &b, size_t &budget) {
  if (budget-- == 0 || !sameSort(a, b)) {
    budget += budget == SIZE_MAX;
    return false;
  }
  if (a.is<int64_t>() && b.is<int64_t>())
    return *a.as<int64_t>() == *b.as<int64_t>();
  if (a.isStaticNumber())
    return a.number() == b.number();
  if (a.is<bool>())
    return *a.as<bool>() == *b.as<bool>();
  if (a.is<std::string>())
    return *a.as<std::string>() == *b.as<std::string>();
  if (a.isNull())
    return true;
  if (auto list = a.as<ListRef>()) {
    auto &other = *b.as<ListRef>();
    return *list == other || std::equal((*list)->begin(), (*list)->end(), other->begin(), other->end(),
                                        [&](const Value &x, const Value &y) { return equalStatic(x, y, budget); });
  }
  if (auto object = a.as<ObjectRef>()) {
    auto &x = (*object)->fields, &y = (*b.as<ObjectRef>())->fields;
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](const auto &left, const auto &right) {
      return left.first == right.first && equalStatic(left.second, right.second, budget);
    });
  }
  return false;
}

} // namespace quern::frontend
