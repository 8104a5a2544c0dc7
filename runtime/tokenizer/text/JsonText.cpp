// Takes: values. Gives: JSON.
#include "runtime/tokenizer/text/JsonText.h"

#include <nlohmann/json.hpp>

namespace quern::runtime::jsontext {

void put(std::string &to, Parts parts) {
  for (std::string_view part : parts)
    to += part;
}

std::string join(Parts parts) {
  std::string text;
  put(text, parts);
  return text;
}

void append(std::string &list, Parts parts) {
  if (!list.empty())
    list += ',';
  put(list, parts);
}

std::string literal(std::string_view text) {
  return nlohmann::json(text).dump();
}

const char *literal(bool value) {
  return value ? "true" : "false";
}

std::string literal(const std::vector<int> &numbers) {
  std::string list;
  for (int number : numbers)
    append(list, {std::to_string(number)});
  return "[" + list + "]";
}

std::string literal(double number) {
  return nlohmann::json(number).dump();
}

std::string around(const Tokens &first, const Tokens &last) {
  std::string single, special;
  const auto put = [&](const Tokens &tokens) {
    for (const auto &[text, id] : tokens) {
      if (text.empty())
        continue;
      const std::string quoted = literal(text);
      append(single, {R"({"SpecialToken":{"id":)", quoted, "}}"});
      append(special, {quoted, ":{\"ids\":[", std::to_string(id), "]}"});
    }
  };
  put(first);
  append(single, {R"({"Sequence":{"id":"A"}})"});
  put(last);
  return join({R"({"type":"TemplateProcessing","single":[)", single, R"(],"special_tokens":{)", special, "}}"});
}

std::string addedToken(int64_t id, std::string_view text, bool special, std::string_view more) {
  return join({"{\"id\":", std::to_string(id), ",\"content\":", literal(text),
               ",\"normalized\":false,\"special\":", literal(special), more, "}"});
}

} // namespace quern::runtime::jsontext
