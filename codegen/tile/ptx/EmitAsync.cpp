// Takes: an asynchronous product. Gives: its function, for compute capability 9.0 (sm_90a) alone.
//
//   warp group 0     one thread: for step i: wait until the slot is empty; copies of whole boxes, x and each part of w,
//                    which arrive at the slot's full barrier
//   warp groups 1..  for step i: wait until the slot is full; wgmma m64nNk16 of 64 rows each, bf16 in, f32 sums in registers;
//                    wait for those of step i - 1; its slot is empty
//
#include "codegen/tile/ptx/TensorIr.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace quern::codegen::tile {

namespace {
constexpr int64_t lineBytes = 2 * asyncDepth;
/// Row blocks that follow each other, column by column: what they read together stays in the second cache.
constexpr int bandOfBlocks = 8;

class AsyncIr : public TensorIr {
public:
  AsyncIr(const Program &program, const Stage &stage, const std::string &name, Module &module)
      : TensorIr(program, stage, name, module), cut(stage.cut), groups(cut.rows / groupRows) {}

private:
  const Cut &cut;
  int64_t groups;
  llvm::Value *base = nullptr, *barriers = nullptr;
  llvm::Value *row0 = nullptr, *column0 = nullptr, *steps = nullptr, *first = nullptr; ///< of this block's depth

  size_t parts() const { return s.w.size(); }
  llvm::Value *full(llvm::Value *slot) { return add(barriers, mul(slot, 8)); }
  llvm::Value *empty(llvm::Value *slot) { return add(full(slot), 8 * cut.stages); }

  void copy(const Operand &from, size_t which, llvm::Value *to, llvm::Value *k0, llvm::Value *barrier) {
    for (int64_t done = 0, tile = which ? cut.columns : cut.rows; done < tile; done += from.tensor.each)
      copyBox(from, which, add(to, done * lineBytes), add(which ? column0 : row0, done), k0, barrier);
  }
  void produce() {
    giveRegisters(groups == 1 ? 0 : groups == 2 ? 40 : 32);
    when(b.CreateICmpEQ(thread, number(0)), [&] {
      stand(number(0), number(0), group[2], number(0));
      std::vector<llvm::Value *> carried = {number(0), number(1)}; // slots are empty to begin with
      loop(number(0), steps, number(1), carried, [&](llvm::Value *step) {
        llvm::Value *slot = carried[0], *barrier = full(slot);
        await(empty(slot), carried[1]);
        expect(barrier, asyncSlotBytes(s));
        llvm::Value *start = add(base, mul(slot, asyncSlotBytes(s))), *k0 = mul(add(first, step), asyncDepth);
        copy(s.x, 0, start, k0, barrier);
        for (size_t part = 0; part < parts(); ++part)
          copy(s.w[part], part + 1, add(start, asyncStart(s, part)), k0, barrier);
        advance(carried[0], carried[1], cut.stages);
      });
    });
  }

