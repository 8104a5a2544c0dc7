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
#include "codegen/tile/ptx/TensorIr.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace quern::codegen::tile {

namespace {
using Numbers = std::vector<llvm::Value *>;

class AttendIr : public TensorIr {
public:
  AttendIr(const Program &program, const Stage &stage, const std::string &name, Module &module)
      : TensorIr(program, stage, name, module), a(stage.attend), shape(sharedAttendOf(stage.attend)),
        ownRows(a.rows / a.warps), blocks(ownRows / 16), softmax(a.score >= 0) {}

private:
  const Attend &a;
  SharedAttend shape;
  int ownRows, blocks; ///< of a warp; of 16 rows
  bool softmax;
  llvm::Value *row0 = nullptr, *rows = nullptr, *keys = nullptr, *end = nullptr, *warpRow = nullptr;
  std::vector<size_t> totalAt; ///< where a total's sums are in `acc`
  /// [total][block][8 columns][4], then of a softmax for each block and half the largest score and the sum.
  Numbers acc;
  size_t mostAt = 0;

  llvm::Value *real(double value) { return ConstantFP::get(b.getFloatTy(), value); }
  llvm::Value *&total(size_t t, int i, int n, int e) {
    return acc[totalAt[t] + (size_t(i) * size_t(a.totals[t].v.padded() / 8) + size_t(n)) * 4 + size_t(e)];
  }
  llvm::Value *&most(int i, int half) { return acc[mostAt + size_t(2 * i + half)]; }
  llvm::Value *&sum(int i, int half) { return acc[mostAt + size_t(2 * (blocks + i) + half)]; }
  using KernelIr::most;

  llvm::Value *rowOf(int i, int half) { return add(add(row0, add(warpRow, divide(lane, 4))), 16 * i + 8 * half); }
  llvm::Value *lastRow() { return add(rows, -1); }

  /// e^x as 2^(x log2 e), by the unit for it: within two of f32's last bits.
  llvm::Value *power(llvm::Value *x) {
    return call(Intrinsic::nvvm_ex2_approx, {b.CreateFMul(x, real(1.44269504088896340736))}, {b.getFloatTy()});
  }
  /// Of scores, which a row may have none of: then they are as if from 0.
  llvm::Value *shiftOf(llvm::Value *top) { return b.CreateSelect(b.CreateFCmpOEQ(top, real(-INFINITY)), real(0), top); }
  llvm::Value *larger(llvm::Value *x, llvm::Value *y) { return b.CreateBinaryIntrinsic(Intrinsic::maxnum, x, y); }
  llvm::Value *across(llvm::Value *x, bool isMost) {
    for (int apart : {1, 2}) {
      llvm::Value *other = call(Intrinsic::nvvm_shfl_sync_bfly_f32, {number(-1), x, number(apart), number(31)});
      x = isMost ? larger(x, other) : b.CreateFAdd(x, other);
    }
    return x;
  }

  /// Two numbers as words of bf16, `low` in the lower half; `finite`: no infinity is among them.
  Numbers words(llvm::Value *low, llvm::Value *high, int pieces, bool finite) {
    Numbers made;
    for (int i = 0; i < pieces; ++i) {
      made.push_back(b.CreateBitCast(call(Intrinsic::nvvm_ff2bf16x2_rn, {high, low}), b.getInt32Ty()));
      auto left = [&](llvm::Value *of, llvm::Value *bits) {
        llvm::Value *rounded = b.CreateBitCast(bits, b.getFloatTy()), *rest = b.CreateFSub(of, rounded);
        llvm::Value *size = finite ? nullptr : b.CreateUnaryIntrinsic(Intrinsic::fabs, rounded);
        return finite ? rest : b.CreateSelect(b.CreateFCmpOEQ(size, real(INFINITY)), real(0), rest);
      };
      if (i + 1 == pieces)
        break;
      low = left(low, b.CreateShl(made.back(), 16));
      high = left(high, b.CreateAnd(made.back(), number(int64_t(0xffff0000))));
    }
    return made;
  }

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

