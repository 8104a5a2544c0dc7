// Takes: an attention by warp groups. Gives: its function, for compute capability 9.0 (sm_90a) alone.
//
//   warp group 0     one thread: for each tile of keys: wait until the slot's keys are empty, copies of their boxes; the same
//                    of its values
//   warp groups 1..  64 rows each, which are the left factor in registers. For tile i: scores of tile i by wgmma; weights of tile
//                    i - 1 times its values by wgmma; while that goes on the softmax of tile i
//
// Keys and values have barriers of their own, as keys are read a tile earlier. A row that sees no key has one tile, of which
// it sees nothing.
#include "codegen/tile/ptx/AttendIr.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace quern::codegen::tile {

namespace {
class GroupAttendIr : public AttendIr {
public:
  GroupAttendIr(const Program &program, const Stage &stage, const std::string &name, Module &module)
      : AttendIr(program, stage, name, module), k(a.dots[0].k), v(a.totals[0].v), slots(groupSlotsOf(a)) {}

private:
  const Factor &k, &v;
  GroupSlots slots;
  llvm::Value *base = nullptr, *barriers = nullptr, *tiles = nullptr, *begin = nullptr;
  llvm::Value *which = nullptr; ///< group of the block
  Numbers rowWords;             ///< the left factor: of each sixteen of the depth four registers

  enum Barrier { KeysFull, ValuesFull, KeysEmpty, ValuesEmpty };
  llvm::Value *barrierOf(Barrier which, llvm::Value *slot) {
    return add(barriers, add(mul(slot, 8), int64_t(which) * 8 * a.stages));
  }
  /// The barrier of a group's turn: the one before has issued its products.
  llvm::Value *turnOf(llvm::Value *number) { return add(barriers, add(mul(number, 8), 32 * a.stages)); }
  llvm::Value *keysAt(llvm::Value *slot) { return add(base, mul(slot, slots.bytes())); }
  llvm::Value *valuesAt(llvm::Value *slot) { return add(keysAt(slot), slots.keys); }
  int64_t boxBytes(const Factor &of) const { return 2 * of.copied->tensor.width * a.keysTogether; }
  static int64_t boxesOf(const Factor &of) {
    return (of.padded() + of.copied->tensor.width - 1) / of.copied->tensor.width;
  }

  // ---- the group that copies

  void copy(const Factor &of, size_t which, llvm::Value *to, llvm::Value *key0, llvm::Value *barrier) {
    expect(barrier, boxesOf(of) * boxBytes(of));
    for (int64_t box = 0; box < boxesOf(of); ++box) {
      llvm::Value *in = number(box * of.copied->tensor.width);
      copyBox(*of.copied, which, add(to, box * boxBytes(of)), which ? in : key0, which ? key0 : in, barrier);
    }
  }
  void produce() {
    giveRegisters(a.groups == 1 ? 0 : a.groups == 2 ? 24 : 32);
    when(b.CreateICmpEQ(thread, number(0)), [&] {
      stand(number(0), number(0), group[2], number(0));
      Numbers carried = {number(0), number(1)}; // slots are empty to begin with
      loop(number(0), tiles, number(1), carried, [&](llvm::Value *tile) {
        llvm::Value *slot = carried[0], *key0 = add(begin, mul(tile, a.keysTogether));
        await(barrierOf(KeysEmpty, slot), carried[1]);
        copy(k, 0, keysAt(slot), key0, barrierOf(KeysFull, slot));
        await(barrierOf(ValuesEmpty, slot), carried[1]);
        copy(v, 1, valuesAt(slot), key0, barrierOf(ValuesFull, slot));
        advance(carried[0], carried[1], a.stages);
      });
    });
  }

  // ---- the groups that multiply

