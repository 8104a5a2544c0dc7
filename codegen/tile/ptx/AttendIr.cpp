// Takes: an attention, whoever multiplies. Gives: of a warp's sums its scores, a softmax tile by tile, and the stores.
//
//   scores      the program's expression of each sum, in its register; masks are evaluated where some row may not see a key
//   softmax     a larger score scales what was summed before; four lanes share a row, and shuffles find its largest
//   e^x         as 2^(x log2 e) by the unit for it, within two of f32's last bits; a weight below 2^-126 is 0
//   totals      what the program's stores say
//
// A thread has of rows lane / 4 and 8 later the keys 2 (lane % 4) and the next one of each eight.
#include "codegen/tile/ptx/AttendIr.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace quern::codegen::tile {

AttendIr::AttendIr(const Program &program, const Stage &stage, const std::string &name, Module &module)
    : TensorIr(program, stage, name, module), a(stage.attend), ownRows(a.rows / a.warps), blocks(ownRows / 16),
      softmax(a.score >= 0) {}

llvm::Value *AttendIr::power(llvm::Value *x) {
  return call(Intrinsic::nvvm_ex2_approx_ftz, {x}, {b.getFloatTy()});
}

/// e^(scale (score - shift)). In one piece by one multiply-add; where numbers have all of f32's bits, the difference comes
/// first.
llvm::Value *AttendIr::weight(llvm::Value *score, llvm::Value *shift) {
  llvm::Value *factor = real(a.scale * 1.44269504088896340736);
  if (a.dots[0].q.pieces > 1 || a.totals[0].pieces > 1)
    return power(b.CreateFMul(b.CreateFSub(score, shift), factor));
  return power(
      b.CreateIntrinsic(Intrinsic::fma, {b.getFloatTy()}, {score, factor, b.CreateFNeg(b.CreateFMul(shift, factor))}));
}

/// Of scores, which a row may have none of: then they are as if from 0.
llvm::Value *AttendIr::shiftOf(llvm::Value *top) {
  return b.CreateSelect(b.CreateFCmpOEQ(top, real(-INFINITY)), real(0), top);
}

llvm::Value *AttendIr::across(llvm::Value *x, bool isMost) {
  for (int apart : {1, 2}) {
    llvm::Value *other = call(Intrinsic::nvvm_shfl_sync_bfly_f32, {number(-1), x, number(apart), number(31)});
    x = isMost ? larger(x, other) : b.CreateFAdd(x, other);
  }
  return x;
}

