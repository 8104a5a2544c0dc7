// JSON from strangers, by nlohmann's parser: with a limit of depth, and errors that people can read.
#ifndef QUERN_SUPPORT_JSON_H
#define QUERN_SUPPORT_JSON_H

#include "support/Error.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace quern::support {

/// A text that is no JSON, or nested too deep.
struct JsonError : UserError {
  size_t at;       ///< byte of the text
  std::string why; ///< without the file's name and the place
  JsonError(std::string_view text, size_t at, std::string why, const std::string &name);
};

/// Lists in lists: real files have a handful of levels, and readers may recurse over what they were given.
constexpr int deepestJson = 100;

/// Throws JsonError where `text` is nested deeper than `deepest` or holds a zero byte (which nlohmann's parser takes
/// for the end).
void checkJsonDepth(std::string_view text, const std::string &name, int deepest = deepestJson);

/// The reason in the words of the parser's exception, without its number and place.
std::string jsonReason(const char *what);

/// Parses the whole of `text`; `name` is what messages call it. Throws JsonError.
template <class Json = nlohmann::json>
Json parseJson(std::string_view text, const std::string &name, bool comments = false, int deepest = deepestJson) {
  checkJsonDepth(text, name, deepest);
  try {
    return Json::parse(text.data(), text.data() + text.size(), nullptr, true, comments);
  } catch (const nlohmann::json::parse_error &error) {
    throw JsonError(text, error.byte ? error.byte - 1 : 0, jsonReason(error.what()), name);
  } catch (const nlohmann::json::exception &error) { // a number that no type holds
    throw JsonError(text, 0, jsonReason(error.what()), name);
  }
}

} // namespace quern::support
#endif
