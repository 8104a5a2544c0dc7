// The tokens of words that one text has already had: in most texts nearly all words come again.
#ifndef QUERN_RUNTIME_TOKENIZER_MODEL_WORDCACHE_H
#define QUERN_RUNTIME_TOKENIZER_MODEL_WORDCACHE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// Lives as long as one call to encode, so that it needs no lock. Long words are not kept, and where there are too many
/// all are forgotten.
class WordCache {
public:
  static constexpr size_t longest = 64;

  /// Appends the tokens of a word that is known; `hash` is for add().
  bool find(std::string_view word, std::vector<int> &to, size_t &hash) const {
    hash = std::hash<std::string_view>()(word);
    if (table.empty())
      return false;
    for (size_t at = hash & (table.size() - 1); table[at].length > 0; at = (at + 1) & (table.size() - 1)) {
      const Entry &entry = table[at];
      if (entry.hash == uint32_t(hash) && std::string_view(texts).substr(entry.text, entry.length) == word) {
        to.insert(to.end(), tokens.begin() + entry.token, tokens.begin() + entry.token + entry.count);
        return true;
      }
    }
    return false;
  }

  /// Its tokens: those from `from` on. The word is not known, not empty and at most `longest` bytes.
  void add(std::string_view word, size_t hash, const std::vector<int> &of, size_t from) {
    if (entries * 2 >= table.size())
      grow();
    const Entry entry{uint32_t(hash), uint32_t(texts.size()), uint32_t(tokens.size()), uint16_t(word.size()),
                      uint16_t(of.size() - from)};
    if (of.size() - from > UINT16_MAX)
      return;
    texts += word;
    tokens.insert(tokens.end(), of.begin() + std::ptrdiff_t(from), of.end());
    place(entry);
    ++entries;
  }

private:
  struct Entry {
    uint32_t hash, text, token;
    uint16_t length = 0, count; // length 0: free
  };
  std::vector<Entry> table;
  std::string texts;
  std::vector<int> tokens;
  size_t entries = 0;

  void place(const Entry &entry) {
    size_t at = entry.hash & (table.size() - 1);
    while (table[at].length > 0)
      at = (at + 1) & (table.size() - 1);
    table[at] = entry;
  }
  void grow() {
    if (table.size() >= 1 << 16) {
      table.assign(table.size(), {});
      texts.clear();
      tokens.clear();
      entries = 0;
      return;
    }
    std::vector<Entry> old(table.empty() ? 64 : table.size() * 4);
    old.swap(table);
    for (const Entry &entry : old)
      if (entry.length > 0)
        place(entry);
  }
};

} // namespace quern::runtime
#endif
