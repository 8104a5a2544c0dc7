// What texts keep between calls: caches, running sums, and what is computed once a request.
#ifndef QUERN_RUNTIME_ENGINE_CACHE_H
#define QUERN_RUNTIME_ENGINE_CACHE_H

#include "runtime/abi/Description.h"
#include "runtime/machine/Memory.h"

#include <vector>

namespace quern::runtime {

class Cache;

/// A text's part of some cache: row `row`; its positions [0, length) are in the slots from `shift` on.
struct CacheRow {
  const Cache *from;
  int64_t row, shift, length;
};

/// The program's states for the rows of one batch. Each is [iterations, rows, positions, ...], where iterations and positions may
/// be missing.
class Cache {
public:
  /// Without a device: that of the first call it is for.
  explicit Cache(Device &device = Device::cpu()) : kept(device), device(&device) {}
  /// Room for the lengths given; what is in it stays if only the room for positions has grown.
  void ensure(const Description &description, int function, const std::vector<int64_t> &sizes);
  /// A text begins, so its running sums do, too. Caches are written before they are read.
  void clearSums(const Description &description);
  /// A cache of the lengths `sizes` that holds these rows, in this order; all of them end at slot `end`.
  static Cache gather(Device &device, const Description &description, int function, const std::vector<int64_t> &sizes,
                      const std::vector<CacheRow> &rows, int64_t end);

  /// Row `to` becomes what row `from` is in its first `length` slots.
  void copyRow(const Description &description, int64_t from, int64_t to, int64_t length);
  /// The same cache again; of positions only the first `length`.
  Cache clone(const Description &description, int64_t length) const;

  /// Bytes of the states that a function uses.
  static uint64_t plannedBytes(const Description &description, int function, const std::vector<int64_t> &sizes);
  /// Whether the states of a function have the form that `gather` moves.
  static bool movesRows(const Description &description, int function);
  /// Whether two functions keep the same.
  static bool sameStates(const Description &description, int one, int other);
  /// Whether a text can go back to an earlier position: no ring or running sum has forgotten what was there.
  static bool rewinds(const Description &description, int function);

  bool empty() const { return states.empty() && !kept.size(); }
  /// For quern_call.
  std::vector<void *> pointers() const;
  /// Bytes that are in memory because somebody used them, in whole pages.
  uint64_t touched() const;
  /// Values of the request.
  Buffer kept;

private:
  Device *device;
  struct State {
    Buffer memory;
    std::vector<int64_t> shape;
  };
  std::vector<State> states;
};

} // namespace quern::runtime
#endif
