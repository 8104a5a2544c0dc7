// The part of a tokenizer that turns a word into numbers: the `model` of tokenizer.json.
#ifndef QUERN_RUNTIME_TOKENIZER_MODEL_MODEL_H
#define QUERN_RUNTIME_TOKENIZER_MODEL_MODEL_H

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// Token texts by number and back.
class Vocabulary {
public:
  /// {"text": number}. Numbers are 0 .. 16 million and may have gaps.
  static Vocabulary fromJson(const nlohmann::json &json);
  void add(std::string text, int id);
  /// The number, or -1.
  int find(std::string_view text) const;
  /// The text; null for a number without one. Stays where it is until the next add().
  const std::string *text(int id) const;
  int size() const { return int(entryOf.size()); }
  size_t longest() const { return longestBytes; }

private:
  struct Entry {
    std::string text;
    int id;
  };
  std::vector<Entry> entries;
  std::vector<int> entryOf; // by number; -1: there is none
  struct Slot {
    uint32_t hash = 0;
    int entry = -1;
  };
  std::vector<Slot> table = std::vector<Slot>(64); // open-addressed, at most half full
  size_t longestBytes = 0;

  size_t place(std::string_view text, uint32_t hash) const;
};

class TokenModel {
public:
  virtual ~TokenModel() = default;
  /// Appends the numbers of one word (valid UTF-8).
  virtual void encode(std::string_view word, std::vector<int> &ids) const = 0;
  /// The same of bytes, for which characters stand in the vocabulary (text/ByteChars.h).
  virtual void encodeBytes(std::string_view bytes, std::vector<int> &ids) const;
  const Vocabulary &vocabulary() const { return words; }
  /// BPE, WordPiece, Unigram, WordLevel. Throws UserError for what cannot be.
  static std::unique_ptr<TokenModel> fromJson(const nlohmann::json &json);

protected:
  Vocabulary words;
};

std::unique_ptr<TokenModel> makeBpe(const nlohmann::json &json);
std::unique_ptr<TokenModel> makeWordPiece(const nlohmann::json &json);
std::unique_ptr<TokenModel> makeUnigram(const nlohmann::json &json);

/// What kind of piece a token is, as SentencePiece and GGUF number them.
enum PieceKind { NormalPiece = 1, UnknownPiece, ControlPiece, UserDefinedPiece, UnusedPiece, BytePiece };
/// For BPE's field "ranks": when the two halves of each token are joined, the better scores first; -1: never.
std::vector<int> ranksByScore(const std::vector<double> &scores, const std::vector<int> &kinds);

/// The number of "<0x0A>" and its like for each byte, or -1.
std::vector<int> byteTokens(const Vocabulary &vocabulary);

} // namespace quern::runtime
#endif
