// Takes: symbols and merges. Gives: tokens.
//
// In a short word the least rank is looked for anew each time. In a long one (base64, or a whole text where nothing splits
// words) symbols form a linked list; pairs that can be joined wait until their rank is the least. What waits is a rank and a
// place: stale where the pair there has another rank by then.
#include "runtime/tokenizer/model/Joining.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace quern::runtime {

namespace {

/// Pairs in a heap: for some thousand of them, which are in the cache.
class Heap {
public:
  explicit Heap(size_t) {}
  void push(int rank, int at) {
    heap.push_back(uint64_t(uint32_t(rank)) << 32 | uint32_t(at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  bool pop(int &rank, int &at) {
    if (heap.empty())
      return false;
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    rank = int(heap.back() >> 32);
    at = int(uint32_t(heap.back()));
    heap.pop_back();
    return true;
  }

private:
  std::vector<uint64_t> heap;
};

/// A list of places for each rank, and a heap of the ranks alone: the lists are written and read in order, where a heap of
/// a million pairs would miss the cache at each step.
class Buckets {
public:
  explicit Buckets(size_t ranks) : bucketOf(ranks, -1) {}

  void push(int rank, int at) {
    int &number = bucketOf[size_t(rank)];
    if (number < 0) {
      number = int(buckets.size());
      buckets.emplace_back();
    }
    Bucket &bucket = buckets[size_t(number)];
    if (!bucket.waits) {
      bucket.waits = true;
      ranks.push_back(rank);
      std::push_heap(ranks.begin(), ranks.end(), std::greater<>());
    }
    bucket.sorted &= bucket.places.empty() || bucket.places.back() <= at;
    bucket.places.push_back(at);
  }

  bool pop(int &rank, int &at) {
    while (!ranks.empty()) {
      rank = ranks.front();
      Bucket &bucket = buckets[size_t(bucketOf[size_t(rank)])];
      if (bucket.done < bucket.places.size()) {
        if (!bucket.sorted) {
          std::sort(bucket.places.begin() + std::ptrdiff_t(bucket.done), bucket.places.end());
          bucket.sorted = true;
        }
        at = bucket.places[bucket.done++];
        return true;
      }
      std::pop_heap(ranks.begin(), ranks.end(), std::greater<>());
      ranks.pop_back();
      bucket = {};
    }
    return false;
  }

private:
  struct Bucket {
    std::vector<int> places;
    size_t done = 0; // how many of them have been given out
    bool sorted = true, waits = false;
  };
  std::vector<int> bucketOf; // by rank
  std::vector<Bucket> buckets;
  std::vector<int> ranks; // of the buckets that wait
};

/// From so many symbols on, a heap misses the cache.
constexpr size_t manySymbols = 4096;

class LongWord {
public:
  LongWord(const MergeTable &merges, std::vector<int> &ids, size_t first) : merges(merges), ids(ids), first(first) {}
  void run(const std::vector<Merge> &found);

private:
  /// In the list of what remains; `rank` is of the pair with the next one, `made` what they make.
  struct Symbol {
    int id, previous, next, rank, made;
  };
  const MergeTable &merges;
  std::vector<int> &ids;
  size_t first;
  std::vector<Symbol> symbols;

  bool look(int at);
  void join(int at);
  template <typename Waiting> void joinAll(Waiting waiting);
};

/// Looks up the pair at a place; whether it can be joined.
bool LongWord::look(int at) {
  Symbol &symbol = symbols[size_t(at)];
  const Merge merge = symbol.next < 0 ? Merge() : merges.find(symbol.id, symbols[size_t(symbol.next)].id);
  symbol.rank = merge.rank;
  symbol.made = merge.id;
  return merge.rank != Merge::none;
}

void LongWord::join(int at) {
  Symbol &left = symbols[size_t(at)], &right = symbols[size_t(left.next)];
  left.id = left.made;
  left.next = right.next;
  right.rank = Merge::none;
  if (left.next >= 0)
    symbols[size_t(left.next)].previous = at;
}

template <typename Waiting> void LongWord::joinAll(Waiting waiting) {
  for (int at = 0; at < int(symbols.size()); ++at)
    if (const int rank = symbols[size_t(at)].rank; rank != Merge::none)
      waiting.push(rank, at);
  for (int rank, at; waiting.pop(rank, at);) {
    if (symbols[size_t(at)].rank != rank)
      continue;
    join(at);
    for (int changed : {symbols[size_t(at)].previous, at})
      if (changed >= 0 && look(changed))
        waiting.push(symbols[size_t(changed)].rank, changed);
  }
}

void LongWord::run(const std::vector<Merge> &found) {
  const int count = int(found.size());
  symbols.reserve(size_t(count));
  for (int i = 0; i < count; ++i)
    symbols.push_back(
        {ids[first + size_t(i)], i - 1, i + 1 < count ? i + 1 : -1, found[size_t(i)].rank, found[size_t(i)].id});
  if (symbols.size() < manySymbols)
    joinAll(Heap(merges.ranks()));
  else
    joinAll(Buckets(merges.ranks()));
  ids.resize(first);
  for (int at = 0; at >= 0; at = symbols[size_t(at)].next)
    ids.push_back(symbols[size_t(at)].id);
}

} // namespace

size_t joinFew(const MergeTable &merges, int *symbols, const Merge *found, size_t count) {
  static_assert(fewSymbols <= 64);
  constexpr uint32_t none = UINT32_MAX;
  uint32_t order[fewSymbols]; // rank and place of what each symbol makes with the next
  int made[fewSymbols];
  uint8_t next[fewSymbols], previous[fewSymbols + 1]; // of those that remain
  const auto put = [&](size_t at, const Merge &merge) {
    order[at] = merge.rank == Merge::none ? none : uint32_t(merge.rank) << 6 | uint32_t(at);
    made[at] = merge.id;
  };
  for (size_t i = 0; i < count; ++i) {
    next[i] = uint8_t(i + 1);
    previous[i + 1] = uint8_t(i);
    put(i, found[i]);
  }
  for (;;) {
    uint32_t least = none;
    for (size_t i = 0; i < count; ++i)
      least = std::min(least, order[i]);
    if (least == none)
      break;
    const size_t at = least & 63, gone = next[at], behind = next[gone];
    symbols[at] = made[at];
    next[at] = uint8_t(behind);
    previous[behind] = uint8_t(at);
    order[gone] = none;
    put(at, behind < count ? merges.find(symbols[at], symbols[behind]) : Merge());
    if (at > 0)
      put(previous[at], merges.find(symbols[previous[at]], symbols[at]));
  }
  size_t left = 0;
  for (size_t at = 0; at < count; at = next[at])
    symbols[left++] = symbols[at];
  return left;
}

void joinMany(const MergeTable &merges, std::vector<int> &ids, size_t first, const std::vector<Merge> &found) {
  LongWord(merges, ids, first).run(found);
}

void joinSymbols(const MergeTable &merges, std::vector<int> &ids, size_t first) {
  const size_t count = ids.size() - first;
  if (count < 2)
    return;
  std::vector<Merge> found(count);
  for (size_t i = 0; i + 1 < count; ++i)
    found[i] = merges.find(ids[first + i], ids[first + i + 1]);
  if (count <= fewSymbols)
    ids.resize(first + joinFew(merges, ids.data() + first, found.data(), count));
  else
    joinMany(merges, ids, first, found);
}

} // namespace quern::runtime
