// The tokens of words that came before: in most texts nearly all words come again.
#ifndef QUERN_RUNTIME_TOKENIZER_MODEL_WORDCACHE_H
#define QUERN_RUNTIME_TOKENIZER_MODEL_WORDCACHE_H

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::runtime {

/// Words of at most `longest` bytes with as many tokens, in a table of pairs of lines: a look at two lines says all,
/// whatever the words. The second line of a pair is for what came last; what comes again moves to the first.
template <size_t longest, size_t pairs> class WordLines {
public:
  /// Appends the tokens of a word that is known; `hash` is of that word.
  bool find(std::string_view word, uint64_t hash, std::vector<int> &to) {
    if (!lines)
      return false;
    Line *pair = &lines[hash % pairs * 2];
    if (!pair[0].is(word)) {
      if (!pair[1].is(word))
        return false;
      std::swap(pair[0], pair[1]);
    }
    for (size_t i = 0; i < pair[0].count; ++i)
      to.push_back(pair[0].tokens[i]);
    return true;
  }
  /// Those from `from` on are its tokens. It is not known.
  void add(std::string_view word, uint64_t hash, const std::vector<int> &of, size_t from) {
    if (!lines) // pages that are zero cost nothing until they are used
      lines.reset(static_cast<Line *>(std::calloc(pairs * 2, sizeof(Line))));
    if (!lines)
      throw std::bad_alloc();
    if (of.size() - from > longest)
      return;
    Line &line = lines[hash % pairs * 2 + 1];
    line.length = uint8_t(word.size());
    line.count = uint8_t(of.size() - from);
    std::memcpy(line.text, word.data(), word.size());
    std::memcpy(line.tokens, of.data() + from, line.count * sizeof(int));
  }

private:
  struct Line {
    uint8_t length, count; // length 0: free
    char text[longest];
    int tokens[longest];
    bool is(std::string_view word) const { return length == word.size() && same(text, word.data(), length); }
  };
  static_assert(longest < 256);
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  std::unique_ptr<Line[], Free> lines;

  template <typename Number> static Number at(const char *text) {
    Number number;
    std::memcpy(&number, text, sizeof number);
    return number;
  }
  static bool same(const char *a, const char *b, size_t size) {
    if (size < 4) {
      for (size_t i = 0; i < size; ++i)
        if (a[i] != b[i])
          return false;
      return true;
    }
    if (size < 8)
      return at<uint32_t>(a) == at<uint32_t>(b) && at<uint32_t>(a + size - 4) == at<uint32_t>(b + size - 4);
    for (size_t i = 0; i + 8 < size; i += 8)
      if (at<uint64_t>(a + i) != at<uint64_t>(b + i))
        return false;
    return at<uint64_t>(a + size - 8) == at<uint64_t>(b + size - 8);
  }
};

class WordCache {
public:
  static constexpr size_t longest = 38;

  /// Appends the tokens of a word that is known; `hash` is for add(). The word is not empty and at most `longest` bytes.
  bool find(std::string_view word, std::vector<int> &to, uint64_t &hash) {
    hash = hashOf(word);
    return word.size() <= few ? small.find(word, hash, to) : large.find(word, hash, to);
  }
  /// Its tokens: those from `from` on. The word is not known.
  void add(std::string_view word, uint64_t hash, const std::vector<int> &of, size_t from) {
    word.size() <= few ? small.add(word, hash, of, from) : large.add(word, hash, of, from);
  }

private:
  static constexpr size_t few = 12; // so many bytes and tokens fill a line of the processor's cache
  WordLines<few, 1 << 14> small;
  WordLines<longest, 1 << 11> large;

  static uint64_t hashOf(std::string_view word) {
    uint64_t hash = word.size();
    const char *text = word.data();
    size_t left = word.size();
    const auto mix = [&](uint64_t some) { hash = std::rotl((hash ^ some) * 0x9e3779b97f4a7c15u, 32); };
    for (; left >= 8; left -= 8, text += 8) {
      uint64_t eight;
      std::memcpy(&eight, text, 8);
      mix(eight);
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < left; ++i)
      rest = rest << 8 | static_cast<unsigned char>(text[i]);
    mix(rest);
    return hash * 0x9e3779b97f4a7c15u >> 32;
  }
};

/// Those of a tokenizer that no thread works with.
class WordCaches {
public:
  /// One for as long as this lives, and what it has learnt for the next one.
  class Lent {
  public:
    explicit Lent(WordCaches &of) : of(of) {
      const std::lock_guard lock(of.mutex);
      if (!of.idle.empty()) {
        cache = std::move(of.idle.back());
        of.idle.pop_back();
      } else {
        cache = std::make_unique<WordCache>();
      }
    }
    ~Lent() {
      const std::lock_guard lock(of.mutex);
      of.idle.push_back(std::move(cache));
    }
    Lent(const Lent &) = delete;
    Lent &operator=(const Lent &) = delete;
    WordCache &operator*() const { return *cache; }

  private:
    WordCaches &of;
    std::unique_ptr<WordCache> cache;
  };

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<WordCache>> idle;
};

} // namespace quern::runtime
#endif
