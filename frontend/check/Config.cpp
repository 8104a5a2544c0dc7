// Takes: the text of a config.json and settings of the command line. Gives: values by spelling, warnings of the unread.
// Why a tree of our own and not nlohmann's: objects must remember what was read of them, and keep the file's order.
#include "frontend/check/Config.h"
#include "frontend/check/TextPart.h"
#include "frontend/syntax/Lexer.h"
#include "support/Glob.h"
#include "support/Json.h"

#include <algorithm>
#include <cmath>

namespace quern::frontend {

using Json = nlohmann::ordered_json;

static constexpr int deepest = 64; // objects in objects; real files have three

// JSON has no infinity. transformers 5 writes {"__float__": "Infinity"}, older files a bare Infinity.
static constexpr std::string_view floatKey = "__float__", infinity = "Infinity";

static std::optional<double> spelledFloat(const Json &object) {
  if (object.size() != 1 || object.begin().key() != floatKey || !object.begin()->is_string())
    return std::nullopt;
  std::string text = object.begin()->get<std::string>();
  bool minus = text.starts_with("-");
  if (text.substr(minus) != infinity)
    return std::nullopt;
  return minus ? -HUGE_VAL : HUGE_VAL;
}

/// The text with each bare Infinity in the form of an object, and where in it they stood.
static std::string withoutBareInfinity(const std::string &text, std::vector<std::pair<size_t, size_t>> &longer) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < text.size();) {
    bool minus = text[i] == '-';
    if (!quoted && text.compare(i + minus, infinity.size(), infinity) == 0) {
      std::string object = "{\"" + std::string(floatKey) + "\":\"" + text.substr(i, infinity.size() + minus) + "\"}";
      out += object;
      i += infinity.size() + minus;
      longer.emplace_back(out.size(), object.size() - infinity.size() - minus);
      continue;
    }
    if (quoted && text[i] == '\\' && i + 1 < text.size())
      out += text[i++];
    else if (text[i] == '"')
      quoted = !quoted;
    out += text[i++];
  }
  return out;
}

static std::optional<Value> fromJson(const Json &json, const std::string &where, int depth = 0) {
  if (depth > deepest)
    return std::nullopt;
  switch (json.type()) {
  case Json::value_t::boolean:
    return Value(json.get<bool>());
  case Json::value_t::number_integer:
    return Value(json.get<int64_t>());
  case Json::value_t::number_unsigned:
    if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      return Value(static_cast<double>(json.get<uint64_t>()));
    return Value(static_cast<int64_t>(json.get<uint64_t>()));
  case Json::value_t::number_float:
    return Value(json.get<double>());
  case Json::value_t::string:
    return Value(json.get<std::string>());
  case Json::value_t::array: {
    auto list = std::make_shared<std::vector<Value>>();
    for (const Json &element : json) {
      auto value = fromJson(element, where, depth + 1);
      if (!value)
        return std::nullopt;
      list->push_back(std::move(*value));
    }
    return Value(ListRef(std::move(list)));
  }
  case Json::value_t::object: {
    if (std::optional<double> number = spelledFloat(json))
      return Value(*number);
    auto object = std::make_shared<Object>();
    object->where = where;
    for (const auto &[key, element] : json.items()) {
      auto value = fromJson(element, where.empty() ? key : where + "." + key, depth + 1);
      if (!value)
        return std::nullopt;
      object->fields.emplace_back(key, std::move(*value));
    }
    return Value(ObjectRef(std::move(object)));
  }
  default:
    return Value();
  }
}

