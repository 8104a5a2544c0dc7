// Takes: a value and the name of an attribute. Gives: the entry or method that Python has there, of those that change
// nothing.
#include "runtime/Error.h"
#include "runtime/template/Evaluator.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <algorithm>

namespace quern::runtime::jinja {

std::vector<std::string> charactersOf(const std::string &text) {
  std::vector<std::string> result;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    nextChar(text, at);
    result.push_back(text.substr(begin, at - begin));
  }
  return result;
}

std::string strip(const std::string &text, const std::string *chars, bool left, bool right) {
  std::vector<std::string> all = charactersOf(text);
  auto gone = [&](const std::string &one) {
    if (chars) {
      std::vector<std::string> set = charactersOf(*chars);
      return std::find(set.begin(), set.end(), one) != set.end();
    }
    size_t at = 0;
    char32_t c = nextChar(one, at);
    return isWhiteSpace(c) || (c >= 0x1c && c <= 0x1f);
  };
  size_t begin = 0, end = all.size();
  while (left && begin < end && gone(all[begin]))
    ++begin;
  while (right && end > begin && gone(all[end - 1]))
    --end;
  std::string result;
  for (size_t i = begin; i < end; ++i)
    result += all[i];
  return result;
}

List elementsOf(const Value &value) {
  if (value.list())
    return *value.list();
  List result;
  if (value.dict()) {
    for (const auto &[name, entry] : value.dict()->entries)
      result.push_back(name);
  } else if (value.string()) {
    for (std::string &one : charactersOf(*value.string()))
      result.push_back(std::move(one));
  } else if (!value.isUndefined()) {
    throw UserError(format("%s has no elements", value.kind()));
  }
  return result;
}

int64_t lengthOf(const Value &value) {
  if (value.list())
    return int64_t(value.list()->size());
  if (value.dict())
    return int64_t(value.dict()->entries.size());
  if (value.string())
    return int64_t(charactersOf(*value.string()).size());
  if (value.isUndefined())
    return 0;
  throw UserError(format("%s has no length", value.kind()));
}

bool contains(const Value &all, const Value &needle) {
  if (all.string()) {
    if (!needle.string())
      throw UserError(format("%s is looked for in a string", needle.kind()));
    return all.string()->find(*needle.string()) != std::string::npos;
  }
  if (all.dict())
    return needle.string() && all.dict()->find(*needle.string());
  if (!all.list() && !all.isUndefined())
    throw UserError(format("%s contains nothing", all.kind()));
  List list = elementsOf(all);
  return std::any_of(list.begin(), list.end(), [&](const Value &one) { return one.equals(needle); });
}

