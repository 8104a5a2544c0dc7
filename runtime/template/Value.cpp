// Takes: values. Gives: their truth, order and text, as Python has them.
#include "runtime/template/Value.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace quern::runtime::jinja {

constexpr int deepest = 64; // of lists in lists, as printed and compared

const Value *Dict::find(std::string_view key) const {
  for (const auto &[name, value] : entries)
    if (name == key)
      return &value;
  return nullptr;
}

void Dict::set(std::string_view key, Value value) {
  for (auto &[name, old] : entries)
    if (name == key) {
      old = std::move(value);
      return;
    }
  entries.emplace_back(key, std::move(value));
}

const Value *Arguments::find(size_t place, std::string_view name) const {
  if (place < positional.size())
    return &positional[place];
  for (const auto &[given, value] : named)
    if (given == name)
      return &value;
  return nullptr;
}

Value Value::fromJson(const nlohmann::json &json) {
  switch (json.type()) {
  case nlohmann::json::value_t::boolean:
    return json.get<bool>();
  case nlohmann::json::value_t::number_integer:
  case nlohmann::json::value_t::number_unsigned:
    return json.get<int64_t>();
  case nlohmann::json::value_t::number_float:
    return json.get<double>();
  case nlohmann::json::value_t::string:
    return json.get<std::string>();
  case nlohmann::json::value_t::array: {
    List list;
    for (const nlohmann::json &one : json)
      list.push_back(fromJson(one));
    return list;
  }
  case nlohmann::json::value_t::object: {
    Dict dict;
    for (const auto &[name, one] : json.items())
      dict.entries.emplace_back(name, fromJson(one));
    return dict;
  }
  default:
    return nullptr;
  }
}

double Value::number() const {
  return real() ? *real() : double(whole());
}

bool Value::truth() const {
  if (isUndefined() || isNone())
    return false;
  if (isNumber())
    return number() != 0;
  if (string())
    return !string()->empty();
  if (list())
    return !list()->empty();
  return !dict() || !dict()->entries.empty();
}

const char *Value::kind() const {
  return isUndefined() ? "undefined"
         : isNone()    ? "none"
         : boolean()   ? "a boolean"
         : integer()   ? "an integer"
         : real()      ? "a float"
         : string()    ? "a string"
         : list()      ? "a list"
         : dict()      ? "a mapping"
                       : "a function";
}

/// The shortest digits that give the number back, as repr() writes them.
static std::string realText(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  // The fewest digits that give the number back. (std::to_chars brings 150 KB of tables into every program.)
  double size = std::fabs(value);
  bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
  std::string digits;
  for (int count = 0; count < 17; ++count)
    if (digits = format("%.*e", count, value); std::strtod(digits.c_str(), nullptr) == value)
      break;
  size_t mark = digits.find('e');
  int exponent = std::atoi(digits.c_str() + mark + 1), fraction = int(mark) - 1 - (value < 0 || std::signbit(value));
  fraction = std::max(0, fraction - 1) - exponent; // digits behind the point
  if (plain)
    return format("%.*f", std::max(1, fraction), value);
  return digits;
}

static void writeQuoted(std::string &out, const std::string &text) {
  char mark = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  out += mark;
  for (char c : text) {
    if (c == mark || c == '\\')
      out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if ((unsigned char)(c) < 32 || c == 127)
      out += format("\\x%02x", (unsigned char)(c));
    else
      out += c;
  }
  out += mark;
}

void Value::write(std::string &out, bool repr, int depth) const {
  if (depth > deepest)
    throw UserError("lists are nested too deeply");
  if (isNone()) {
    out += "None";
  } else if (boolean()) {
    out += *boolean() ? "True" : "False";
  } else if (integer()) {
    out += std::to_string(*integer());
  } else if (real()) {
    out += realText(*real());
  } else if (string()) {
    if (repr)
      writeQuoted(out, *string());
    else
      out += *string();
  } else if (list()) {
    out += '[';
    for (size_t i = 0; i < list()->size(); ++i) {
      out += i ? ", " : "";
      (*list())[i].write(out, true, depth + 1);
    }
    out += ']';
  } else if (dict()) {
    out += '{';
    for (size_t i = 0; i < dict()->entries.size(); ++i) {
      out += i ? ", " : "";
      writeQuoted(out, dict()->entries[i].first);
      out += ": ";
      dict()->entries[i].second.write(out, true, depth + 1);
    }
    out += '}';
  } else if (isUndefined()) {
    out += repr ? "Undefined" : "";
  } else {
    out += "<function>";
  }
}

