// Takes: a word. Gives: its tokens by byte-pair encoding (Sennrich et al. 2016), both kinds: GPT-2's over characters
// that stand for bytes, and SentencePiece's over characters with bytes as a fallback.
//
// Joining.cpp joins; what lies here runs once, or once for each character.
#include "runtime/Error.h"
#include "runtime/tokenizer/model/Joining.h"
#include "runtime/tokenizer/model/Model.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;

class Bpe : public TokenModel {
public:
  explicit Bpe(const Json &json) {
    if (json.contains("dropout") && json["dropout"].is_number() && json["dropout"].get<double>() != 0)
      throw UserError("a BPE model with dropout gives different tokens each time; it is for training only");
    words = Vocabulary::fromJson(json.at("vocab"));
    prefix = text(json, "continuing_subword_prefix");
    suffix = text(json, "end_of_word_suffix");
    fuseUnknown = json.value("fuse_unk", false);
    ignoreMerges = json.value("ignore_merges", false);
    std::string unknownText = text(json, "unk_token");
    if (!unknownText.empty()) {
      unknown = words.find(unknownText);
      if (unknown < 0)
        throw UserError("the token for unknown words, " + quote(unknownText) + ", is not in the vocabulary");
    }
    byteFallback = json.value("byte_fallback", false);
    if (byteFallback)
      bytes = byteTokens(words);
    for (char32_t c = 0; c < singles.size(); ++c)
      singles[c] = words.find(toUtf8({c}));
    readMerges(json.at("merges"));
    made = std::make_unique<std::atomic<Answer>[]>(size_t(words.size()));
  }

  void encode(std::string_view word, std::vector<int> &ids) const override {
    if (word.empty())
      return;
    const size_t first = ids.size();
    const int whole = word.size() <= words.longest() ? words.find(word) : -1;
    if (whole >= 0 && (ignoreMerges || made[size_t(whole)].load(std::memory_order_relaxed) == Yes)) {
      ids.push_back(whole);
      return;
    }
    split(word, ids);
    joinSymbols(merges, ids, first);
    if (whole >= 0 && ids.size() == first + 1 && ids[first] == whole)
      made[size_t(whole)].store(Yes, std::memory_order_relaxed);
  }

private:
  /// Whether the merges make the token of its own text: found out once, by whichever thread.
  enum Answer : uint8_t { Unknown, Yes };
  mutable std::unique_ptr<std::atomic<Answer>[]> made;
  MergeTable merges;
  std::array<int, 512> singles; // numbers of the first characters, those that stand for bytes among them
  std::string prefix, suffix;
  int unknown = -1;
  bool fuseUnknown = false, byteFallback = false, ignoreMerges = false;
  std::vector<int> bytes;

  static std::string text(const Json &json, const char *name) {
    return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : std::string();
  }
  void readMerges(const Json &list) {
    int rank = 0;
    merges.reserve(list.size());
    for (const Json &entry : list) { // ["a", "b"], or "a b" in older files
      std::string left, right;
      if (entry.is_array() && entry.size() == 2) {
        left = entry[0].get<std::string>();
        right = entry[1].get<std::string>();
      } else {
        std::string both = entry.get<std::string>();
        size_t space = both.find(' ');
        if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos)
          throw UserError("the merge " + quote(both) + " is no pair");
        left = both.substr(0, space);
        right = both.substr(space + 1);
      }
      std::string rest = !prefix.empty() && right.starts_with(prefix) ? right.substr(prefix.size()) : right;
      int a = words.find(left), b = words.find(right), merged = words.find(left + rest);
      if (a < 0 || b < 0 || merged < 0)
        throw UserError("the merge of " + quote(left) + " and " + quote(right) +
                        " names a token that is not in the vocabulary");
      merges.add(a, b, {rank++, merged});
    }
  }

  /// Appends the symbols of a word before any merge.
  void split(std::string_view word, std::vector<int> &ids) const {
    bool pendingUnknown = false;
    const bool plain = prefix.empty() && suffix.empty();
    std::string decorated;
    for (size_t at = 0; at < word.size();) {
      const size_t begin = at;
      const char32_t c = nextChar(word, at);
      std::string_view character = word.substr(begin, at - begin);
      int id;
      if (plain && c < singles.size()) {
        id = singles[c];
      } else {
        if (!plain) {
          decorated = (begin == 0 ? "" : prefix) + std::string(character) + (at < word.size() ? "" : suffix);
          character = decorated;
        }
        id = words.find(character);
      }
      if (id >= 0) {
        if (std::exchange(pendingUnknown, false))
          ids.push_back(unknown);
        ids.push_back(id);
        continue;
      }
      if (byteFallback && allBytesKnown(character)) {
        for (char byte : character)
          ids.push_back(bytes[static_cast<unsigned char>(byte)]);
        continue;
      }
      if (unknown >= 0) { // without such a token the character is dropped
        if (pendingUnknown && !fuseUnknown)
          ids.push_back(unknown);
        pendingUnknown = true;
      }
    }
    if (pendingUnknown)
      ids.push_back(unknown);
  }

  bool allBytesKnown(std::string_view character) const {
    for (char byte : character)
      if (bytes[static_cast<unsigned char>(byte)] < 0)
        return false;
    return true;
  }
};

} // namespace

std::unique_ptr<TokenModel> makeBpe(const Json &json) {
  return std::make_unique<Bpe>(json);
}

} // namespace quern::runtime
