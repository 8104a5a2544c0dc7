// How products want their weights packed: what code generation says and passes follow.
#ifndef QUERN_IR_PACKINGRULE_H
#define QUERN_IR_PACKINGRULE_H

#include <cstdint>
#include <functional>

namespace quern::ir {

struct PackingRule {
  /// How many rows of a weight [rows, inner] are in one tile; 0: the weight stays as it is stored.
  std::function<int64_t(int64_t rows, int64_t inner)> tile = [](int64_t, int64_t) { return 0; };
  bool pairs = false; ///< of bf16 two numbers along `inner` beside each other, where it is even
  int64_t operator()(int64_t rows, int64_t inner) const { return tile(rows, inner); }
};

} // namespace quern::ir
#endif