static Json toJsonTree(const Value &value) {
  if (auto truth = value.as<bool>())
    return *truth;
  if (auto n = value.as<int64_t>())
    return *n;
  if (auto x = value.as<double>())
    return std::isfinite(*x) ? Json(*x) : Json(realText(*x));
  if (auto text = value.as<std::string>())
    return *text;
  if (auto list = value.as<ListRef>()) {
    Json array = Json::array();
    for (const Value &element : **list)
      array.push_back(toJsonTree(element));
    return array;
  }
  if (auto object = value.as<ObjectRef>()) {
    Json out = Json::object();
    for (const auto &[key, element] : (*object)->fields)
      out[key] = toJsonTree(element);
    return out;
  }
  return nullptr;
}

std::string toJson(const Value &value) {
  return toJsonTree(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

ConfigFile ConfigFile::parse(std::shared_ptr<const Source> source, Diagnostics &diagnostics) {
  ConfigFile file;
  file.source = source;
  diagnostics.keep(source);
  auto refuse = [&](const std::string &message, size_t at) {
    uint32_t begin = std::min(at, source->getText().size());
    diagnostics.error("Q041", message, {source.get(), begin, begin + 1});
    return file;
  };
  std::vector<std::pair<size_t, size_t>> longer;
  auto offset = [&](size_t at) { // in the file, not in the text that was parsed
    size_t before = 0;
    for (auto [where, more] : longer)
      before += where <= at ? more : 0;
    return at - before;
  };
  if (source->getText().size() > maxFileBytes)
    return refuse("a config file of more than 16 MB", 0);
  Json json;
  try {
    json = support::parseJson<Json>(withoutBareInfinity(std::string(source->getText()), longer), source->getName(),
                                    /*comments=*/false, deepest);
  } catch (const support::JsonError &error) {
    return refuse("this is not JSON: " + error.why, offset(error.at));
  }
  if (!json.is_object())
    return refuse("a config file holds one object, { ... }", 0);
  auto value = fromJson(json, "");
  if (!value)
    return refuse("more than 64 levels of nesting", 0);
  file.root = *value->as<ObjectRef>();
  return file;
}

void ConfigFile::takeTextPart() {
  std::optional<Json> text = root ? textPartOf(toJsonTree(Value(root))) : std::nullopt;
  std::optional<Value> value = text ? fromJson(*text, "") : std::nullopt;
  if (!value)
    return;
  root = *value->as<ObjectRef>();
  part = textPart;
  changed = true;
}

void ConfigFile::apply(const std::vector<Setting> &list, const std::vector<const ConfigField *> &fields,
                       const std::vector<std::string> &ignores, Diagnostics &diagnostics) {
  if (list.empty())
    return;
  Json tree = root ? toJsonTree(Value(root)) : Json::object();
  for (const Setting &setting : list) {
    Json json = Json::parse(setting.value, nullptr, false);
    if (json.is_discarded())
      json = setting.value; // a bare word is a string
    auto value = fromJson(json, setting.name);
    std::vector<std::string> known;
    const ConfigField *field = nullptr;
    bool spelled = false;
    std::string top = setting.name.substr(0, setting.name.find('.'));
    for (const ConfigField *candidate : fields) {
      known.push_back(candidate->name.name);
      if (candidate->name.name == setting.name)
        field = candidate;
      for (const std::string &spelling : candidate->spellings)
        spelled |= spelling == setting.name || spelling == top || spelling.rfind(setting.name + ".", 0) == 0;
    }
    bool ignored = std::any_of(ignores.begin(), ignores.end(),
                               [&](const std::string &glob) { return support::matchGlob(glob, top); });
    if (!value || setting.name.empty() || (!field && !spelled && !ignored)) {
      diagnostics.error(
          "Q010", "--set " + setting.name + ": the spec's config has no such field" + didYouMean(setting.name, known),
          {});
      continue;
    }
    if (field)
      settings[field->name.name] = *value;
    changed = true;
    Json *node = &tree; // the file's text, for the runtime, follows
    std::string rest = field ? field->spellings[0] : setting.name;
    for (size_t dot; (dot = rest.find('.')) != std::string::npos; rest = rest.substr(dot + 1)) {
      Json &next = (*node)[rest.substr(0, dot)];
      if (!next.is_object())
        next = Json::object();
      node = &next;
    }
    (*node)[rest] = json;
  }
  if (auto value = fromJson(tree, ""))
    root = *value->as<ObjectRef>();
}

const Value *ConfigFile::find(const std::vector<std::string> &spellings) const {
  const Value *found = nullptr;
  for (const std::string &spelling : spellings) { // all are looked up: an older spelling beside a newer one is read too
    const Object *object = root.get();
    const Value *value = nullptr;
    for (size_t begin = 0; begin <= spelling.size() && object;) {
      size_t dot = std::min(spelling.find('.', begin), spelling.size());
      std::string part = spelling.substr(begin, dot - begin);
      object->read.insert(part);
      value = object->find(part);
      auto inner = value ? value->as<ObjectRef>() : nullptr;
      object = inner ? inner->get() : nullptr;
      begin = dot + 1;
      if (begin <= spelling.size() && !object)
        value = nullptr;
    }
    if (!found && value && !value->isNull())
      found = value;
  }
  return found;
}

const Value *ConfigFile::setting(const std::string &field) const {
  auto it = settings.find(field);
  return it == settings.end() ? nullptr : &it->second;
}

Span ConfigFile::place(const std::string &dotted) const {
  if (!source)
    return {};
  std::string_view text = source->getText();
  size_t at = part.empty() ? 0 : text.find("\"" + part + "\"");
  Span span;
  for (size_t begin = 0; begin <= dotted.size();) { // the key after its parent's: good enough for real files
    size_t dot = std::min(dotted.find('.', begin), dotted.size());
    std::string key = "\"" + dotted.substr(begin, dot - begin) + "\"";
    while ((at = text.find(key, at)) != std::string_view::npos) {
      size_t next = text.find_first_not_of(" \t\r\n", at + key.size());
      if (next != std::string_view::npos && text[next] == ':')
        break;
      at += key.size();
    }
    if (at == std::string_view::npos)
      return {};
    span = {source.get(), static_cast<uint32_t>(at), static_cast<uint32_t>(at + key.size())};
    at += key.size();
    begin = dot + 1;
  }
  return span;
}

static void warnInside(const ConfigFile &file, const Object &object, const std::vector<std::string> &ignores,
                       Diagnostics &diagnostics) {
  for (const auto &[key, value] : object.fields) {
    std::string full = object.where + "." + key;
    bool ignored = std::any_of(ignores.begin(), ignores.end(), [&](const std::string &glob) {
      return support::matchGlob(glob, key) || support::matchGlob(glob, full);
    });
    if (!object.read.count(key) && !value.isNull() && !ignored)
      diagnostics.warning("Q043", "config.json has " + full + " = " + describe(value) + ", which the spec does not use",
                          file.place(full));
    if (auto inner = value.as<ObjectRef>(); inner && !(*inner)->read.empty())
      warnInside(file, **inner, ignores, diagnostics);
  }
}

void ConfigFile::warnUnread(const std::set<std::string> &known, const std::vector<std::string> &ignores,
                            Diagnostics &diagnostics) const {
  if (!root)
    return;
  for (const auto &[key, value] : root->fields) {
    bool ignored = std::any_of(ignores.begin(), ignores.end(),
                               [&](const std::string &glob) { return support::matchGlob(glob, key); });
    if (!known.count(key) && !value.isNull() && !ignored)
      diagnostics.warning("Q043", "config.json has " + key + " = " + describe(value) + ", which the spec does not use",
                          place(key));
    if (auto inner = value.as<ObjectRef>(); inner && !(*inner)->read.empty())
      warnInside(*this, **inner, ignores, diagnostics);
  }
}

std::string ConfigFile::text() const {
  if (changed)
    return toJson(Value(root));
  return source && root ? std::string(source->getText()) : "{}";
}

} // namespace quern::frontend