  /// Each thread computes what it has of its rows.
  void readRows() {
    const Factor &q = a.dots[0].q;
    for (int64_t depth = 0; depth < q.padded(); depth += 16)
      for (int pair = 0; pair < 4; ++pair) { // rows 0-7 and 8-15 of the first eight, then of the next
        Numbers two;
        for (int e = 0; e < 2; ++e) {
          llvm::Value *in = add(mul(rest(lane, 4), 2), depth + 8 * (pair / 2) + e);
          stand(ownRow[size_t(pair % 2)], number(0), group[2], least(in, number(q.inner - 1)));
          two.push_back(b.CreateSelect(b.CreateICmpSLT(in, number(q.inner)), get(q.value), real(0)));
        }
        rowWords.push_back(words(two[0], two[1], 1, false)[0]);
      }
  }
  static Numbers four(const Numbers &of, size_t sixteen) {
    return {of.begin() + ptrdiff_t(4 * sixteen), of.begin() + ptrdiff_t(4 * sixteen + 4)};
  }
  /// Rows times a slot's keys.
  Numbers products(llvm::Value *slot) {
    TensorIr::Lines lines = linesOf(*k.copied, k.copied->tensor.width);
    llvm::Value *from = descriptor(keysAt(slot), lines);
    int64_t each = k.copied->tensor.width / 16;
    Numbers made;
    for (int64_t i = 0; i < k.padded() / 16; ++i) {
      int64_t bytes = i / each * boxBytes(k) + i % each * lines.step;
      made = multiplyGroup(a.keysTogether, four(rowWords, size_t(i)),
                           b.CreateAdd(from, b.getInt64(uint64_t(bytes / 16))), true, made);
    }
    commit();
    return made;
  }
  /// Adds weights times a slot's values.
  void addWeighted(Numbers &totals, const Numbers &weights, llvm::Value *slot) {
    TensorIr::Lines lines = linesOf(*v.copied, a.keysTogether);
    llvm::Value *from = descriptor(valuesAt(slot), lines);
    for (int i = 0; i < a.keysTogether / 16; ++i)
      totals = multiplyGroup(int(v.padded()), four(weights, size_t(i)),
                             b.CreateAdd(from, b.getInt64(uint64_t(i * lines.step / 16))), false, totals);
    commit();
  }
  /// What was written before stands before the products.
  void fence(Numbers &sums, Numbers &left) {
    Numbers all = sums;
    all.insert(all.end(), left.begin(), left.end());
    all = inPlace("wgmma.fence.sync.aligned;", {}, all);
    std::copy(all.begin(), all.begin() + ptrdiff_t(sums.size()), sums.begin());
    std::copy(all.begin() + ptrdiff_t(sums.size()), all.end(), left.begin());
  }
  void commit() { does("wgmma.commit_group.sync.aligned;"); }
  Numbers totals() { return {acc.begin(), acc.begin() + ptrdiff_t(mostAt)}; }
  void put(const Numbers &totals) { std::copy(totals.begin(), totals.end(), acc.begin()); }
  /// Weights as a left factor, in place of the scores.
  Numbers asFactor(const Numbers &weights) {
    Numbers made;
    for (size_t at = 0; at < weights.size(); at += 2)
      made.push_back(words(weights[at], weights[at + 1], 1, true)[0]);
    return made;
  }