AttendIr::Numbers AttendIr::words(llvm::Value *low, llvm::Value *high, int pieces, bool finite) {
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

// ---- keys

llvm::Value *AttendIr::within(int value, llvm::Value *row, int64_t more) {
  stand(row, nullptr, group[2], nullptr);
  return least(KernelIr::most(add(get(value), more), number(0)), keys);
}

llvm::Value *AttendIr::place() {
  rows = sizeOf(s.rows.extent()), keys = sizeOf(a.keys.extent());
  // The last rows first: of a causal mask they see the most keys.
  llvm::Value *tiles = divide(add(rows, a.rows - 1), a.rows);
  row0 = mul(b.CreateSub(add(tiles, -1), group[0]), a.rows);
  llvm::Value *begin = number(0);
  end = keys;
  if (a.from >= 0)
    begin = within(a.from, row0, 0);
  if (a.to >= 0)
    end = within(a.to, least(add(row0, a.rows - 1), lastRow()), 1);
  if (a.split) {
    llvm::Value *all = KernelIr::most(b.CreateSub(end, begin), number(0));
    llvm::Value *parts = divide(add(all, a.keysTogether - 1), a.keysTogether);
    llvm::Value *each = mul(divide(add(parts, a.split - 1), a.split), a.keysTogether);
    begin = add(begin, b.CreateMul(group[1], each));
    end = least(end, add(begin, each));
  }
  return begin;
}

/// What follows from rows alone is known before the loop.
void AttendIr::hoist() {
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

void AttendIr::prepare(llvm::Value *first, llvm::Value *last) {
  first = least(first, lastRow()), last = least(last, lastRow());
  wholeEnd = a.to >= 0 ? least(within(a.to, first, 1), end) : end;
  wholeFrom = a.from >= 0 ? within(a.from, last, 0) : number(0);
  for (int i = 0; i < blocks; ++i)
    for (int half = 0; half < 2; ++half)
      ownRow.push_back(least(rowOf(i, half), lastRow()));
  hoist();
  for (const Attend::Total &one : a.totals) {
    totalAt.push_back(acc.size());
    acc.resize(acc.size() + size_t(blocks * one.v.padded() / 2), real(0));
  }
  mostAt = acc.size();
  if (softmax) {
    acc.resize(mostAt + size_t(2 * blocks), real(-INFINITY));
    acc.resize(mostAt + size_t(4 * blocks), real(0));
  }
}

AttendIr::Numbers AttendIr::evaluated(int value, const std::vector<Numbers> &dots, llvm::Value *k0, double nothing) {
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

AttendIr::Numbers AttendIr::scoresOf(const std::vector<Numbers> &dots, llvm::Value *k0) {
  llvm::Value *isWhole =
      b.CreateAnd(b.CreateICmpSLE(add(k0, a.keysTogether), wholeEnd), b.CreateICmpSGE(k0, wholeFrom));
  auto whole = [&] {
    Numbers made(dots[0].size());
    for (size_t at = 0; at < made.size(); ++at) {
      size_t block = at / size_t(a.keysTogether / 2), in = at % size_t(a.keysTogether / 2);
      stand(ownRow[2 * block + in % 4 / 2], add(add(k0, mul(rest(lane, 4), 2)), int64_t(8 * (in / 4) + in % 2)),
            group[2], number(0));
      sums.clear();
      for (const Numbers &dot : dots)
        sums.push_back(dot[at]);
      made[at] = get(a.whole);
    }
    return made;
  };
  return either(isWhole, whole, [&] { return evaluated(a.score, dots, k0, -INFINITY); });
}

// ---- softmax

AttendIr::Numbers AttendIr::soften(Numbers &scores) {
  int wide = a.keysTogether / 8;
  Numbers keeps;
  for (int i = 0; i < blocks; ++i)
    for (int half = 0; half < 2; ++half) {
      // Four chains, none of which waits for the others.
      auto each = [&](const std::function<void(llvm::Value *&, llvm::Value *&)> &use, Numbers chains) {
        for (int j = 0; j < wide; ++j)
          for (int e = 0; e < 2; ++e)
            use(scores[4 * size_t(i * wide + j) + size_t(2 * half + e)], chains[size_t(2 * j + e) % chains.size()]);
        return chains;
      };
      Numbers tops = each([&](llvm::Value *&score, llvm::Value *&top) { top = top ? larger(top, score) : score; },
                          Numbers(4, nullptr));
      llvm::Value *top = larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]));
      top = larger(most(i, half), across(top, true));
      llvm::Value *shift = shiftOf(top);
      keeps.push_back(weight(most(i, half), shift));
      most(i, half) = top;
      Numbers all = each(
          [&](llvm::Value *&score, llvm::Value *&all) {
            score = weight(score, shift);
            all = b.CreateFAdd(all, score);
          },
          {b.CreateFMul(sum(i, half), keeps.back()), real(0), real(0), real(0)});
      sum(i, half) = b.CreateFAdd(b.CreateFAdd(all[0], all[1]), b.CreateFAdd(all[2], all[3]));
    }
  return keeps;
}

void AttendIr::rescale(const Numbers &keeps) {
  llvm::Value *changed = b.getFalse();
  for (llvm::Value *one : keeps)
    changed = b.CreateOr(changed, b.CreateFCmpONE(one, real(1)));
  changed = call(Intrinsic::nvvm_vote_any_sync, {number(-1), changed});
  Numbers before(acc.begin(), acc.begin() + ptrdiff_t(mostAt));
  auto scaled = [&] {
    for (int i = 0; i < blocks; ++i)
      for (int half = 0; half < 2; ++half)
        for (int n = 0; n < a.totals[0].v.padded() / 8; ++n)
          for (int e = 0; e < 2; ++e) {
            llvm::Value *&one = total(0, i, n, 2 * half + e);
            one = b.CreateFMul(one, keeps[2 * size_t(i) + size_t(half)]);
          }
    return Numbers(acc.begin(), acc.begin() + ptrdiff_t(mostAt));
  };
  Numbers after = either(changed, scaled, [&] { return before; });
  std::copy(after.begin(), after.end(), acc.begin());
}

