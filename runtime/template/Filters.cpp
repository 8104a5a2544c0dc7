// Takes: a filter's or test's name and its values. Gives: what Jinja's built-in one of that name does.
#include "runtime/Error.h"
#include "runtime/template/Evaluator.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace quern::runtime::jinja {

namespace {

/// Upper and lower case of ASCII letters alone: chat templates change the case of roles, not of what people write.
char cased(char c, bool upper) {
  if (upper)
    return c >= 'a' && c <= 'z' ? char(c - 32) : c;
  return c >= 'A' && c <= 'Z' ? char(c + 32) : c;
}

std::string cased(std::string text, bool upper) {
  for (char &c : text)
    c = cased(c, upper);
  return text;
}

/// Each word begins with a capital, or only the first.
std::string capitals(std::string text, bool everyWord) {
  bool start = true;
  for (char &c : text) {
    c = cased(c, start);
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)(c) >= 0x80;
    start = everyWord && !letter && c != '\'' && !(c >= '0' && c <= '9');
  }
  return text;
}

const std::string &textOf(const Value &value, const std::string &filter) {
  if (!value.string())
    throw UserError(format("%s needs a string, not %s", filter.c_str(), value.kind()));
  return *value.string();
}

int64_t integerOf(const Value *value, int64_t fallback) {
  return value && value->isNumber() ? int64_t(value->number()) : fallback;
}

/// `a.b.0` of a value.
Value path(Value value, const std::string &name, Budget &budget) {
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('.', begin), name.size());
    std::string part = name.substr(begin, end - begin);
    int64_t index = 0;
    auto read = std::from_chars(part.data(), part.data() + part.size(), index);
    bool number = !part.empty() && read.ec == std::errc() && read.ptr == part.data() + part.size();
    value = number ? itemOf(value, index) : value.dict() ? itemOf(value, part) : attributeOf(value, part, budget);
    begin = end + 1;
  }
  return value;
}

/// map, select, reject, selectattr, rejectattr.
Value overElements(const std::string &name, const Arguments &call, Budget &budget) {
  List result;
  bool attribute = name.ends_with("attr");
  for (const Value &element : elementsOf(call.positional[0])) {
    budget.spend(1);
    if (name == "map") {
      if (const Value *which = call.find(SIZE_MAX, "attribute")) {
        Value found = path(element, which->text(), budget);
        const Value *fallback = call.find(SIZE_MAX, "default");
        result.push_back(found.isUndefined() && fallback ? *fallback : found);
        continue;
      }
      if (call.positional.size() < 2)
        throw UserError("map needs a filter or an attribute");
      Arguments inner{{element}, call.named};
      inner.positional.insert(inner.positional.end(), call.positional.begin() + 2, call.positional.end());
      result.push_back(applyFilter(textOf(call.positional[1], name), inner, budget));
      continue;
    }
    size_t next = attribute ? 2 : 1; // place of the test's name
    if (attribute && call.positional.size() < 2)
      throw UserError(name + " needs an attribute");
    Value tested = attribute ? path(element, call.positional[1].text(), budget) : element;
    bool holds = tested.truth();
    if (call.positional.size() > next) {
      Arguments inner{{tested}, {}};
      inner.positional.insert(inner.positional.end(), call.positional.begin() + std::ptrdiff_t(next) + 1,
                              call.positional.end());
      holds = applyTest(textOf(call.positional[next], name), inner);
    }
    if (holds == name.starts_with("select"))
      result.push_back(element);
  }
  return result;
}

Value sums(const std::string &name, const Value &value) {
  List list = elementsOf(value);
  if (name == "sum") {
    double total = 0;
    bool whole = true;
    for (const Value &one : list) {
      if (!one.isNumber())
        throw UserError(format("sum needs numbers, not %s", one.kind()));
      whole = whole && !one.real();
      total += one.number();
    }
    return whole ? Value(int64_t(total)) : Value(total);
  }
  if (list.empty())
    return Undefined{name};
  return *std::max_element(list.begin(), list.end(), [&](const Value &a, const Value &b) {
    return name == "max" ? compare(a, b) < 0 : compare(a, b) > 0;
  });
}