std::string Value::text(bool repr) const {
  std::string out;
  write(out, repr, 0);
  return out;
}

static bool equal(const Value &a, const Value &b, int depth) {
  if (depth > deepest)
    throw UserError("lists are nested too deeply");
  if (a.isNumber() && b.isNumber())
    return a.real() || b.real() ? a.number() == b.number() : a.whole() == b.whole();
  if (a.string() && b.string())
    return *a.string() == *b.string();
  if (a.list() && b.list()) {
    if (a.list()->size() != b.list()->size())
      return false;
    for (size_t i = 0; i < a.list()->size(); ++i)
      if (!equal((*a.list())[i], (*b.list())[i], depth + 1))
        return false;
    return true;
  }
  if (a.dict() && b.dict()) {
    if (a.dict()->entries.size() != b.dict()->entries.size())
      return false;
    for (const auto &[name, value] : a.dict()->entries)
      if (const Value *other = b.dict()->find(name); !other || !equal(value, *other, depth + 1))
        return false;
    return true;
  }
  return (a.isNone() && b.isNone()) || (a.isUndefined() && b.isUndefined());
}

bool Value::equals(const Value &other) const {
  return equal(*this, other, 0);
}

bool Value::same(const Value &other) const {
  if (list() || dict() || callable())
    return (list() && list() == other.list()) || (dict() && dict() == other.dict()) ||
           (callable() && callable() == other.callable());
  return what.index() == other.what.index() && equals(other);
}

int compare(const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber())
    return a.number() < b.number() ? -1 : a.number() > b.number();
  if (a.string() && b.string()) // UTF-8 keeps the order of characters
    return a.string()->compare(*b.string()) < 0 ? -1 : *a.string() != *b.string();
  if (a.list() && b.list()) {
    for (size_t i = 0; i < std::min(a.list()->size(), b.list()->size()); ++i)
      if (!(*a.list())[i].equals((*b.list())[i]))
        return compare((*a.list())[i], (*b.list())[i]);
    return a.list()->size() < b.list()->size() ? -1 : a.list()->size() > b.list()->size();
  }
  throw UserError(format("%s and %s have no order", a.kind(), b.kind()));
}

static void writeJsonString(std::string &out, const std::string &text) {
  out += '"';
  for (char c : text)
    switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    default:
      if ((unsigned char)(c) < 32)
        out += format("\\u%04x", (unsigned char)(c));
      else
        out += c;
    }
  out += '"';
}

static void writeJson(std::string &out, const Value &value, int indent, int depth) {
  if (depth > deepest)
    throw UserError("lists are nested too deeply");
  auto line = [&](int level) {
    if (indent >= 0)
      out += "\n" + std::string(size_t(indent * level), ' ');
  };
  const char *between = indent >= 0 ? "," : ", ";
  if (value.string()) {
    writeJsonString(out, *value.string());
  } else if (value.boolean()) {
    out += *value.boolean() ? "true" : "false";
  } else if (value.isNone()) {
    out += "null";
  } else if (value.real() && !std::isfinite(*value.real())) {
    out += std::isnan(*value.real()) ? "NaN" : *value.real() > 0 ? "Infinity" : "-Infinity";
  } else if (value.isNumber()) {
    out += value.text();
  } else if (value.list()) {
    out += '[';
    for (size_t i = 0; i < value.list()->size(); ++i) {
      out += i ? between : "";
      line(depth + 1);
      writeJson(out, (*value.list())[i], indent, depth + 1);
    }
    if (!value.list()->empty())
      line(depth);
    out += ']';
  } else if (value.dict()) {
    out += '{';
    for (size_t i = 0; i < value.dict()->entries.size(); ++i) {
      out += i ? between : "";
      line(depth + 1);
      writeJsonString(out, value.dict()->entries[i].first);
      out += ": ";
      writeJson(out, value.dict()->entries[i].second, indent, depth + 1);
    }
    if (!value.dict()->entries.empty())
      line(depth);
    out += '}';
  } else {
    throw UserError(format("tojson cannot write %s", value.kind()));
  }
}

std::string toJson(const Value &value, int indent) {
  std::string out;
  writeJson(out, value, indent, 0);
  return out;
}

} // namespace quern::runtime::jinja
