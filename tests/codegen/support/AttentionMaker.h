// Attention over a cache, whose scores a test makes.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_ATTENTIONMAKER_H
#define QUERN_TESTS_CODEGEN_SUPPORT_ATTENTIONMAKER_H

#include "tests/codegen/support/Compare.h"

#include <cmath>

namespace quern::codegen {

/// q [B, T, G, R, K], k and v [B, S, G, K] with S = past + T; K may differ for v. `cache`: how k and v are stored; where products are `narrow`, in bf16.
struct Attention : GraphMaker {
  ir::Size past = ir::Size::symbol("past"), length = ir::Size::symbol("T") + past;
  Dim B = dim("B"), T = dim("T"), S = dim("S", length), G, R, K, V;
  int q, k, v, score;
  bool inBF16; ///< what its products multiply is in bf16, weights too

  Attention(int64_t groups, int64_t each, int64_t depth, int64_t columns,
            std::vector<std::pair<Storage, std::vector<Dim>>> more = {}, Storage cache = Storage::F32,
            int64_t positions = 600, bool narrow = false)
      : G(dim("G", groups)), R(dim("R", each)), K(dim("K", depth)), V(dim("V", columns)), inBF16(narrow) {
    q = argument(narrow ? Storage::BF16 : Storage::F32, {B, T, G, R, K});
    int64_t row = groups * depth, vrow = groups * columns;
    k = argument(cache, {B, S, G, K}, {row * positions, row, depth, 1});
    v = argument(cache, {B, S, G, V}, {vrow * positions, vrow, columns, 1});
    for (auto &[storage, dims] : more)
      extra.push_back(argument(storage, dims));
    if (cache != Storage::F32)
      k = elementwise(Op::Widen, {k}), v = elementwise(Op::Widen, {v});
    q = narrow ? elementwise(Op::Widen, {q}) : q;
    score = elementwise(Op::Mul, {contract(q, k, {"K"}), constant(0.3)});
  }
  std::vector<int> extra;
  int queryPosition() { return elementwise(Op::Add, {index(T), size(past)}); }
  void finishWith(int scores) { yield(attention(scores, v, "S", {}, inBF16)); }
  /// Keys up to the query's position, and no more than `window` of them.
  int masked(int64_t window = 0) {
    int mask = compare(Predicate::Le, index(S), queryPosition());
    if (window)
      mask = elementwise(
          Op::And, {mask, compare(Predicate::Gt, index(S), elementwise(Op::Sub, {queryPosition(), integer(window)}))});
    return elementwise(Op::Where, {mask, score, constant(-INFINITY)});
  }
};

} // namespace quern::codegen
#endif