Value toNumber(const std::string &name, const Value &value, const Value *fallback) {
  double number = 0;
  if (value.isNumber()) {
    number = value.number();
  } else if (value.string()) {
    std::string text = strip(*value.string(), nullptr, true, true);
    char *end = nullptr;
    number = std::strtod(text.c_str(), &end);
    if (text.empty() || end != text.c_str() + text.size())
      return fallback ? *fallback : name == "int" ? Value(int64_t(0)) : Value(0.0);
  } else {
    return fallback ? *fallback : name == "int" ? Value(int64_t(0)) : Value(0.0);
  }
  if (name == "float")
    return number;
  if (!(std::fabs(number) < 9e18))
    throw UserError("a number is too large");
  return value.integer() ? value : Value(int64_t(number));
}

std::string indented(const std::string &text, const Arguments &call) {
  const Value *width = call.find(1, "width"), *first = call.find(2, "first"), *blank = call.find(3, "blank");
  std::string space = width && width->string()
                          ? *width->string()
                          : std::string(size_t(std::clamp<int64_t>(integerOf(width, 4), 0, 1000)), ' ');
  std::string result = first && first->truth() ? space : "";
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == '\n' && i + 1 < text.size() && (text[i + 1] != '\n' || (blank && blank->truth())))
      result += space;
  }
  return result;
}

/// As far as `most` occurrences; an empty `from` stands between all characters.
std::string replaced(const std::string &text, const std::string &from, const std::string &to, int64_t most) {
  std::string result;
  size_t begin = 0;
  if (from.empty()) {
    for (const std::string &one : charactersOf(text))
      result += (most-- != 0 ? to : (most = 0, "")) + one;
    return most != 0 ? result + to : result;
  }
  for (size_t at; most-- != 0 && (at = text.find(from, begin)) != std::string::npos; begin = at + from.size())
    result += text.substr(begin, at - begin) + to;
  return result + text.substr(begin);
}

Value listFilter(const std::string &name, const Arguments &call, Budget &budget) {
  const Value &value = call.positional[0];
  if (name == "first" || name == "last") {
    List list = elementsOf(value);
    return list.empty() ? Value(Undefined{name}) : name == "first" ? list.front() : list.back();
  }
  if (name == "list")
    return elementsOf(value);
  if (name == "reverse") {
    List list = elementsOf(value);
    std::reverse(list.begin(), list.end());
    if (!value.string())
      return list;
    std::string text;
    for (const Value &one : list)
      text += *one.string();
    return text;
  }
  if (name == "join") {
    const Value *between = call.find(1, "d"), *attribute = call.find(2, "attribute");
    std::string text;
    bool first = true;
    for (const Value &one : elementsOf(value)) {
      text += first ? "" : between ? between->text() : "";
      text += (attribute ? path(one, attribute->text(), budget) : one).text();
      budget.spend(1 + text.size() / 1024);
      first = false;
    }
    return text;
  }
  if (name == "unique") {
    List kept;
    for (const Value &one : elementsOf(value)) {
      budget.spend(kept.size());
      if (std::none_of(kept.begin(), kept.end(), [&](const Value &other) { return other.equals(one); }))
        kept.push_back(one);
    }
    return kept;
  }
  const Value *reverse = call.find(1, "reverse"), *sensitive = call.find(2, "case_sensitive");
  if (name == "sort" && !call.find(3, "attribute"))
    return sorted(elementsOf(value), reverse && reverse->truth(), sensitive && sensitive->truth());
  if (name == "items" || name == "dictsort") {
    if (value.isUndefined() && name == "items")
      return List();
    if (!value.dict())
      throw UserError(format("%s needs a mapping, not %s", name.c_str(), value.kind()));
    List result;
    for (const auto &[key, entry] : value.dict()->entries)
      result.push_back(List{key, entry});
    return name == "items" ? Value(result) : Value(sorted(result, false, false));
  }
  throw UserError("the filter " + quote(name) + (name == "sort" ? " by an attribute" : "") + " is not known here");
}

} // namespace

List sorted(List list, bool reverse, bool caseSensitive) {
  auto key = [&](const Value &value) {
    const Value &shown = value.list() && !value.list()->empty() ? value.list()->front() : value;
    return caseSensitive || !shown.string() ? shown : Value(cased(*shown.string(), false));
  };
  std::stable_sort(list.begin(), list.end(), [&](const Value &a, const Value &b) {
    return reverse ? compare(key(b), key(a)) < 0 : compare(key(a), key(b)) < 0;
  });
  return list;
}

