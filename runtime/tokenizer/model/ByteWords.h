// Byte-pair encoding of words whose first symbols are bytes.
#ifndef QUERN_RUNTIME_TOKENIZER_MODEL_BYTEWORDS_H
#define QUERN_RUNTIME_TOKENIZER_MODEL_BYTEWORDS_H

#include "runtime/tokenizer/model/Joining.h"
#include "runtime/tokenizer/model/Model.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// What joinSymbols does, on bytes: which two bytes are joined is a table, and a word is cut in advance where no token of
/// the vocabulary can cross.
class ByteWords {
public:
  ByteWords(const Vocabulary &words, const MergeTable &merges);
  /// Whether each byte has a token.
  bool usable() const { return !starts.empty(); }
  /// Appends the tokens of a word.
  void encode(std::string_view bytes, std::vector<int> &ids) const;

private:
  const MergeTable &merges;
  std::array<int, 256> tokens{};
  std::vector<Merge> starts;     // of two bytes: [left << 8 | right]
  std::vector<uint64_t> triples; // bits: a set of the threes that are side by side in tokens, and of some others
  int shift = 0;

  size_t bitOf(const uint8_t *three) const {
    const uint32_t key = uint32_t(three[0]) << 16 | uint32_t(three[1]) << 8 | three[2];
    return (key * 0x9e3779b1u) >> shift;
  }
  bool has(const uint8_t *three) const {
    const size_t bit = bitOf(three);
    return triples[bit / 64] >> (bit % 64) & 1;
  }
  void joinMany(const uint8_t *data, size_t count, std::vector<int> &ids) const;
};

} // namespace quern::runtime
#endif
