// Takes: new tokens one by one. Gives: the text to show, and the reason why it ends.
//
// A stop string may arrive in pieces. So the end of the text that could be the start of one is held back until it is
// known not to be.
#include "runtime/engine/StopRules.h"

#include "support/Json.h"

#include "runtime/Error.h"

#include <algorithm>

namespace quern::runtime {

std::set<int> idsOf(const nlohmann::json &config, const char *name) {
  std::set<int> ids;
  auto field = config.find(name);
  if (field == config.end())
    return ids;
  for (const nlohmann::json &value : field->is_array() ? *field : nlohmann::json::array({*field}))
    if (value.is_number_integer())
      ids.insert(value.get<int>());
  return ids;
}

nlohmann::json parseGenerationConfig(const std::string &text) {
  nlohmann::json config = support::parseJson(text, "generation_config.json");
  if (!config.is_object())
    throw UserError("generation_config.json is no JSON object");
  return config;
}

StopCheck::StopCheck(const StopRules &rules, const Tokenizer *tokenizer, const std::vector<int> &known)
    : rules(rules), stop(rules.most <= 0 ? Stop::Length : Stop::No) {
  if (!tokenizer)
    return;
  stream.emplace(*tokenizer);
  stream->start(known);
}

std::string StopCheck::push(int token) {
  if (++count >= rules.most)
    stop = Stop::Length;
  if (rules.ends.count(token)) {
    stop = Stop::EndOfText;
    return "";
  }
  if (!stream)
    return "";
  held += stream->push(token);
  return release(false);
}

std::string StopCheck::finish() {
  if (!stream || stop == Stop::String)
    return "";
  held += stream->finish();
  return release(true);
}

std::string StopCheck::release(bool all) {
  size_t end = std::string::npos;
  for (const std::string &string : rules.strings)
    end = std::min(end, held.find(string));
  if (end != std::string::npos) {
    stop = Stop::String;
  } else {
    size_t kept = 0; // the longest end of `held` that begins a stop string
    for (const std::string &string : rules.strings)
      for (size_t length = std::min(all ? 0 : string.size() - 1, held.size()); length > kept; --length)
        if (held.compare(held.size() - length, length, string, 0, length) == 0)
          kept = length;
    end = held.size() - kept;
  }
  std::string shown = held.substr(0, end);
  held.erase(0, end);
  return shown;
}

} // namespace quern::runtime
