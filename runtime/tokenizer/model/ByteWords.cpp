// Takes: a word. Gives: its tokens by byte-level byte-pair encoding.
//
// A token across the place between two bytes has both side by side: it is the two of them, or has one of the threes around
// the place. Where no token is like that, the word falls into two that are joined apart. In text of many scripts most
// parts are a few bytes then.
#include "runtime/tokenizer/model/ByteWords.h"

#include "runtime/tokenizer/text/ByteChars.h"

#include <algorithm>
#include <bit>
#include <string>

namespace quern::runtime {

ByteWords::ByteWords(const Vocabulary &words, const MergeTable &merges) : merges(merges) {
  for (size_t byte = 0; byte < tokens.size(); ++byte) {
    const char c = char(byte);
    tokens[byte] = words.find(toByteChars({&c, 1}));
    if (tokens[byte] < 0)
      return;
  }
  starts.resize(1 << 16);
  for (size_t left = 0; left < 256; ++left)
    for (size_t right = 0; right < 256; ++right)
      starts[left << 8 | right] = merges.find(tokens[left], tokens[right]);
  size_t most = 0; // threes, those that come again among them
  for (int id = 0; id < words.size(); ++id)
    if (const std::string *text = words.text(id))
      most += text->size();
  const size_t bits = std::bit_ceil(std::clamp<size_t>(most, 1 << 12, 1 << 21));
  shift = 32 - std::countr_zero(bits);
  triples.resize(bits / 64);
  std::string bytes;
  for (int id = 0; id < words.size(); ++id) {
    bytes.clear();
    const std::string *text = words.text(id);
    if (!text || !appendBytes(bytes, *text))
      continue;
    for (size_t i = 0; i + 2 < bytes.size(); ++i) {
      const size_t bit = bitOf(reinterpret_cast<const uint8_t *>(bytes.data()) + i);
      triples[bit / 64] |= uint64_t(1) << (bit % 64);
    }
  }
}

void ByteWords::encode(std::string_view bytes, std::vector<int> &ids) const {
  const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  const size_t size = bytes.size();
  int symbols[fewSymbols];
  Merge found[fewSymbols];
  for (size_t begin = 0, end = 0; begin < size; begin = end) {
    bool left = false; // the three that ends behind the next byte is there
    for (end = begin; end < size;) {
      const size_t at = end++, count = at - begin;
      const Merge merge = end < size ? starts[size_t(data[at]) << 8 | data[end]] : Merge();
      const bool right = end + 1 < size && has(data + at);
      if (count < fewSymbols) {
        symbols[count] = tokens[data[at]];
        found[count] = merge;
      }
      if (merge.rank == Merge::none && !left && !right)
        break;
      left = right;
    }
    size_t count = end - begin;
    if (count > fewSymbols) {
      joinMany(data + begin, count, ids);
      continue;
    }
    if (count > 1)
      count = joinFew(merges, symbols, found, count);
    ids.insert(ids.end(), symbols, symbols + count);
  }
}

void ByteWords::joinMany(const uint8_t *data, size_t count, std::vector<int> &ids) const {
  const size_t first = ids.size();
  std::vector<Merge> found(count);
  for (size_t i = 0; i < count; ++i) {
    ids.push_back(tokens[data[i]]);
    if (i + 1 < count)
      found[i] = starts[size_t(data[i]) << 8 | data[i + 1]];
  }
  runtime::joinMany(merges, ids, first, found);
}

} // namespace quern::runtime