// ---- results

void AttendIr::finish() {
  for (int i = 0; i < blocks; ++i)
    for (int half = 0; half < 2; ++half) {
      llvm::Value *row = ownRow[2 * size_t(i) + size_t(half)], *inside = b.CreateICmpSLT(rowOf(i, half), rows);
      llvm::Value *first = nullptr, *second = nullptr, *scale = nullptr;
      if (softmax) {
        first = b.CreateFMul(most(i, half), real(a.scale)), second = across(sum(i, half), false);
        if (!a.split)
          scale = closed(row, first, second);
      }
      for (size_t t = 0; t < a.totals.size(); ++t)
        for (int n = 0; n < a.totals[t].v.padded() / 8; ++n) {
          int64_t inner = a.totals[t].v.inner;
          auto standAt = [&](int e) {
            llvm::Value *column = add(mul(rest(lane, 4), 2), 8 * n + e), *is = total(t, i, n, 2 * half + e);
            sums = {scale ? b.CreateFMul(is, scale) : is, first, second};
            bool isWhole = 8 * n + 8 <= inner;
            stand(row, isWhole ? column : least(column, number(inner - 1)), group[2], group[1]);
            return isWhole ? inside : b.CreateAnd(inside, b.CreateICmpSLT(column, number(inner)));
          };
          for (const Store &one : a.totals[t].stores) {
            bool isPair = p.buffers[size_t(one.buffer)].storage == Storage::BF16 && 8 * n + 8 <= inner;
            if (isPair)
              storeTwo(one, inside, standAt);
            for (int e = 0; e < 2 && !isPair; ++e) {
              llvm::Value *there = standAt(e);
              store(one, there);
            }
          }
        }
      sums = {nullptr, first, second};
      stand(row, number(0), group[2], group[1]);
      for (const Store &one : a.rowStores)
        store(one, b.CreateAnd(inside, b.CreateICmpEQ(rest(lane, 4), number(0))));
    }
}

/// Two columns that are side by side in memory, where they begin a word.
void AttendIr::storeTwo(const Store &one, llvm::Value *inside, const std::function<void(int)> &standAt) {
  llvm::Value *values[2], *to[2];
  for (int e = 0; e < 2; ++e) {
    standAt(e);
    values[e] = get(one.value), to[e] = address(one.buffer, one.at);
  }
  llvm::Value *bits[2] = {b.CreatePtrToInt(to[0], b.getInt64Ty()), b.CreatePtrToInt(to[1], b.getInt64Ty())};
  llvm::Value *isWord = b.CreateAnd(b.CreateICmpEQ(b.CreateSub(bits[1], bits[0]), b.getInt64(2)),
                                    b.CreateICmpEQ(b.CreateAnd(bits[0], b.getInt64(3)), b.getInt64(0)));
  llvm::Value *word = words(values[0], values[1], 1, false)[0];
  when(b.CreateAnd(inside, isWord), [&] { b.CreateAlignedStore(word, to[0], Align(4)); });
  when(b.CreateAnd(inside, b.CreateNot(isWord)), [&] {
    for (int e = 0; e < 2; ++e)
      b.CreateAlignedStore(b.CreateTrunc(e ? b.CreateLShr(word, 16) : word, b.getInt16Ty()), to[e], Align(2));
  });
}

/// With sinks: the shift and the share in place of the largest score and the sum, and what a total is multiplied by.
llvm::Value *AttendIr::closed(llvm::Value *row, llvm::Value *&largest, llvm::Value *&all) {
  auto natural = [&](llvm::Value *x) { return power(b.CreateFMul(x, real(1.44269504088896340736))); };
  stand(row, nullptr, group[2], nullptr);
  llvm::Value *top = largest;
  for (int sink : a.sinks)
    top = larger(top, get(sink));
  llvm::Value *shift = shiftOf(top), *keeps = natural(b.CreateFSub(largest, shift));
  all = b.CreateFMul(all, keeps);
  for (int sink : a.sinks)
    all = b.CreateFAdd(all, natural(b.CreateFSub(get(sink), shift)));
  llvm::Value *share = b.CreateSelect(b.CreateFCmpOEQ(all, real(0)), real(0), b.CreateFDiv(real(1), all));
  largest = shift, all = share;
  return b.CreateFMul(keeps, share);
}

} // namespace quern::codegen::tile
