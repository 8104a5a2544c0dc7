// When a text ends: at an end-of-text token, at a string, or at a length.
#ifndef QUERN_RUNTIME_ENGINE_STOPRULES_H
#define QUERN_RUNTIME_ENGINE_STOPRULES_H

#include "runtime/tokenizer/Tokenizer.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace quern::runtime {

enum class Stop { No, EndOfText, String, Length };

struct StopRules {
  std::set<int> ends;               // tokens that end a text
  std::vector<std::string> strings; // not empty each; they are not part of the text
  int64_t most = INT64_MAX;         // new tokens
};

/// The content of generation_config.json. Throws UserError if it is no JSON object.
nlohmann::json parseGenerationConfig(const std::string &text);
/// The numbers of a config's field that is a number or a list of them.
std::set<int> idsOf(const nlohmann::json &config, const char *name);

/// Follows one text's new tokens: what of it can be shown, and whether it has ended.
class StopCheck {
public:
  /// Without a tokenizer there is no text, and strings do not stop it. `known`: tokens that are already shown.
  StopCheck(const StopRules &rules, const Tokenizer *tokenizer, const std::vector<int> &known = {});
  /// The text that can be shown now that this token is known.
  std::string push(int token);
  /// What was held back because it could have become a stop string or the rest of a character.
  std::string finish();
  Stop reason() const { return stop; }
  bool done() const { return stop != Stop::No; }

private:
  const StopRules &rules;
  std::optional<TextStream> stream;
  std::string held; // not shown yet
  int64_t count = 0;
  Stop stop = Stop::No;
  std::string release(bool all);
};

} // namespace quern::runtime
#endif