  void consume() {
    takeRegisters(a.groups == 1 ? 0 : a.groups == 2 ? 240 : 160);
    readRows();
    llvm::Value *slot = number(0), *parity = number(0);
    await(barrierOf(KeysFull, slot), parity);
    Numbers none = inPlace("wgmma.fence.sync.aligned;", {}, rowWords), scores;
    rowWords = none;
    scores = inPlace("wgmma.wait_group.sync.aligned 0;", {}, products(slot));
    arrive(barrierOf(KeysEmpty, slot));
    scores = scoresOf({scores}, begin);
    soften(scores); // totals are still 0
    Numbers weights = asFactor(scores);

    // Carried: sums and statistics, weights of the tile before, its slot and parity.
    size_t weightsAt = acc.size(), slotAt = weightsAt + weights.size();
    acc.insert(acc.end(), weights.begin(), weights.end());
    acc.push_back(slot), acc.push_back(parity);
    loop(number(1), tiles, number(1), acc, [&](llvm::Value *tile) {
      llvm::Value *before = acc[slotAt], *parityBefore = acc[slotAt + 1], *now = before, *parityNow = parityBefore;
      advance(now, parityNow, a.stages);
      await(barrierOf(KeysFull, now), parityNow);
      if (a.turns) { // the first group begins
        llvm::Value *phase = b.CreateAnd(add(tile, -1), number(1)), *isFirst = b.CreateICmpEQ(which, number(1));
        await(turnOf(add(which, -1)), b.CreateXor(phase, b.CreateZExt(isFirst, b.getInt32Ty())));
      }
      Numbers left(acc.begin() + ptrdiff_t(weightsAt), acc.begin() + ptrdiff_t(slotAt)), sums = totals();
      does("wgmma.fence.sync.aligned;");
      Numbers made = products(now);
      await(barrierOf(ValuesFull, before), parityBefore);
      fence(sums, left);
      addWeighted(sums, left, before);
      if (a.turns)
        arrive(turnOf(b.CreateSelect(b.CreateICmpEQ(which, number(a.groups)), number(0), which)));
      made = inPlace("wgmma.wait_group.sync.aligned 1;", {}, made);
      arrive(barrierOf(KeysEmpty, now));
      made = scoresOf({made}, add(begin, mul(tile, a.keysTogether)));
      Numbers keeps = soften(made), reads = left;
      reads.insert(reads.end(), made.begin(), made.end()); // these are made while the products go on
      put(inPlace("wgmma.wait_group.sync.aligned 0;", reads, sums));
      arrive(barrierOf(ValuesEmpty, before));
      rescale(keeps);
      Numbers next = asFactor(made); // a register of a left factor is written when no product goes on
      std::copy(next.begin(), next.end(), acc.begin() + ptrdiff_t(weightsAt));
      acc[slotAt] = now, acc[slotAt + 1] = parityNow;
    });
    Numbers left(acc.begin() + ptrdiff_t(weightsAt), acc.begin() + ptrdiff_t(slotAt)), sums = totals();
    await(barrierOf(ValuesFull, acc[slotAt]), acc[slotAt + 1]);
    fence(sums, left);
    addWeighted(sums, left, acc[slotAt]);
    put(inPlace("wgmma.wait_group.sync.aligned 0;", left, sums));
    finish();
  }

  void body() override {
    base = b.CreatePtrToInt(shared(number(0)), b.getInt32Ty());
    barriers = add(base, slots.bytes() * a.stages);
    // The same in all lanes, and known to be.
    which = call(Intrinsic::nvvm_shfl_sync_idx_i32, {number(-1), divide(thread, groupThreads), number(0), number(31)});
    when(b.CreateICmpEQ(thread, number(0)), [&] {
      for (int slot = 0; slot < a.stages; ++slot)
        for (Barrier one : {KeysFull, ValuesFull, KeysEmpty, ValuesEmpty})
          makeBarrier(barrierOf(one, number(slot)), one == KeysFull || one == ValuesFull ? 1 : a.warps);
      for (int group = 0; group < a.groups && a.turns; ++group)
        makeBarrier(turnOf(number(group)), groupThreads / 32);
      does("fence.mbarrier_init.release.cluster;"); // copies see them, too
    });
    barrier();
    begin = place();
    tiles = KernelIr::most(
        divide(add(KernelIr::most(b.CreateSub(end, begin), number(0)), a.keysTogether - 1), a.keysTogether), number(1));
    llvm::Value *produces = b.CreateICmpEQ(which, number(0));
    when(produces, [&] { produce(); });
    when(b.CreateNot(produces), [&] {
      warpRow = mul(add(warp, -groupThreads / 32), 16);
      llvm::Value *first = add(row0, mul(add(which, -1), groupRows));
      prepare(first, add(first, groupRows - 1));
      consume();
    });
  }
};
} // namespace

void emitGroupAttend(const Program &program, const Stage &stage, const std::string &name, Module &module) {
  GroupAttendIr(program, stage, name, module).run();
}

} // namespace quern::codegen::tile
