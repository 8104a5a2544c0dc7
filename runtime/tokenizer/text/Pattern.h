// Patterns as tokenizer.json writes them: a literal string or a regular expression.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_PATTERN_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_PATTERN_H

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// Finds its matches in valid UTF-8, left to right, without overlaps. Work is bounded in proportion to the text's
/// length: a pattern that needs more (nested repetitions on hostile text) is a UserError.
class Pattern {
public:
  struct Range {
    size_t begin, end;
    bool match;
  };

  static Pattern literal(std::string text);
  static Pattern regex(const std::string &source);
  /// {"String": "..."} or {"Regex": "..."}.
  static Pattern fromJson(const nlohmann::json &json);

  /// The whole text as ranges that match and those between, in order; empty for an empty text.
  std::vector<Range> split(std::string_view text) const;
  std::string replace(std::string_view text, std::string_view replacement) const;

private:
  struct Compiled;
  std::string text; // literal
  std::shared_ptr<Compiled> compiled;
};

} // namespace quern::runtime
#endif
