// Byte-pair encoding itself: which two tokens make which one, how soon, and joining them.
#ifndef QUERN_RUNTIME_TOKENIZER_MODEL_JOINING_H
#define QUERN_RUNTIME_TOKENIZER_MODEL_JOINING_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace quern::runtime {

struct Merge {
  static constexpr int none = std::numeric_limits<int>::max();
  int rank = none, id = -1; // lower ranks go first; `none`: the two are not joined
};

/// One open-addressed table of 16 bytes an entry, at most two thirds full: looked up for every pair of every word.
class MergeTable {
public:
  void reserve(size_t count) {
    size_t size = 64;
    while (size * 2 < count * 3)
      size *= 2;
    table.assign(size, {});
  }
  /// Keeps the first of equal pairs; no more than what was reserved.
  void add(int left, int right, Merge merge) {
    Entry &entry = table[place(left, right)];
    if (entry.merge.rank == Merge::none)
      entry = {left, right, merge};
    count = std::max(count, size_t(merge.rank) + 1);
  }
  /// One more than the highest rank.
  size_t ranks() const { return count; }
  Merge find(int left, int right) const { return table[place(left, right)].merge; }

private:
  struct Entry {
    int left = -1, right = -1;
    Merge merge;
  };
  std::vector<Entry> table = std::vector<Entry>(1);
  size_t count = 0;

  /// Where the pair is, or else would be.
  size_t place(int left, int right) const {
    const uint64_t key = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
    size_t at = size_t((key * 0x9e3779b97f4a7c15ull) >> 32) & (table.size() - 1);
    while (table[at].merge.rank != Merge::none && (table[at].left != left || table[at].right != right))
      at = (at + 1) & (table.size() - 1);
    return at;
  }
};

/// Joins ids[first ...] in place: the pair of lowest rank first, of equal ones the leftmost. O(n log n).
void joinSymbols(const MergeTable &merges, std::vector<int> &ids, size_t first);

} // namespace quern::runtime
#endif
