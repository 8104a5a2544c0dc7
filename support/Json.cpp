// Takes: text that should be JSON. Gives: what is wrong with it, in words.
// Why depth is counted before parsing: nlohmann's parser needs no stack, but what walks, copies or prints its tree does.
#include "support/Json.h"

#include <algorithm>

namespace quern::support {

static std::string place(std::string_view text, size_t at) {
  at = std::min(at, text.size());
  size_t line = size_t(std::count(text.begin(), text.begin() + long(at), '\n')) + 1;
  size_t start = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  return format("line %zu, column %zu", line, at - (start == std::string_view::npos ? 0 : start + 1) + 1);
}

JsonError::JsonError(std::string_view text, size_t at, std::string why, const std::string &name)
    : UserError(name + " is no valid JSON at " + place(text, at) + ": " + why), at(at), why(std::move(why)) {}

void checkJsonDepth(std::string_view text, const std::string &name, int deepest) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == 0)
      throw JsonError(text, i, "a byte that is zero", name);
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest)
        throw JsonError(text, i, format("more than %d levels of nesting", deepest), name);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

std::string jsonReason(const char *what) {
  // "[json.exception.parse_error.101] parse error at line 3, column 1: syntax error while parsing value - unexpected
  // ..."
  std::string_view text = what;
  if (size_t bracket = text.find("] "); text.starts_with("[") && bracket != std::string_view::npos)
    text.remove_prefix(bracket + 2);
  if (size_t colon = text.find(": "); text.starts_with("parse error") && colon != std::string_view::npos)
    text.remove_prefix(colon + 2);
  if (size_t dash = text.find(" - "); text.starts_with("syntax error") && dash != std::string_view::npos)
    text.remove_prefix(dash + 3);
  return printable(text);
}

} // namespace quern::support
