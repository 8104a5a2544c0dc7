// Takes: a word. Gives: its tokens by WordPiece (Devlin et al. 2018): the longest piece of the vocabulary first, then
// again from where it ends.
#include "runtime/Error.h"
#include "runtime/tokenizer/model/Model.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "support/Utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace quern::runtime {

namespace {

class WordPiece : public TokenModel {
public:
  explicit WordPiece(const nlohmann::json &json) {
    words = Vocabulary::fromJson(json.at("vocab"));
    std::string unknownText = json.value("unk_token", "[UNK]");
    unknown = words.find(unknownText);
    if (unknown < 0)
      throw UserError("the token for unknown words, " + quote(unknownText) + ", is not in the vocabulary");
    prefix = json.value("continuing_subword_prefix", "##");
    maxChars = json.value("max_input_chars_per_word", size_t(100));
  }

  void encode(std::string_view word, std::vector<int> &ids) const override {
    if (support::utf8Count(word) > maxChars) {
      ids.push_back(unknown);
      return;
    }
    size_t before = ids.size();
    std::string candidate;
    for (size_t begin = 0; begin < word.size();) {
      int found = -1;
      // No piece is longer than the longest of the vocabulary, so a long word stays linear.
      size_t end = std::min(word.size(), begin + words.longest());
      while (end < word.size() && support::isUtf8Tail(word[end]))
        ++end;
      for (; end > begin; --end) {
        if (end < word.size() && support::isUtf8Tail(word[end]))
          continue;
        candidate = begin == 0 ? "" : prefix;
        candidate.append(word.substr(begin, end - begin));
        if ((found = words.find(candidate)) >= 0)
          break;
      }
      if (found < 0) { // one piece unknown: the whole word is
        ids.resize(before);
        ids.push_back(unknown);
        return;
      }
      ids.push_back(found);
      begin = end;
    }
  }

private:
  std::string prefix;
  int unknown;
  size_t maxChars;
};

} // namespace

std::unique_ptr<TokenModel> makeWordPiece(const nlohmann::json &json) {
  return std::make_unique<WordPiece>(json);
}

} // namespace quern::runtime
