// Takes: a word. Gives: its tokens by byte-pair encoding (Sennrich et al. 2016), both kinds: GPT-2's over characters
// that stand for bytes, and SentencePiece's over characters with bytes as a fallback.
//
// Joining.cpp joins, ByteWords.cpp where the symbols are bytes; what is here runs once, or once for each character.
#include "runtime/Error.h"
#include "runtime/tokenizer/model/ByteWords.h"
#include "runtime/tokenizer/text/ByteChars.h"
#include "runtime/tokenizer/text/ByteTrie.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
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
    if (json.contains("ranks"))
      readRanks(json["ranks"]);
    else
      readMerges(json.at("merges"));
    for (const Json &token : json.value("user_defined", Json::array()))
      if (const auto text = token.get<std::string>(); !text.empty() && words.find(text) >= 0)
        whole.insert(text, words.find(text));
    if (prefix.empty() && suffix.empty() && whole.empty())
      byBytes.emplace(words, merges);
  }

  void encode(std::string_view word, std::vector<int> &ids) const override {
    if (word.empty())
      return;
    if (ignoreMerges && isToken(word, ids))
      return;
    const size_t first = ids.size();
    split(word, ids);
    joinSymbols(merges, ids, first);
  }

  void encodeBytes(std::string_view bytes, std::vector<int> &ids) const override {
    if (!byBytes || !byBytes->usable())
      encode(toByteChars(bytes), ids);
    else if (!ignoreMerges || bytes.size() > words.longest() || !isToken(toByteChars(bytes), ids))
      byBytes->encode(bytes, ids);
  }

private:
  std::optional<ByteWords> byBytes;
  MergeTable merges;
  ByteTrie whole;               // "user_defined": tokens that are never cut nor joined
  std::array<int, 512> singles; // numbers of the first characters, those that stand for bytes among them
  std::string prefix, suffix;
  int unknown = -1;
  bool fuseUnknown = false, byteFallback = false, ignoreMerges = false;
  std::vector<int> bytes;

  bool isToken(std::string_view word, std::vector<int> &ids) const {
    const int token = word.size() <= words.longest() ? words.find(word) : -1;
    if (token >= 0)
      ids.push_back(token);
    return token >= 0;
  }
  static std::string text(const Json &json, const char *name) {
    return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : std::string();
  }
  void readMerges(const Json &list) {
    int rank = 0;
    if (list.size() > size_t(Merge::highest))
      throw UserError("a BPE model has " + std::to_string(list.size()) + " merges");
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

  /// "ranks", which no tokenizer.json of the library has: of each token, when any two tokens that together are its text
  /// are joined. So SentencePiece and tiktoken have it; as merges, pairs with the same result would have an order.
  void readRanks(const Json &list) {
    constexpr size_t longestJoined =
        1024; // bytes; longer tokens are no words, and their cuts would take quadratic time
    struct Join {
      int left, right;
      Merge merge;
    };
    std::vector<Join> joins;
    for (int id = 0; id < words.size() && size_t(id) < list.size(); ++id) {
      const int rank = list[size_t(id)].get<int>();
      const std::string *token = words.text(id);
      if (rank < 0 || rank >= Merge::highest || !token || token->size() > longestJoined)
        continue;
      for (size_t at = 1; at < token->size(); ++at) {
        if (isUtf8Tail((*token)[at]))
          continue;
        const int left = words.find(std::string_view(*token).substr(0, at));
        const int right = left < 0 ? -1 : words.find(std::string_view(*token).substr(at));
        if (right >= 0 && mayJoin(list, left) && mayJoin(list, right))
          joins.push_back({left, right, {rank, id}});
      }
    }
    merges.reserve(joins.size());
    for (const Join &join : joins)
      merges.add(join.left, join.right, join.merge);
  }
  static bool mayJoin(const Json &list, int id) { return size_t(id) < list.size() && list[size_t(id)].get<int>() >= 0; }

  /// Appends the symbols of a word before any merge.
  void split(std::string_view word, std::vector<int> &ids) const {
    bool pendingUnknown = false;
    const bool plain = prefix.empty() && suffix.empty();
    std::string decorated;
    for (size_t at = 0; at < word.size();) {
      const size_t begin = at;
      if (const auto [id, length] = whole.longest(word.substr(at)); length > 0) {
        if (std::exchange(pendingUnknown, false))
          ids.push_back(unknown);
        ids.push_back(id);
        at += length;
        continue;
      }
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

std::vector<int> ranksByScore(const std::vector<double> &scores, const std::vector<int> &kinds) {
  std::vector<double> different;
  for (size_t i = 0; i < scores.size(); ++i)
    if (kinds[i] == NormalPiece)
      different.push_back(scores[i]);
  std::sort(different.begin(), different.end(), std::greater<>());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  std::vector<int> ranks(scores.size(), -1);
  for (size_t i = 0; i < scores.size(); ++i)
    if (kinds[i] == NormalPiece)
      ranks[i] =
          int(std::lower_bound(different.begin(), different.end(), scores[i], std::greater<>()) - different.begin());
  return ranks;
}

std::unique_ptr<TokenModel> makeBpe(const Json &json) {
  return std::make_unique<Bpe>(json);
}

} // namespace quern::runtime
