// Takes: an attention, or sums of its gradient. Gives: its function, for compute capability 8.0 or later.
//
//   rows go to shared memory as pieces of bf16
//   for each tile of keys:  cp.async fills the ring ahead, or all threads compute the tile's keys and values
//     sums of rows x keys by mma.sync, 16 rows a warp; the score of each sum in its register
//     a softmax: a larger score scales what was summed before; four lanes share a row, and shuffles find its largest
//     weights become the left factor as they are in registers: mma.sync adds weights x values
//   of each total: what the program's stores say
//
// A warp needs no other warp's scores, so there is one barrier for each tile (two where threads compute it). Keys beyond the
// last are zeros whose scores count nothing; rows beyond the last are computed from the last and not stored.
#include "codegen/tile/ptx/AttendIr.h"
#include "codegen/tile/ptx/PtxModule.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <algorithm>

using namespace llvm;

namespace quern::codegen::tile {

namespace {
class EveryIr : public AttendIr {
public:
  EveryIr(const Program &program, const Stage &stage, const std::string &name, Module &module)
      : AttendIr(program, stage, name, module), shape(sharedAttendOf(stage.attend)) {}

private:
  SharedAttend shape;

  // ---- shared memory

  /// All threads compute `count` rows or keys of a factor, two numbers at a time. `own`: where they stand; beyond `limit`
  /// they are zeros.
  void fill(const Factor &factor, const SharedAttend::Part &part, llvm::Value *start, int count, llvm::Value *first,
            llvm::Value *limit, llvm::Value *last, const std::function<void(llvm::Value *, llvm::Value *)> &standAt) {
    int64_t pairs = factor.padded() / 2;
    Numbers none;
    loop(
        thread, number(count * pairs), number(a.threads()), none,
        [&](llvm::Value *i) {
          llvm::Value *own = divide(i, pairs), *inner = mul(rest(i, pairs), 2), *at = add(first, own);
          llvm::Value *isThere = b.CreateICmpSLT(at, limit), *place = least(at, last);
          Numbers two;
          for (int e = 0; e < 2; ++e) {
            llvm::Value *in = add(inner, e);
            standAt(place, least(in, number(factor.inner - 1)));
            llvm::Value *inside = b.CreateAnd(isThere, b.CreateICmpSLT(in, number(factor.inner)));
            two.push_back(b.CreateSelect(inside, get(factor.value), real(0)));
          }
          Numbers made = words(two[0], two[1], factor.pieces, false);
          llvm::Value *to = add(start, add(mul(own, part.pitch), mul(inner, 2)));
          for (size_t piece = 0; piece < made.size(); ++piece)
            b.CreateAlignedStore(made[piece], shared(add(to, part.start + int64_t(piece) * part.pieceBytes)), Align(4));
        },
        4);
  }
  void fillRows() {
    for (size_t d = 0; d < a.dots.size(); ++d)
      fill(a.dots[d].q, shape.q[d], number(0), a.rows, row0, add(row0, a.rows), lastRow(),
           [&](llvm::Value *row, llvm::Value *depth) { stand(row, number(0), group[2], depth); });
  }
  void fillKeys(llvm::Value *k0) {
    llvm::Value *start = number(shape.ring), *last = add(keys, -1);
    for (size_t d = 0; d < a.dots.size(); ++d)
      fill(a.dots[d].k, shape.k[d], start, a.keysTogether, k0, end, last,
           [&](llvm::Value *key, llvm::Value *depth) { stand(number(0), key, group[2], depth); });
    for (size_t t = 0; t < a.totals.size(); ++t)
      fill(a.totals[t].v, shape.v[t], start, a.keysTogether, k0, end, last,
           [&](llvm::Value *key, llvm::Value *column) { stand(number(0), column, group[2], key); });
  }
  void copyFactor(const Factor &factor, const SharedAttend::Part &part, llvm::Value *start, llvm::Value *k0,
                  bool ofValues) {
    int chunks = int(factor.padded() / 8);
    pieces(a.keysTogether * chunks, a.threads(), [&](llvm::Value *piece) {
      llvm::Value *own = divide(piece, chunks), *inner = mul(rest(piece, chunks), 8), *key = add(k0, own);
      llvm::Value *left =
          KernelIr::most(least(mul(b.CreateSub(number(factor.inner), inner), 2), number(16)), number(0));
      left = b.CreateSelect(b.CreateICmpSLT(key, end), left, number(0));
      inner = b.CreateSelect(b.CreateICmpSLT(inner, number(factor.inner)), inner, number(0));
      llvm::Value *place = least(key, add(keys, -1));
      ofValues ? stand(number(0), inner, group[2], place) : stand(number(0), place, group[2], inner);
      llvm::Value *to = shared(add(start, add(add(mul(own, part.pitch), part.start), mul(rest(piece, chunks), 16))));
      call(Intrinsic::nvvm_cp_async_cg_shared_global_16_s,
           {to, address(factor.copied->buffer, factor.copied->at), left});
    });
  }
  llvm::Value *slotStart(llvm::Value *slot) { return add(mul(slot, shape.slotBytes), shape.ring); }
  void copyKeys(llvm::Value *slot, llvm::Value *k0) {
    for (size_t d = 0; d < a.dots.size(); ++d)
      copyFactor(a.dots[d].k, shape.k[d], slotStart(slot), k0, false);
    for (size_t t = 0; t < a.totals.size(); ++t)
      copyFactor(a.totals[t].v, shape.v[t], slotStart(slot), k0, true);
    commitCopies();
  }