namespace {

const std::string &textAt(const Arguments &call, size_t place, const char *method) {
  const Value *value = call.find(place, "");
  if (!value || !value->string())
    throw UserError(format("%s needs a string", method));
  return *value->string();
}

/// At most `most` cuts, all if negative; without `mark` at white space.
List split(const std::string &text, const std::string *mark, int64_t most, bool fromRight) {
  List parts;
  if (mark && mark->empty())
    throw UserError("split needs a separator that is not empty");
  if (mark && fromRight) {
    std::string rest = text;
    for (size_t at; most-- != 0 && (at = rest.rfind(*mark)) != std::string::npos; rest.resize(at))
      parts.insert(parts.begin(), rest.substr(at + mark->size()));
    parts.insert(parts.begin(), rest);
    return parts;
  }
  size_t begin = 0;
  if (mark) {
    for (size_t at; most-- != 0 && (at = text.find(*mark, begin)) != std::string::npos; begin = at + mark->size())
      parts.push_back(text.substr(begin, at - begin));
    parts.push_back(text.substr(begin));
    return parts;
  }
  std::string rest = strip(text, nullptr, true, false);
  while (!rest.empty()) {
    if (most-- == 0) {
      parts.push_back(strip(rest, nullptr, false, true));
      break;
    }
    size_t end = 0;
    for (size_t at = 0; at < rest.size(); end = at) {
      size_t next = at;
      if (isWhiteSpace(nextChar(rest, next)))
        break;
      at = next;
    }
    parts.push_back(rest.substr(0, end));
    rest = strip(rest.substr(end), nullptr, true, false);
  }
  return parts;
}

bool matches(const std::string &text, const Value &affix, bool start) {
  if (affix.list())
    return std::any_of(affix.list()->begin(), affix.list()->end(),
                       [&](const Value &one) { return matches(text, one, start); });
  if (!affix.string())
    throw UserError(start ? "startswith needs a string" : "endswith needs a string");
  return start ? text.starts_with(*affix.string()) : text.ends_with(*affix.string());
}

Value callText(const std::string &name, const std::string &text, const Arguments &call, Budget &budget) {
  budget.spend(text.size() / 4);
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const Value *chars = call.find(0, "chars");
    return strip(text, chars && chars->string() ? chars->string() : nullptr, name != "rstrip", name != "lstrip");
  }
  if (name == "split" || name == "rsplit") {
    const Value *mark = call.find(0, "sep"), *most = call.find(1, "maxsplit");
    return split(text, mark ? mark->string() : nullptr, most && most->integer() ? *most->integer() : -1,
                 name == "rsplit");
  }
  if (name == "startswith" || name == "endswith") {
    const Value *affix = call.find(0, "");
    return matches(text, affix ? *affix : Value(), name == "startswith");
  }
  if (name == "replace")
    return applyFilter("replace",
                       {{text, textAt(call, 0, "replace"), textAt(call, 1, "replace"),
                         call.find(2, "count") ? *call.find(2, "count") : Value(int64_t(-1))},
                        {}},
                       budget);
  if (name == "removeprefix" || name == "removesuffix") {
    const std::string &affix = textAt(call, 0, name.c_str());
    if (name == "removeprefix")
      return text.starts_with(affix) ? text.substr(affix.size()) : text;
    return text.ends_with(affix) ? text.substr(0, text.size() - affix.size()) : text;
  }
  if (name == "find") {
    size_t at = text.find(textAt(call, 0, "find"));
    return at == std::string::npos ? int64_t(-1) : int64_t(charactersOf(text.substr(0, at)).size());
  }
  if (name == "count") {
    const std::string &part = textAt(call, 0, "count");
    int64_t count = 0;
    for (size_t at = 0; !part.empty() && (at = text.find(part, at)) != std::string::npos; at += part.size())
      ++count;
    return count;
  }
  if (name == "join") {
    const Value *list = call.find(0, "");
    return applyFilter("join", {{list ? *list : Value(), text}, {}}, budget);
  }
  if (name == "isdigit" || name == "isspace")
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
      return name == "isdigit" ? c >= '0' && c <= '9' : c == ' ' || (c >= '\t' && c <= '\r');
    });
  if (name == "splitlines") {
    List lines = split(text, &static_cast<const std::string &>(std::string("\n")), -1, false);
    if (lines.back().string()->empty())
      lines.pop_back();
    return lines;
  }
  return applyFilter(name, {{text}, {}}, budget); // upper, lower, title, capitalize
}

constexpr std::string_view textMethods[] = {"strip", "lstrip",     "rstrip",       "split",        "rsplit",
                                            "find",  "startswith", "endswith",     "replace",      "upper",
                                            "lower", "title",      "removeprefix", "removesuffix", "capitalize",
                                            "count", "join",       "isdigit",      "isspace",      "splitlines"};

Value callDict(const std::string &name, const Dict &dict, const Arguments &call) {
  if (name == "get") {
    const Value *key = call.find(0, "key"), *fallback = call.find(1, "default");
    const Value *found = key && key->string() ? dict.find(*key->string()) : nullptr;
    return found ? *found : fallback ? *fallback : Value(nullptr);
  }
  List result;
  for (const auto &[key, value] : dict.entries)
    result.push_back(name == "keys" ? Value(key) : name == "values" ? value : Value(List{key, value}));
  return result;
}

Value missing(const Value &value, const std::string &name) {
  if (value.isUndefined())
    throw UserError(quote(value.undefinedName()) + " is not known here, so it has no " + quote(name));
  return Undefined{name};
}

} // namespace

Value attributeOf(const Value &value, const std::string &name, Budget &budget) {
  if (value.string() && std::find(std::begin(textMethods), std::end(textMethods), name) != std::end(textMethods))
    return Callable(
        [value, name, &budget](const Arguments &call) { return callText(name, *value.string(), call, budget); });
  if (const Dict *dict = value.dict()) {
    if (!dict->assignable && (name == "items" || name == "keys" || name == "values" || name == "get"))
      return Callable([value, name](const Arguments &call) { return callDict(name, *value.dict(), call); });
    if (const Value *found = dict->find(name))
      return *found;
  }
  return missing(value, name);
}

Value itemOf(const Value &value, const Value &key) {
  if (key.string() && value.dict()) {
    const Value *found = value.dict()->find(*key.string());
    return found ? *found : missing(value, *key.string());
  }
  if (key.integer() && (value.list() || value.string())) {
    List all = value.list() ? List() : elementsOf(value);
    const List &list = value.list() ? *value.list() : all;
    int64_t at = *key.integer() < 0 ? *key.integer() + int64_t(list.size()) : *key.integer();
    return at >= 0 && at < int64_t(list.size()) ? list[size_t(at)] : missing(value, key.text());
  }
  return missing(value, key.text());
}

} // namespace quern::runtime::jinja