Value applyFilter(const std::string &name, const Arguments &call, Budget &budget) {
  const Value &value = call.positional[0];
  budget.spend(1 + (value.string() ? value.string()->size() / 4 : value.list() ? value.list()->size() : 0));
  if (name == "default" || name == "d") {
    const Value *fallback = call.find(1, "default_value"), *empty = call.find(2, "boolean");
    bool missing = value.isUndefined() || (empty && empty->truth() && !value.truth());
    return missing ? (fallback ? *fallback : Value("")) : value;
  }
  if (name == "length" || name == "count")
    return lengthOf(value);
  if (name == "string")
    return value.text();
  if (name == "trim") {
    const Value *chars = call.find(1, "chars");
    return strip(value.text(), chars && chars->string() ? chars->string() : nullptr, true, true);
  }
  if (name == "upper" || name == "lower")
    return cased(value.text(), name == "upper");
  if (name == "title" || name == "capitalize")
    return capitals(value.text(), name == "title");
  if (name == "replace") {
    const Value *from = call.find(1, "old"), *to = call.find(2, "new");
    if (!from || !to)
      throw UserError("replace needs two strings");
    int64_t most = integerOf(call.find(3, "count"), -1);
    std::string text = value.text();
    budget.spend((from->text().empty() ? text.size() + 1 : text.size() / from->text().size()) *
                 (to->text().size() / 16 + 1));
    return replaced(text, from->text(), to->text(), most);
  }
  if (name == "tojson") {
    std::string text = toJson(value, int(std::clamp<int64_t>(integerOf(call.find(1, "indent"), -1), -1, 100)));
    budget.spend(text.size() / 16);
    return text;
  }
  if (name == "indent")
    return indented(value.text(), call);
  if (name == "int" || name == "float")
    return toNumber(name, value, call.find(1, "default"));
  if (name == "abs" || name == "round") {
    if (!value.isNumber())
      throw UserError(format("%s needs a number, not %s", name.c_str(), value.kind()));
    if (name == "abs")
      return value.real() ? Value(std::fabs(*value.real())) : Value(std::abs(value.whole()));
    double scale = std::pow(10.0, double(integerOf(call.find(1, "precision"), 0)));
    return std::nearbyint(value.number() * scale) / scale;
  }
  if (name == "sum" || name == "min" || name == "max")
    return sums(name, value);
  if (name == "map" || name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
    return overElements(name, call, budget);
  if (name == "safe" || name == "e" || name == "escape") // nothing is escaped: the text is for a model
    return value;
  return listFilter(name, call, budget);
}

bool applyTest(const std::string &name, const Arguments &call) {
  const Value &value = call.positional[0];
  const Value *other = call.find(1, "");
  if (name == "defined" || name == "undefined")
    return value.isUndefined() == (name == "undefined");
  if (name == "none")
    return value.isNone();
  if (name == "string")
    return value.string();
  if (name == "boolean")
    return value.boolean();
  if (name == "number")
    return value.isNumber();
  if (name == "integer")
    return value.integer();
  if (name == "float")
    return value.real();
  if (name == "mapping")
    return value.dict();
  if (name == "sequence" || name == "iterable")
    return value.list() || value.string() || value.dict();
  if (name == "callable")
    return value.callable();
  if (name == "true" || name == "false")
    return value.boolean() && *value.boolean() == (name == "true");
  if (name == "upper" || name == "lower")
    return cased(value.text(), name == "upper") == value.text();
  if (name == "odd" || name == "even") {
    if (!value.integer())
      throw UserError(format("%s needs an integer, not %s", name.c_str(), value.kind()));
    return (*value.integer() % 2 != 0) == (name == "odd");
  }
  if (!other)
    throw UserError("the test " + quote(name) + " is not known here, or lacks a value");
  if (name == "divisibleby") {
    if (!value.integer() || !other->integer() || *other->integer() == 0)
      throw UserError("divisibleby needs integers");
    return *other->integer() == -1 || *value.integer() % *other->integer() == 0;
  }
  if (name == "equalto" || name == "eq" || name == "ne")
    return value.equals(*other) == (name != "ne");
  if (name == "sameas")
    return value.same(*other);
  if (name == "in")
    return contains(*other, value);
  int order =
      name == "lt" || name == "lessthan" || name == "le" || name == "gt" || name == "greaterthan" || name == "ge"
          ? compare(value, *other)
          : throw UserError("the test " + quote(name) + " is not known here");
  return name[0] == 'l' ? order < 0 || (name == "le" && order == 0) : order > 0 || (name == "ge" && order == 0);
}

} // namespace quern::runtime::jinja