  // ---- products

  using Fragments = std::vector<std::vector<Numbers>>; ///< [block][piece]
  Fragments fragments(int pieces) const {
    std::vector<Numbers> none(static_cast<size_t>(pieces));
    return Fragments(static_cast<size_t>(blocks), none);
  }
  llvm::Value *in() { return rest(lane, 8); }
  llvm::Value *odd() { return rest(divide(lane, 8), 2); }
  llvm::Value *high() { return divide(lane, 16); }

  /// [block][8 keys][4] of a dot.
  Numbers products(size_t d, llvm::Value *start) {
    const Factor &q = a.dots[d].q, &k = a.dots[d].k;
    const SharedAttend::Part &ofQ = shape.q[d], &ofK = shape.k[d];
    int wide = a.keysTogether / 8, deepest = std::max(q.pieces, k.pieces);
    Numbers made(size_t(blocks * wide * 4), real(0));
    for (int depth = 0; depth < q.padded(); depth += 16) {
      Fragments x = fragments(q.pieces);
      for (int i = 0; i < blocks; ++i)
        for (int piece = 0; piece < q.pieces; ++piece) {
          llvm::Value *own = add(add(warpRow, add(in(), mul(odd(), 8))), 16 * i);
          x[size_t(i)][size_t(piece)] = matrices(
              add(mul(own, ofQ.pitch), add(mul(high(), 16), 2 * depth + ofQ.start + piece * ofQ.pieceBytes)), false);
        }
      for (int j = 0; j < wide; j += 2)
        for (int piece = 0; piece < k.pieces; ++piece) {
          llvm::Value *own = add(add(in(), mul(high(), 8)), 8 * j);
          Numbers w = matrices(
              add(add(start, mul(own, ofK.pitch)), add(mul(odd(), 16), 2 * depth + ofK.start + piece * ofK.pieceBytes)),
              false);
          for (int i = 0; i < blocks; ++i)
            for (int other = 0; other < q.pieces && other + piece < deepest; ++other)
              for (int half = 0; half < 2; ++half)
                multiplyAdd(x[size_t(i)][size_t(other)], w[2 * size_t(half)], w[2 * size_t(half) + 1],
                            &made[4 * size_t(i * wide + j + half)]);
        }
    }
    return made;
  }

