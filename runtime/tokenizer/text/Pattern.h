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

  /// The whole text as ranges that match and those between, in order. Empty matches are ranges, too: they separate.
  std::vector<Range> split(std::string_view text) const;
  /// Throws UserError where the result is longer than `limit` bytes.
  std::string replace(std::string_view text, std::string_view replacement, size_t limit) const;
  /// How many times as long as what was given all steps of a chain may make a text: a file that says "replace a by a
  /// hundred a" eight times must not fill the memory.
  static constexpr size_t growth = 256;
  static size_t limitFor(size_t bytes) { return 4096 + growth * bytes; }

private:
  struct Compiled;
  std::string text; // literal
  std::shared_ptr<Compiled> compiled;
};

} // namespace quern::runtime
#endif
