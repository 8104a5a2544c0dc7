// Takes: a word. Gives: its tokens by byte-pair encoding (Sennrich et al. 2016), both kinds: GPT-2's over characters
// that stand for bytes, and SentencePiece's over characters with bytes as a fallback.
//
// The pair of lowest rank is merged first, of equal ones the leftmost. Pairs wait in a heap and symbols form a linked
// list, so a word of n characters takes O(n log n), also where a whole text is one word (SentencePiece). Heap entries
// whose symbols have changed are skipped.
#include "runtime/Error.h"
#include "runtime/tokenizer/model/Model.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
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
    readMerges(json.at("merges"));
  }

  void encode(std::string_view word, std::vector<int> &ids) const override {
    if (word.empty())
      return;
    if (ignoreMerges) {
      if (int whole = words.find(word); whole >= 0) {
        ids.push_back(whole);
        return;
      }
    }
    std::vector<Symbol> symbols = split(word);
    merge(symbols);
    for (int at = symbols.empty() ? -1 : 0; at >= 0; at = symbols[size_t(at)].next)
      ids.push_back(symbols[size_t(at)].id);
  }

private:
  struct Merge {
    int rank, id;
  };
  struct Symbol {
    int id, previous, next; // neighbours in the list, -1 at the ends; id -1: merged into its left neighbour
  };
  struct Candidate {
    int rank, at, left, right, id;
    bool operator<(const Candidate &other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };

  std::unordered_map<uint64_t, Merge> merges;
  std::string prefix, suffix;
  int unknown = -1;
  bool fuseUnknown = false, byteFallback = false, ignoreMerges = false;
  std::vector<int> bytes;

  static std::string text(const Json &json, const char *name) {
    return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : std::string();
  }
  static uint64_t pairKey(int left, int right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }

  void readMerges(const Json &list) {
    int rank = 0;
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
      merges.emplace(pairKey(a, b), Merge{rank++, merged});
    }
  }

  std::vector<Symbol> split(std::string_view word) const {
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    bool pendingUnknown = false;
    auto add = [&](int id) { symbols.push_back({id, int(symbols.size()) - 1, int(symbols.size()) + 1}); };
    std::string decorated;
    for (size_t at = 0; at < word.size();) {
      size_t begin = at;
      nextChar(word, at);
      std::string_view character = word.substr(begin, at - begin);
      bool plain = (prefix.empty() || begin == 0) && (suffix.empty() || at < word.size());
      if (!plain) {
        decorated = (begin == 0 ? "" : prefix) + std::string(character) + (at < word.size() ? "" : suffix);
        character = decorated;
      }
      int id = words.find(character);
      if (id >= 0) {
        if (std::exchange(pendingUnknown, false))
          add(unknown);
        add(id);
        continue;
      }
      if (byteFallback && allBytesKnown(character)) {
        for (char byte : character)
          add(bytes[static_cast<unsigned char>(byte)]);
        continue;
      }
      if (unknown >= 0) { // without such a token the character is dropped
        if (pendingUnknown && !fuseUnknown)
          add(unknown);
        pendingUnknown = true;
      }
    }
    if (pendingUnknown)
      add(unknown);
    if (!symbols.empty())
      symbols.back().next = -1;
    return symbols;
  }

  bool allBytesKnown(std::string_view character) const {
    for (char byte : character)
      if (bytes[static_cast<unsigned char>(byte)] < 0)
        return false;
    return true;
  }

  void merge(std::vector<Symbol> &symbols) const {
    if (symbols.size() < 2)
      return;
    std::vector<Candidate> waiting;
    auto candidate = [&](int at, std::vector<Candidate> &queue) {
      int next = at < 0 ? -1 : symbols[size_t(at)].next;
      if (next < 0)
        return false;
      int left = symbols[size_t(at)].id, right = symbols[size_t(next)].id;
      auto found = merges.find(pairKey(left, right));
      if (found == merges.end())
        return false;
      queue.push_back({found->second.rank, at, left, right, found->second.id});
      return true;
    };
    for (int at = 0; at + 1 < int(symbols.size()); ++at)
      candidate(at, waiting);
    std::make_heap(waiting.begin(), waiting.end());
    while (!waiting.empty()) {
      std::pop_heap(waiting.begin(), waiting.end());
      Candidate best = waiting.back();
      waiting.pop_back();
      Symbol &left = symbols[size_t(best.at)];
      if (left.id != best.left || left.next < 0 || symbols[size_t(left.next)].id != best.right)
        continue;
      Symbol &right = symbols[size_t(left.next)];
      left.id = best.id;
      left.next = right.next;
      right.id = -1;
      if (left.next >= 0)
        symbols[size_t(left.next)].previous = best.at;
      for (int at : {left.previous, best.at})
        if (candidate(at, waiting))
          std::push_heap(waiting.begin(), waiting.end());
    }
  }
};

} // namespace

std::unique_ptr<TokenModel> makeBpe(const Json &json) {
  return std::make_unique<Bpe>(json);
}

} // namespace quern::runtime
