// Byte-pair encoding itself: which two tokens make which one, how soon, and joining them.
#ifndef QUERN_RUNTIME_TOKENIZER_MODEL_JOINING_H
#define QUERN_RUNTIME_TOKENIZER_MODEL_JOINING_H

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace quern::runtime {

struct Merge {
  static constexpr int none = std::numeric_limits<int>::max(), highest = 1 << 25;
  int rank = none, id = -1; // below `highest`; lower ranks go first; `none`: the two are not joined
};

/// One open-addressed table of 16 bytes an entry, at most two thirds full: looked up for every pair of every word. Most
/// are not in it; a set of bits, which is small enough for the caches, says so first.
class MergeTable {
public:
  void reserve(size_t count) {
    const size_t size = std::bit_ceil(std::max<size_t>(64, count + count / 2));
    table.assign(size, {});
    some.assign(size / 8, 0);
  }
  /// Keeps the first of equal pairs; no more than what was reserved.
  void add(int left, int right, Merge merge) {
    const uint64_t hash = hashOf(left, right);
    Entry &entry = table[place(hash, left, right)];
    if (entry.merge.rank == Merge::none)
      entry = {left, right, merge};
    some[hash >> 8 & (some.size() - 1)] |= uint64_t(1) << (hash & 63);
    count = std::max(count, size_t(merge.rank) + 1);
  }
  /// One more than the highest rank.
  size_t ranks() const { return count; }
  Merge find(int left, int right) const {
    const uint64_t hash = hashOf(left, right);
    if (!(some[hash >> 8 & (some.size() - 1)] >> (hash & 63) & 1))
      return {};
    return table[place(hash, left, right)].merge;
  }

private:
  struct Entry {
    int left = -1, right = -1;
    Merge merge;
  };
  std::vector<Entry> table = std::vector<Entry>(1);
  std::vector<uint64_t> some = std::vector<uint64_t>(1); // a bit of each pair that is there
  size_t count = 0;

  static uint64_t hashOf(int left, int right) {
    const uint64_t key = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
    return (key * 0x9e3779b97f4a7c15ull) >> 24;
  }
  /// Where the pair is, or else would be.
  size_t place(uint64_t hash, int left, int right) const {
    size_t at = size_t(hash >> 8) & (table.size() - 1);
    while (table[at].merge.rank != Merge::none && (table[at].left != left || table[at].right != right))
      at = (at + 1) & (table.size() - 1);
    return at;
  }
};

/// Joins ids[first ...] in place: the pair of lowest rank first, of equal ones the leftmost. O(n log n).
void joinSymbols(const MergeTable &merges, std::vector<int> &ids, size_t first);

/// Its two ways, for which it is known what each symbol makes with the next (the last one: nothing). Up to so many
/// symbols, looking at all pairs for each join is the fastest.
constexpr size_t fewSymbols = 48;
/// How many remain.
size_t joinFew(const MergeTable &merges, int *symbols, const Merge *found, size_t count);
void joinMany(const MergeTable &merges, std::vector<int> &ids, size_t first, const std::vector<Merge> &found);

} // namespace quern::runtime
#endif