  /// What is made of a row's and a key's sums; beyond the last key it is `nothing`.
  Numbers evaluated(int value, const std::vector<Numbers> &dots, llvm::Value *k0, double nothing) {
    int wide = a.keysTogether / 8;
    Numbers made(dots[0].size());
    for (int j = 0; j < wide; ++j)
      for (int e = 0; e < 2; ++e) {
        llvm::Value *key = add(add(k0, mul(rest(lane, 4), 2)), 8 * j + e);
        llvm::Value *isThere = b.CreateICmpSLT(key, end), *place = least(key, add(keys, -1));
        for (int i = 0; i < blocks; ++i)
          for (int half = 0; half < 2; ++half) {
            size_t at = 4 * size_t(i * wide + j) + size_t(2 * half + e);
            stand(ownRow[2 * size_t(i) + size_t(half)], place, group[2], number(0));
            sums.clear();
            for (const Numbers &dot : dots)
              sums.push_back(dot[at]);
            made[at] = b.CreateSelect(isThere, get(value), real(nothing));
          }
      }
    return made;
  }
  void soften(Numbers &scores) {
    int wide = a.keysTogether / 8;
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half) {
        auto each = [&](const std::function<void(llvm::Value *&)> &use) {
          for (int j = 0; j < wide; ++j)
            for (int e = 0; e < 2; ++e)
              use(scores[4 * size_t(i * wide + j) + size_t(2 * half + e)]);
        };
        llvm::Value *top = nullptr;
        each([&](llvm::Value *&score) { top = top ? larger(top, score) : score; });
        top = larger(most(i, half), across(top, true));
        llvm::Value *shift = shiftOf(top), *keeps = power(b.CreateFSub(most(i, half), shift));
        most(i, half) = top;
        llvm::Value *all = b.CreateFMul(sum(i, half), keeps);
        each([&](llvm::Value *&score) {
          score = power(b.CreateFSub(score, shift));
          all = b.CreateFAdd(all, score);
        });
        sum(i, half) = all;
        for (int n = 0; n < a.totals[0].v.padded() / 8; ++n)
          for (int e = 0; e < 2; ++e) {
            llvm::Value *&one = total(0, i, n, 2 * half + e);
            one = b.CreateFMul(one, keeps);
          }
      }
  }
  void tile(llvm::Value *k0, llvm::Value *start) {
    std::vector<Numbers> dots;
    for (size_t d = 0; d < a.dots.size(); ++d)
      dots.push_back(products(d, start));
    if (softmax) {
      Numbers weights = evaluated(a.score, dots, k0, -INFINITY);
      soften(weights);
      addWeighted(0, weights, start);
    }
    for (size_t t = 0; t < a.totals.size() && !softmax; ++t)
      addWeighted(t, evaluated(a.totals[t].weights, dots, k0, 0), start);
  }

  // ---- the block

  Numbers ownRow; ///< of each block and half: the row that it stands for, within what there is

  /// What follows from rows alone is known before the loop.
  void hoist() {
    std::vector<char> seen(p.values.all.size());
    constexpr uint8_t ofRows = 1 << int(Coordinate::Row) | 1 << int(Coordinate::Matrix);
    std::function<void(int)> visit = [&](int value) {
      if (seen[size_t(value)])
        return;
      seen[size_t(value)] = 1;
      uint8_t on = depends[size_t(value)];
      bool reads = p.values[value].form == Value::Form::Load || p.values[value].form == Value::Form::Apply;
      if (reads && on && !(on & ~ofRows)) {
        for (llvm::Value *row : ownRow) {
          stand(row, nullptr, group[2], nullptr);
          get(value);
        }
        return;
      }
      for (int operand : p.values[value].operands)
        visit(operand);
    };
    if (softmax)
      visit(a.score);
    for (const Attend::Total &one : a.totals)
      if (one.weights >= 0)
        visit(one.weights);
  }

