// Difference bounds between positions: what a mask says about index(S) and index(T).
#ifndef QUERN_PASSES_TIME_TIMEBOUNDS_H
#define QUERN_PASSES_TIME_TIMEBOUNDS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace quern::passes {

using Label = std::string; // the name of a dimension along time
using Renaming = std::map<Label, Label>;

/// The constant zero among the variables of bounds.
inline const Label zero = "0";

inline const Label &renamed(const Renaming &table, const Label &label) {
  auto at = table.find(label);
  return at == table.end() ? label : at->second;
}

/// A conjunction of `index(a) - index(b) <= c`, a and b labels or `zero`; or *never*, which implies everything. No
/// bounds at all is *always possible*. Always closed under transitivity, so reading one bound is a look-up.
class Bounds {
public:
  Bounds() = default;
  static Bounds never();

  bool isNever() const { return impossible; }
  /// The best c of `index(a) - index(b) <= c`; nothing if unbounded. Not to be asked of *never*.
  std::optional<int64_t> get(const Label &a, const Label &b) const;
  void add(const Label &a, const Label &b, int64_t c);
  /// Shortest paths; to be called after adding.
  void close();

  Bounds renamedBy(const Renaming &table) const;
  /// What still holds when nothing is known about these labels.
  Bounds without(const std::set<Label> &labels) const;
  bool operator==(const Bounds &o) const { return impossible == o.impossible && bounds == o.bounds; }
  bool operator!=(const Bounds &o) const { return !(*this == o); }

  friend Bounds conj(const Bounds &a, const Bounds &b); // both hold
  friend Bounds join(const Bounds &a, const Bounds &b); // one of them holds

private:
  bool impossible = false;
  std::map<std::pair<Label, Label>, int64_t> bounds;
};

Bounds conj(const Bounds &a, const Bounds &b);
Bounds join(const Bounds &a, const Bounds &b);

} // namespace quern::passes
#endif