  void multiply(std::vector<llvm::Value *> &acc, llvm::Value *start, llvm::Value *own) {
    size_t each = size_t(cut.columns) / 2;
    Lines ofX = linesOf(s.x, asyncDepth);
    llvm::Value *x = descriptor(add(start, mul(own, groupRows * lineBytes)), ofX);
    for (size_t part = 0; part < parts(); ++part) {
      Lines ofW = linesOf(s.w[part], asyncDepth);
      llvm::Value *w = descriptor(add(start, asyncStart(s, part)), ofW);
      std::vector<llvm::Value *> own(acc.begin() + ptrdiff_t(part * each), acc.begin() + ptrdiff_t((part + 1) * each));
      for (int k = 0; k < asyncDepth / 16; ++k)
        own = multiplyGroup(cut.columns, {b.CreateAdd(x, b.getInt64(uint64_t(k * ofX.step / 16)))},
                            b.CreateAdd(w, b.getInt64(uint64_t(k * ofW.step / 16))), s.w[part].depthInner, own,
                            s.x.depthInner);
      std::copy(own.begin(), own.end(), acc.begin() + ptrdiff_t(part * each));
    }
  }
  void consume(llvm::Value *own) {
    takeRegisters(groups == 1 ? 0 : groups == 2 ? 232 : 160);
    std::vector<llvm::Value *> carried(parts() * size_t(cut.columns) / 2, ConstantFP::get(b.getFloatTy(), 0));
    size_t sumsEnd = carried.size();
    carried.insert(carried.end(), {number(0), number(0), number(0)}); // slot, parity, the slot before
    loop(number(0), steps, number(1), carried, [&](llvm::Value *step) {
      llvm::Value *slot = carried[sumsEnd], *before = carried[sumsEnd + 2];
      await(full(slot), carried[sumsEnd + 1]);
      std::vector<llvm::Value *> acc(carried.begin(), carried.begin() + ptrdiff_t(sumsEnd));
      acc = inPlace("wgmma.fence.sync.aligned;", {}, acc); // what was written before stands before it
      multiply(acc, add(base, mul(slot, asyncSlotBytes(s))), own);
      std::copy(acc.begin(), acc.end(), carried.begin());
      does("wgmma.commit_group.sync.aligned;");
      does("wgmma.wait_group.sync.aligned 1;");
      when(b.CreateICmpNE(step, number(0)), [&] { arrive(empty(before)); });
      carried[sumsEnd + 2] = slot;
      advance(carried[sumsEnd], carried[sumsEnd + 1], cut.stages);
    });
    std::vector<llvm::Value *> acc(carried.begin(), carried.begin() + ptrdiff_t(sumsEnd));
    acc = inPlace("wgmma.wait_group.sync.aligned 0;", {}, acc); // nobody reads them before
    llvm::Value *rowOfLane = add(add(row0, mul(own, groupRows)), add(mul(rest(warp, 4), 16), divide(lane, 4)));
    llvm::Value *columnOfLane = add(column0, mul(rest(lane, 4), 2));
    for (int first = 0; first < cut.columns / 8; first += 4) {
      std::vector<Element> some;
      for (int j = first; j < std::min(first + 4, cut.columns / 8); ++j)
        for (int e = 0; e < 4; ++e) {
          Element &one = some.emplace_back(Element{add(rowOfLane, e / 2 * 8), add(columnOfLane, 8 * j + e % 2), {}});
          for (size_t part = 0; part < parts(); ++part)
            one.sums.push_back(acc[part * size_t(cut.columns) / 2 + size_t(4 * j + e)]);
        }
      storeElements(some);
    }
  }

  /// Which tile is this block's.
  void place() {
    llvm::Value *across = call(Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {}),
                *down = call(Intrinsic::nvvm_read_ptx_sreg_nctaid_y, {});
    llvm::Value *all = b.CreateAdd(b.CreateMul(group[1], across), group[0]), *band = mul(across, bandOfBlocks);
    llvm::Value *first = mul(b.CreateUDiv(all, band), bandOfBlocks), *in = b.CreateURem(all, band);
    llvm::Value *height = least(b.CreateSub(down, first), number(bandOfBlocks));
    row0 = mul(b.CreateAdd(first, b.CreateURem(in, height)), cut.rows);
    column0 = mul(b.CreateUDiv(in, height), cut.columns);
  }

  void body() override {
    base = b.CreatePtrToInt(shared(number(0)), b.getInt32Ty());
    barriers = add(base, asyncSlotBytes(s) * cut.stages);
    // The same in all lanes, and known to be.
    llvm::Value *which =
        call(Intrinsic::nvvm_shfl_sync_idx_i32, {number(-1), divide(thread, groupThreads), number(0), number(31)});
    when(b.CreateICmpEQ(thread, number(0)), [&] {
      for (int slot = 0; slot < cut.stages; ++slot) {
        makeBarrier(full(number(slot)), 1);
        makeBarrier(empty(number(slot)), 4 * groups);
      }
      does("fence.mbarrier_init.release.cluster;"); // copies see them, too
    });
    barrier();
    place();
    steps = divide(add(sizeOf(s.depth), asyncDepth - 1), asyncDepth), first = number(0);
    if (s.split > 1) { // a part for each matrix; the last ones may be empty
      llvm::Value *each = divide(add(steps, s.split - 1), s.split);
      first = least(b.CreateMul(group[2], each), steps);
      steps = least(each, b.CreateSub(steps, first));
    }
    llvm::Value *produces = b.CreateICmpEQ(which, number(0));
    when(produces, [&] { produce(); });
    when(b.CreateNot(produces), [&] { consume(add(which, -1)); });
  }
};
} // namespace

void emitAsync(const Program &program, const Stage &stage, const std::string &name, Module &module) {
  AsyncIr(program, stage, name, module).run();
}

} // namespace quern::codegen::tile
