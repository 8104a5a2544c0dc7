// Attention as models write it, for tests of its tile programs.
#ifndef QUERN_TESTS_CODEGEN_TILE_ATTENTIONMAKER_H
#define QUERN_TESTS_CODEGEN_TILE_ATTENTIONMAKER_H

#include "tests/codegen/tile/TileCheck.h"

namespace quern::codegen::tile {

/// q [B, T, G, R, K] in f32, k and v [B, S, G, K] in caches of 600 positions, S = past + T; K may differ for v. Of codes there
/// is a scale for each row.
struct Attention : Maker {
  ir::Size past = ir::Size::symbol("past"), length = ir::Size::symbol("T") + past;
  Dim B = dim("B"), T = dim("T"), S = dim("S", length), G, R, K, V;
  int q, k, v, score;
  std::vector<int> extra;

  Attention(Storage cache, int64_t groups, int64_t each, int64_t depth, int64_t columns,
            std::vector<std::pair<Storage, std::vector<Dim>>> more = {})
      : G(dim("G", groups)), R(dim("R", each)), K(dim("K", depth)), V(dim("V", columns)) {
    q = argument(Storage::F32, {B, T, G, R, K});
    int64_t row = groups * depth, vrow = groups * columns;
    k = argument(cache, {B, S, G, K}, {row * 600, row, depth, 1});
    v = argument(cache, {B, S, G, V}, {vrow * 600, vrow, columns, 1});
    for (auto &[storage, dims] : more)
      extra.push_back(argument(storage, dims));
    if (cache == Storage::BF16)
      k = widen(k), v = widen(v);
    if (cache == Storage::I8) {
      int ofKeys = argument(Storage::BF16, {B, S, G}, {groups * 600, groups, 1}),
          ofValues = argument(Storage::BF16, {B, S, G}, {groups * 600, groups, 1});
      k = elementwise(Op::Rescale, {k, ofKeys}), v = elementwise(Op::Rescale, {v, ofValues});
    }
    score = elementwise(Op::Mul, {contract(q, k, {"K"}), constant(cache == Storage::I8 ? 0.003 : 0.3)});
  }
  int queryPosition() { return elementwise(Op::Add, {index(T), size(past)}); }
  int causal() { return compare(Predicate::Le, index(S), queryPosition()); }
  int where(int mask, int then, int otherwise) { return elementwise(Op::Where, {mask, then, otherwise}); }
  int masked(int scores) { return where(causal(), scores, constant(-INFINITY)); }
  const KernelGraph &with(int scores) {
    yield(attention(scores, v, "S"));
    return finish("attention");
  }
};

} // namespace quern::codegen::tile
#endif
