// Takes: comparisons of positions. Gives: what follows from them, by shortest paths over a handful of variables (a
// difference-bound matrix kept sparse). Why: every causal mask in practice is a conjunction of differences.
#include "passes/time/TimeBounds.h"

#include <algorithm>

using namespace quern::passes;

Bounds Bounds::never() {
  Bounds b;
  b.impossible = true;
  return b;
}

std::optional<int64_t> Bounds::get(const Label &a, const Label &b) const {
  auto at = bounds.find({a, b});
  if (at != bounds.end())
    return at->second;
  if (a == zero) // positions are at least 0
    return 0;
  return std::nullopt;
}

void Bounds::add(const Label &a, const Label &b, int64_t c) {
  auto [at, isNew] = bounds.try_emplace({a, b}, c);
  if (!isNew)
    at->second = std::min(at->second, c);
}

void Bounds::close() {
  if (impossible)
    return;
  std::set<Label> labels = {zero};
  for (auto &[pair, c] : bounds) {
    labels.insert(pair.first);
    labels.insert(pair.second);
  }
  for (const Label &label : labels)
    if (label != zero)
      add(zero, label, 0);
  for (const Label &via : labels)
    for (const Label &a : labels)
      for (const Label &b : labels) {
        auto first = bounds.find({a, via}), second = bounds.find({via, b});
        if (first == bounds.end() || second == bounds.end())
          continue;
        int64_t c = first->second + second->second;
        if (a != b)
          add(a, b, c);
        else if (c < 0)
          impossible = true;
      }
  if (impossible)
    bounds.clear();
}

Bounds Bounds::renamedBy(const Renaming &table) const {
  Bounds out;
  out.impossible = impossible;
  for (auto &[pair, c] : bounds)
    out.bounds[{renamed(table, pair.first), renamed(table, pair.second)}] = c;
  return out;
}

Bounds Bounds::without(const std::set<Label> &labels) const {
  Bounds out;
  out.impossible = impossible;
  for (auto &[pair, c] : bounds)
    if (!labels.count(pair.first) && !labels.count(pair.second))
      out.bounds[pair] = c;
  return out;
}

Bounds quern::passes::conj(const Bounds &a, const Bounds &b) {
  if (a.impossible || b.impossible)
    return Bounds::never();
  Bounds out = a;
  for (auto &[pair, c] : b.bounds)
    out.add(pair.first, pair.second, c);
  out.close();
  return out;
}

Bounds quern::passes::join(const Bounds &a, const Bounds &b) {
  if (a.impossible)
    return b;
  if (b.impossible)
    return a;
  Bounds out;
  for (const Bounds *side : {&a, &b})
    for (auto &[pair, c] : side->bounds) {
      std::optional<int64_t> x = a.get(pair.first, pair.second), y = b.get(pair.first, pair.second);
      if (x && y)
        out.bounds[pair] = std::max(*x, *y);
    }
  return out;
}
