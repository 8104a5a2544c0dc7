// Text to token numbers and back, as a Hugging Face tokenizer.json defines it.
#ifndef QUERN_RUNTIME_TOKENIZER_TOKENIZER_H
#define QUERN_RUNTIME_TOKENIZER_TOKENIZER_H

#include "runtime/tokenizer/AddedTokens.h"
#include "runtime/tokenizer/Decoder.h"
#include "runtime/tokenizer/Normalizer.h"
#include "runtime/tokenizer/PreTokenizer.h"
#include "runtime/tokenizer/model/Model.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

class WordCaches;

class Tokenizer {
public:
  /// The content of a tokenizer.json; `label` is for messages. Throws UserError for anything it cannot follow to the
  /// letter: a tokenizer that is nearly right gives a model nearly right texts, which nobody notices.
  static Tokenizer parse(std::string_view json, const std::string &label);

  /// The numbers of a text (any bytes: invalid UTF-8 counts as U+FFFD). With `special`, the template's tokens ("<s>")
  /// are put around. Time is linear in the text up to a logarithm.
  std::vector<int> encode(std::string_view text, bool special) const;
  /// The same, cut so that with the template's tokens at most `longest` remain.
  std::vector<int> encode(std::string_view text, bool special, size_t longest) const;
  /// The text of numbers; unknown ones vanish.
  std::string decode(const std::vector<int> &ids, bool skipSpecial) const;

  /// Whether the text of tokens can be shown while more come (Decoder.h).
  bool streams() const { return !decoder || decoder->streams(); }

  /// The text of one token as the vocabulary has it, or null.
  const std::string *tokenText(int id) const;
  /// The number of a token, or -1.
  int findToken(std::string_view text) const;
  /// One more than the largest number.
  int size() const;
  /// From `truncation`, if the file has it.
  std::optional<size_t> truncation() const { return maxLength; }

private:
  /// The template's sequence: token numbers, and -1 for the text.
  std::vector<int> pattern{-1};
  AddedTokens added;
  std::shared_ptr<Normalizer> normalizer;
  std::shared_ptr<PreTokenizer> preTokenizer;
  bool bytes = false; // its pieces are bytes, for which characters stand in the model
  std::shared_ptr<TokenModel> model;
  std::shared_ptr<WordCaches> known;
  std::shared_ptr<Decoder> decoder;
  std::optional<size_t> maxLength;
  bool cutLeft = false;
  int largestId = -1;

  void readPostProcessor(const nlohmann::json &json);
  int special(const std::string &text) const;
};

/// Decodes a stream of tokens to text that, joined, is the text of all, and is never cut inside a character.
class TextStream {
public:
  explicit TextStream(const Tokenizer &tokenizer) : tokenizer(tokenizer) {}
  /// Tokens that are already known to the reader; gives nothing out.
  void start(const std::vector<int> &ids);
  /// What can be shown now that this token is known.
  std::string push(int id);
  /// What was held back because it could have gone on.
  std::string finish();

private:
  const Tokenizer &tokenizer;
  std::vector<int> window; // the last tokens; those before `shown` have been given out
  size_t shown = 0;
  std::string shownText; // of the first `shown` tokens of the window
  std::string emit(const std::string &text);
};

} // namespace quern::runtime
#endif