  /// Adds weights [block][8 keys][4] times values to a total.
  void addWeighted(size_t t, const Numbers &weights, llvm::Value *start) {
    const Factor &v = a.totals[t].v;
    const SharedAttend::Part &part = shape.v[t];
    int wide = a.keysTogether / 8, ofWeights = a.totals[t].pieces, deepest = std::max(ofWeights, v.pieces);
    for (int j = 0; j < wide; j += 2) {
      Fragments x = fragments(ofWeights);
      for (int i = 0; i < blocks; ++i)
        for (int pair = 0; pair < 4; ++pair) { // rows 0-7 and 8-15 of the first eight keys, then of the next
          size_t at = 4 * size_t(i * wide + j + pair / 2) + 2 * size_t(pair % 2);
          Numbers made = words(weights[at], weights[at + 1], ofWeights, softmax);
          for (int piece = 0; piece < ofWeights; ++piece)
            x[size_t(i)][size_t(piece)].push_back(made[size_t(piece)]);
        }
      for (int n = 0; n < v.padded() / 8; n += 2)
        for (int piece = 0; piece < v.pieces; ++piece) {
          llvm::Value *own = add(add(in(), mul(odd(), 8)), 8 * j);
          Numbers w = matrices(add(add(start, mul(own, part.pitch)),
                                   add(mul(high(), 16), 16 * n + part.start + piece * part.pieceBytes)),
                               true);
          for (int i = 0; i < blocks; ++i)
            for (int other = 0; other < ofWeights && other + piece < deepest; ++other)
              for (int half = 0; half < 2; ++half)
                multiplyAdd(x[size_t(i)][size_t(other)], w[2 * size_t(half)], w[2 * size_t(half) + 1],
                            &total(t, i, n + half, 0));
        }
    }
  }

  // ---- a tile of keys

  void tile(llvm::Value *k0, llvm::Value *start) {
    std::vector<Numbers> dots;
    for (size_t d = 0; d < a.dots.size(); ++d)
      dots.push_back(products(d, start));
    if (softmax) {
      Numbers weights = scoresOf(dots, k0);
      rescale(soften(weights));
      addWeighted(0, weights, start);
    }
    if (softmax)
      return;
    // Each side adds, so that weights of several totals need not be held at once.
    Numbers before = acc;
    auto added = [&](bool whole) {
      acc = before;
      for (size_t t = 0; t < a.totals.size(); ++t)
        addWeighted(t, evaluated(whole ? a.totals[t].whole : a.totals[t].weights, dots, k0, 0, whole), start);
      return acc;
    };
    acc = either(isWhole(k0), [&] { return added(true); }, [&] { return added(false); });
  }

  // ---- the block

  void body() override {
    llvm::Value *begin = place();
    warpRow = mul(warp, ownRows);
    if (a.copies())
      for (int i = 0; i + 1 < a.stages; ++i)
        copyKeys(number(i), add(begin, i * a.keysTogether));
    fillRows();
    llvm::Value *first = add(row0, warpRow);
    prepare(first, add(first, ownRows - 1));
    a.copies() ? overCopies(begin) : overComputed(begin);
    assembly(endHere, "~{memory}", b.getVoidTy(), {});
    finish();
  }
  void overCopies(llvm::Value *begin) {
    ring(
        begin, end, a.keysTogether, a.stages, acc, [&](llvm::Value *slot, llvm::Value *k0) { copyKeys(slot, k0); },
        [&](llvm::Value *slot, llvm::Value *k0) { tile(k0, slotStart(slot)); });
  }
  void overComputed(llvm::Value *begin) {
    loop(begin, end, number(a.keysTogether), acc, [&](llvm::Value *k0) {
      barrier();
      fillKeys(k0);
      barrier();
      tile(k0, number(shape.ring));
    });
  }
};
} // namespace

void emitAttend(const Program &program, const Stage &stage, const std::string &name, Module &module) {
  if (stage.attend.groups)
    return emitGroupAttend(program, stage, name, module);
  EveryIr(program, stage, name, module).run();
}

} // namespace quern::codegen::tile
