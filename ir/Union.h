// The order of the dimensions that several tensors have together: one rule, for values that are checked and for types.
#ifndef QUERN_IR_UNION_H
#define QUERN_IR_UNION_H

#include <algorithm>
#include <vector>

namespace quern::ir {

/// The dimensions of an elementwise result: those of the operand of highest rank (the first of equals) in order. What it
/// lacks of the others stands before it, if they have it before the first of these ([E, N] and [B, E] give [B, E, N]:
/// rows stay outermost), else behind. `lists`: the operands' dimensions; `same`: whether two dimensions are one.
template <typename Dim, typename Lists, typename Same> std::vector<Dim> uniteDims(const Lists &lists, Same same) {
  std::vector<Dim> dims;
  for (const auto &list : lists)
    if (list.size() > dims.size())
      dims.assign(list.begin(), list.end());
  auto has = [&](const auto &list, const Dim &dim) {
    return std::any_of(list.begin(), list.end(), [&](const Dim &other) { return same(other, dim); });
  };
  for (const auto &list : lists) {
    std::vector<Dim> before, behind; // what `dims` lacks
    bool passed = dims.empty() || !has(list, dims[0]);
    for (const Dim &dim : list) {
      passed |= !dims.empty() && same(dim, dims[0]);
      if (!has(dims, dim))
        (passed ? behind : before).push_back(dim);
    }
    dims.insert(dims.begin(), before.begin(), before.end());
    dims.insert(dims.end(), behind.begin(), behind.end());
  }
  return dims;
}

} // namespace quern::ir
#endif
