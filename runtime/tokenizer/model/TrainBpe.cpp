// Takes: texts. Gives: the text of a tokenizer.json, GPT-2's kind (Sennrich et al. 2016; Radford et al. 2019).
//
// Words are counted once; each then is a list of symbols. The most frequent pair comes from a heap whose entries are
// checked when they come up, and a merge visits only the words that hold its pair: work follows what changes.
#include "runtime/tokenizer/model/TrainBpe.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/PreTokenizer.h"
#include "runtime/tokenizer/text/ByteChars.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;
using Pair = std::pair<int, int>;

struct PairHash {
  size_t operator()(const Pair &pair) const {
    return (size_t(uint32_t(pair.first)) << 32 | uint32_t(pair.second)) * 0x9e3779b97f4a7c15ull;
  }
};

struct Word {
  std::vector<int> symbols;
  int64_t count;
};

struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate &other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
public:
  explicit Trainer(std::vector<Word> words) : words(std::move(words)) {
    for (size_t i = 0; i < this->words.size(); ++i)
      for (size_t k = 0; k + 1 < this->words[i].symbols.size(); ++k)
        change({this->words[i].symbols[k], this->words[i].symbols[k + 1]}, this->words[i].count, i);
    for (const auto &[pair, count] : counts)
      heap.push({count, pair});
  }

  /// The next pair to merge; false where none occurs `least` times.
  bool next(int64_t least, Pair &pair) {
    while (!heap.empty()) {
      Candidate best = heap.top();
      heap.pop();
      int64_t count = counts[best.pair];
      if (count < least)
        continue;
      if (count != best.count) { // it has become rarer since
        heap.push({count, best.pair});
        continue;
      }
      pair = best.pair;
      return true;
    }
    return false;
  }

  void merge(Pair pair, int symbol) {
    touched.clear();
    std::unordered_set<size_t> holders = std::move(where[pair]);
    for (size_t i : holders)
      mergeIn(i, pair, symbol);
    counts.erase(pair);
    where.erase(pair);
    for (const Pair &changed : touched)
      if (auto found = counts.find(changed); found != counts.end() && found->second > 0)
        heap.push({found->second, changed});
  }

private:
  std::vector<Word> words;
  std::unordered_map<Pair, int64_t, PairHash> counts;
  std::unordered_map<Pair, std::unordered_set<size_t>, PairHash> where; // words that hold it, or held it
  std::unordered_set<Pair, PairHash> touched;                           // became more frequent in this merge
  std::priority_queue<Candidate> heap;

  void change(Pair pair, int64_t by, size_t word) {
    counts[pair] += by;
    if (by > 0) {
      where[pair].insert(word);
      touched.insert(pair);
    }
  }

  void mergeIn(size_t i, Pair pair, int symbol) {
    std::vector<int> &old = words[i].symbols, made;
    for (size_t k = 0; k < old.size(); ++k)
      if (k + 1 < old.size() && old[k] == pair.first && old[k + 1] == pair.second) {
        made.push_back(symbol);
        ++k;
      } else {
        made.push_back(old[k]);
      }
    for (size_t k = 0; k + 1 < old.size(); ++k)
      change({old[k], old[k + 1]}, -words[i].count, i);
    for (size_t k = 0; k + 1 < made.size(); ++k)
      change({made[k], made[k + 1]}, words[i].count, i);
    old = std::move(made);
  }
};

/// The bytes in the order of the characters that stand for them, as GPT-2 numbers them.
std::vector<std::string> byteAlphabet() {
  std::vector<std::pair<char32_t, std::string>> chars;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text = toByteChars(std::string(1, char(byte)));
    chars.emplace_back(toChars(text)[0], text);
  }
  std::sort(chars.begin(), chars.end());
  std::vector<std::string> alphabet;
  for (auto &[c, text] : chars)
    alphabet.push_back(text);
  return alphabet;
}

std::vector<Word> countWords(const std::vector<std::string_view> &texts, const Json &level,
                             const std::vector<std::string> &special,
                             const std::unordered_map<std::string, int> &numbers) {
  std::unordered_map<std::string, int64_t> counts;
  std::unique_ptr<PreTokenizer> cut = PreTokenizer::fromJson(level);
  auto count = [&](std::string_view part) {
    cut->apply({repairUtf8(part), true}, [&](const Piece &piece) { ++counts[std::string(piece.text)]; });
  };
  for (std::string_view text : texts)
    for (size_t at = 0; at < text.size();) { // special tokens are never part of a word
      size_t end = text.size(), after = text.size();
      for (const std::string &token : special)
        if (size_t found = text.find(token, at); found < end) {
          end = found;
          after = found + token.size();
        }
      count(text.substr(at, end - at));
      at = after;
    }
  std::vector<Word> words;
  for (const auto &[text, many] : counts) {
    Word &word = words.emplace_back();
    word.count = many;
    for (char32_t c : toChars(text)) {
      std::string one;
      appendChar(one, c);
      word.symbols.push_back(numbers.at(one));
    }
  }
  return words;
}

} // namespace

std::string trainBpe(const std::vector<std::string_view> &texts, size_t size, const std::vector<std::string> &special,
                     int64_t least) {
  if (size < 256 + special.size())
    throw UserError(format("a byte-level vocabulary needs at least %zu tokens: the 256 bytes and the special ones",
                           256 + special.size()));
  std::set<std::string> different(special.begin(), special.end());
  if (different.size() != special.size() || different.count(""))
    throw UserError("special tokens must differ from each other and from nothing");
  Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  std::vector<std::string> tokens = byteAlphabet();
  std::unordered_map<std::string, int> numbers;
  for (size_t i = 0; i < tokens.size(); ++i)
    numbers[tokens[i]] = int(i);
  Trainer trainer(countWords(texts, level, special, numbers));
  Json merges = Json::array();
  for (Pair pair; tokens.size() + special.size() < size && trainer.next(least, pair);) {
    std::string merged = tokens[size_t(pair.first)] + tokens[size_t(pair.second)];
    merges.push_back({tokens[size_t(pair.first)], tokens[size_t(pair.second)]});
    // Two ways to the same text share its number.
    auto [known, isNew] = numbers.try_emplace(merged, int(tokens.size()));
    if (isNew)
      tokens.push_back(merged);
    trainer.merge(pair, known->second);
  }
  Json vocabulary = Json::object(), added = Json::array();
  for (size_t i = 0; i < tokens.size(); ++i)
    vocabulary[tokens[i]] = i;
  for (const std::string &token : special) {
    size_t number = tokens.size() + added.size();
    vocabulary[token] = number;
    added.push_back({{"id", number},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  Json file = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", added},
               {"normalizer", nullptr},
               {"pre_tokenizer", level},
               {"post_processor", nullptr},
               {"decoder", level},
               {"model",
                {{"type", "BPE"},
                 {"dropout", nullptr},
                 {"unk_token", nullptr},
                 {"continuing_subword_prefix", nullptr},
                 {"end_of_word_suffix", nullptr},
                 {"fuse_unk", false},
                 {"byte_fallback", false},
                 {"ignore_merges", false},
                 {"vocab", vocabulary},
                 {"merges", merges}}}};
  return file.dump(1) + "\n";
}

} // namespace quern::runtime
