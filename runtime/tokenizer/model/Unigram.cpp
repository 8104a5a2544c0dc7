// Takes: a word. Gives: its most likely cut into tokens under a unigram language model (Kudo 2018), by dynamic
// programming from left to right; of equal paths the one found first stays. A character that begins no token costs the
// worst score less 10; neighbours of that kind fuse.
#include "runtime/Error.h"
#include "runtime/tokenizer/model/Model.h"
#include "runtime/tokenizer/text/ByteTrie.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

namespace quern::runtime {

namespace {

/// A score as `tokenizers` reads its text: digits as an integer, divided by a power of ten, which rounds twice. Without
/// that two paths of equal score could be ordered otherwise.
double asTokenizersReads(double score) {
  char text[40];
  for (int digits = 15; digits <= 17; ++digits) { // the shortest text that gives this number
    std::snprintf(text, sizeof text, "%.*e", digits - 1, std::fabs(score));
    if (std::strtod(text, nullptr) == std::fabs(score) || digits == 17) {
      const char *const exponent = std::strchr(text, 'e');
      const int power = exponent ? std::atoi(exponent + 1) - (digits - 1) : 0;
      if (digits == 15 || power < -22 || power > 0)
        return score; // the division is exact enough, or far from any score
      uint64_t number = 0;
      for (const char *c = text; c != exponent; ++c)
        if (*c != '.')
          number = number * 10 + uint64_t(*c - '0');
      double divisor = 1;
      for (int i = 0; i < -power; ++i)
        divisor *= 10;
      return std::copysign(double(number) / divisor, score);
    }
  }
  return score;
}

class Unigram : public TokenModel {
public:
  explicit Unigram(const nlohmann::json &json) {
    const nlohmann::json &list = json.at("vocab");
    if (!list.is_array() || list.empty())
      throw UserError("the vocabulary is no list");
    // What no tokenizer.json of the library has: SentencePiece's own arithmetic, and tokens that no text has.
    const nlohmann::json own = json.value("sentencepiece", nlohmann::json());
    inFloats = own.is_object();
    const bool exact = json.value("exact_scores", false); // they never were in a tokenizer.json
    std::unordered_set<int> hidden;
    for (const nlohmann::json &id : inFloats ? own.value("hidden", nlohmann::json::array()) : nlohmann::json::array())
      hidden.insert(id.get<int>());
    double least = INFINITY;
    for (const nlohmann::json &entry : list) {
      std::string text = entry.at(0).get<std::string>();
      double score = entry.at(1).get<double>();
      score = inFloats ? double(float(score)) : exact ? score : asTokenizersReads(score);
      int id = int(scores.size());
      if (words.find(text) < 0 && !text.empty() && !hidden.count(id))
        trie.insert(text, id);
      words.add(std::move(text), id);
      scores.push_back(score);
      least = std::min(least, score);
    }
    unknownScore = inFloats ? own.at("unknown_score").get<double>() : least - 10;
    if (json.contains("unk_id") && json["unk_id"].is_number_integer()) {
      int64_t id = json["unk_id"].get<int64_t>();
      if (id < 0 || id >= int64_t(scores.size()))
        throw UserError("unk_id is outside the vocabulary");
      unknown = int(id);
    }
    byteFallback = json.value("byte_fallback", false);
    if (byteFallback)
      bytes = byteTokens(words);
  }

  void encode(std::string_view word, std::vector<int> &ids) const override {
    struct Node {
      double score = 0;
      int64_t from = -1;
      int id = -1;
    };
    std::vector<Node> best(word.size() + 1);
    auto offer = [&](size_t end, size_t from, int id, double score) {
      Node &node = best[end];
      if (inFloats)
        score = double(float(score));
      if (node.from < 0 || score > node.score)
        node = {score, int64_t(from), id};
    };
    for (size_t at = 0; at < word.size();) {
      size_t length = std::min(utf8Length(static_cast<unsigned char>(word[at])), word.size() - at);
      const double here = best[at].score;
      bool single = false;
      uint32_t node = ByteTrie::root;
      for (size_t end = at; end < word.size();) {
        node = trie.step(node, static_cast<uint8_t>(word[end]));
        if (node == ByteTrie::none)
          break;
        ++end;
        if (int id = trie.value(node); id >= 0) {
          offer(end, at, id, here + scores[size_t(id)]);
          single |= end - at == length;
        }
      }
      if (!single)
        offer(at + length, at, unknown, here + unknownScore);
      at += length;
    }

    struct Part {
      size_t begin, end;
      bool isUnknown;
    };
    std::vector<Part> parts; // from the last to the first
    for (size_t end = word.size(); end > 0;) {
      size_t from = size_t(best[end].from);
      bool isUnknown = best[end].id == unknown;
      if (isUnknown && !parts.empty() && parts.back().isUnknown)
        parts.back().begin = from;
      else
        parts.push_back({from, end, isUnknown});
      end = from;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      if (inFloats && !part->isUnknown)
        ids.push_back(best[part->end].id);
      else
        append(word.substr(part->begin, part->end - part->begin), ids);
  }

private:
  ByteTrie trie;
  std::vector<double> scores;
  double unknownScore;
  int unknown = -1;
  bool byteFallback, inFloats;
  std::vector<int> bytes;

  void append(std::string_view text, std::vector<int> &ids) const {
    if (int id = words.find(text); id >= 0 && !inFloats) {
      ids.push_back(id);
      return;
    }
    if (byteFallback &&
        std::all_of(text.begin(), text.end(), [&](char c) { return bytes[static_cast<unsigned char>(c)] >= 0; })) {
      for (char c : text)
        ids.push_back(bytes[static_cast<unsigned char>(c)]);
      return;
    }
    if (unknown < 0)
      throw UserError("the tokenizer has no token for " + quote(text) + " and none for unknown characters");
    ids.push_back(unknown);
  }
};

} // namespace

std::unique_ptr<TokenModel> makeUnigram(const nlohmann::json &json) {
  return std::make_unique<Unigram>(json);
}

} // namespace quern::runtime