  /// The keys that the block looks at: from the result to `end`.
  llvm::Value *bounds() {
    llvm::Value *begin = number(0);
    end = keys;
    auto within = [&](int value, llvm::Value *row, int64_t more) {
      stand(row, nullptr, group[2], nullptr);
      return least(KernelIr::most(add(get(value), more), number(0)), keys);
    };
    if (a.from >= 0)
      begin = within(a.from, row0, 0);
    if (a.to >= 0)
      end = within(a.to, least(add(row0, a.rows - 1), lastRow()), 1);
    if (a.split) {
      llvm::Value *all = KernelIr::most(b.CreateSub(end, begin), number(0));
      llvm::Value *tiles = divide(add(all, a.keysTogether - 1), a.keysTogether);
      llvm::Value *each = mul(divide(add(tiles, a.split - 1), a.split), a.keysTogether);
      begin = add(begin, b.CreateMul(group[1], each));
      end = least(end, add(begin, each));
    }
    return begin;
  }

  void body() override {
    rows = sizeOf(s.rows.extent()), keys = sizeOf(a.keys.extent());
    // The last rows first: of a causal mask they see the most keys.
    llvm::Value *tiles = divide(add(rows, a.rows - 1), a.rows);
    row0 = mul(b.CreateSub(add(tiles, -1), group[0]), a.rows);
    warpRow = mul(warp, ownRows);
    llvm::Value *begin = bounds();
    for (const Attend::Total &one : a.totals) {
      totalAt.push_back(acc.size());
      acc.resize(acc.size() + size_t(blocks * one.v.padded() / 2), real(0));
    }
    mostAt = acc.size();
    if (softmax) {
      acc.resize(mostAt + size_t(2 * blocks), real(-INFINITY));
      acc.resize(mostAt + size_t(4 * blocks), real(0));
    }
    if (a.copies())
      for (int i = 0; i + 1 < a.stages; ++i)
        copyKeys(number(i), add(begin, i * a.keysTogether));
    fillRows();
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half)
        ownRow.push_back(least(rowOf(i, half), lastRow()));
    hoist();
    a.copies() ? overCopies(begin) : overComputed(begin);
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

  void finish() {
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half) {
        llvm::Value *row = ownRow[2 * size_t(i) + size_t(half)], *inside = b.CreateICmpSLT(rowOf(i, half), rows);
        llvm::Value *first = nullptr, *second = nullptr, *scale = nullptr;
        if (softmax) {
          first = most(i, half), second = across(sum(i, half), false);
          if (!a.split)
            scale = closed(row, first, second);
        }
        for (size_t t = 0; t < a.totals.size(); ++t)
          for (int n = 0; n < a.totals[t].v.padded() / 8; ++n)
            for (int e = 0; e < 2; ++e) {
              llvm::Value *column = add(mul(rest(lane, 4), 2), 8 * n + e), *is = total(t, i, n, 2 * half + e);
              sums = {scale ? b.CreateFMul(is, scale) : is, first, second};
              stand(row, least(column, number(a.totals[t].v.inner - 1)), group[2], group[1]);
              llvm::Value *there = b.CreateAnd(inside, b.CreateICmpSLT(column, number(a.totals[t].v.inner)));
              for (const Store &one : a.totals[t].stores)
                store(one, there);
            }
        sums = {nullptr, first, second};
        stand(row, number(0), group[2], group[1]);
        for (const Store &one : a.rowStores)
          store(one, b.CreateAnd(inside, b.CreateICmpEQ(rest(lane, 4), number(0))));
      }
  }
  /// With sinks: the shift and the share in place of the largest score and the sum, and what a total is multiplied by.
  llvm::Value *closed(llvm::Value *row, llvm::Value *&largest, llvm::Value *&all) {
    stand(row, nullptr, group[2], nullptr);
    llvm::Value *top = largest;
    for (int sink : a.sinks)
      top = larger(top, get(sink));
    llvm::Value *shift = shiftOf(top), *keeps = power(b.CreateFSub(largest, shift));
    all = b.CreateFMul(all, keeps);
    for (int sink : a.sinks)
      all = b.CreateFAdd(all, power(b.CreateFSub(get(sink), shift)));
    llvm::Value *share = b.CreateSelect(b.CreateFCmpOEQ(all, real(0)), real(0), b.CreateFDiv(real(1), all));
    largest = shift, all = share;
    return b.CreateFMul(keeps, share);
  }
};
} // namespace

void emitAttend(const Program &program, const Stage &stage, const std::string &name, Module &module) {
  AttendIr(program, stage, name, module).run();
}

} // namespace quern::codegen::tile
