// Takes: an asynchronous product. Gives: its function, for compute capability 9.0 (sm_90a) alone.
//
//   warp group 0     one thread: for step i: wait until the slot is empty; copies of whole boxes, x and each part of w,
//                    which arrive at the slot's full barrier
//   warp groups 1..  for step i: wait until the slot is full; wgmma m64nNk16 of 64 rows each, bf16 in, f32 sums in registers;
//                    wait for those of step i - 1; its slot is empty
//
// Descriptors and swizzles: NVIDIA's PTX ISA, "Shared memory matrix layout" and "Matrix descriptor".
#include "codegen/tile/ptx/KernelIr.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace quern::codegen::tile {

namespace {
constexpr int64_t lineBytes = 2 * asyncDepth;
/// Row blocks that follow each other, column by column: what they read together stays in the second cache.
constexpr int bandOfBlocks = 8;

/// Registers of a thread, of the producer's group and of the others; 0: as the launch gave them.
struct Shares {
  int producer, others;
};
Shares sharesOf(int64_t groups) {
  return groups == 1 ? Shares{0, 0} : groups == 2 ? Shares{40, 232} : Shares{32, 160};
}

class AsyncIr : public KernelIr {
public:
  AsyncIr(const Program &program, const Stage &stage, const std::string &name, Module &module)
      : KernelIr(program, stage, name, module), cut(stage.cut), groups(cut.rows / groupRows) {}

private:
  const Cut &cut;
  int64_t groups;
  llvm::Value *base = nullptr, *barriers = nullptr;                                    ///< addresses of 32 bits
  llvm::Value *row0 = nullptr, *column0 = nullptr, *steps = nullptr, *first = nullptr; ///< of this block's depth

  size_t parts() const { return s.w.size(); }
  void does(const std::string &text, const std::string &constraints = "",
            const std::vector<llvm::Value *> &arguments = {}) {
    assembly(text, constraints.empty() ? "~{memory}" : constraints + ",~{memory}", b.getVoidTy(), arguments);
  }
  llvm::Value *full(llvm::Value *slot) { return add(barriers, mul(slot, 8)); }
  llvm::Value *empty(llvm::Value *slot) { return add(full(slot), 8 * cut.stages); }
  /// Until the barrier's phase of this parity is over.
  void await(llvm::Value *barrier, llvm::Value *parity) {
    BasicBlock *again = BasicBlock::Create(context, "wait", function),
               *after = BasicBlock::Create(context, "ready", function);
    b.CreateBr(again);
    b.SetInsertPoint(again);
    llvm::Value *done = assembly("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2;\n\t"
                                 "selp.b32 $0, 1, 0, p;\n\t}",
                                 "=r,r,r,~{memory}", b.getInt32Ty(), {barrier, parity});
    b.CreateCondBr(b.CreateICmpNE(done, number(0)), after, again);
    b.SetInsertPoint(after);
  }
  /// The slot after this one, and the parity of its next phase.
  void advance(llvm::Value *&slot, llvm::Value *&parity) {
    llvm::Value *next = add(slot, 1), *wraps = b.CreateICmpEQ(next, number(cut.stages));
    slot = b.CreateSelect(wraps, number(0), next);
    parity = b.CreateSelect(wraps, b.CreateXor(parity, number(1)), parity);
  }

  void copy(const Operand &from, size_t which, llvm::Value *to, llvm::Value *k0, llvm::Value *barrier) {
    const Tensor &t = from.tensor;
    llvm::Value *own0 = which ? column0 : row0;
    for (int64_t done = 0, tile = which ? cut.columns : cut.rows; done < tile; done += t.each) {
      std::string text = "cp.async.bulk.tensor." + std::to_string(t.dims.size()) +
                         "d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {",
                  constraints = "r,l,r";
      std::vector<llvm::Value *> arguments = {add(to, done * lineBytes), tensorAt(which), barrier};
      for (const TensorDim &dim : t.dims) {
        llvm::Value *at = dim.at >= 0 ? get(dim.at) : number(0);
        if (dim.along == TensorDim::Along::Depth)
          at = add(at, k0);
        if (dim.along == TensorDim::Along::Own) {
          llvm::Value *own = divide(add(own0, done), dim.unit);
          at = add(at, dim.modulo ? rest(own, dim.modulo) : own);
        }
        text += (arguments.size() > 3 ? ", $" : "$") + std::to_string(arguments.size());
        constraints += ",r";
        arguments.push_back(at);
      }
      does(text + "}], [$2];", constraints, arguments);
    }
  }
  void produce() {
    if (int registers = sharesOf(groups).producer)
      does("setmaxnreg.dec.sync.aligned.u32 " + std::to_string(registers) + ";");
    when(b.CreateICmpEQ(thread, number(0)), [&] {
      stand(number(0), number(0), group[2], number(0));
      std::vector<llvm::Value *> carried = {number(0), number(1)}; // slots are empty to begin with
      loop(number(0), steps, number(1), carried, [&](llvm::Value *step) {
        llvm::Value *slot = carried[0], *barrier = full(slot);
        await(empty(slot), carried[1]);
        does("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r", {barrier, number(asyncSlotBytes(s))});
        llvm::Value *start = add(base, mul(slot, asyncSlotBytes(s))), *k0 = mul(add(first, step), asyncDepth);
        copy(s.x, 0, start, k0, barrier);
        for (size_t part = 0; part < parts(); ++part)
          copy(s.w[part], part + 1, add(start, asyncStart(s, part)), k0, barrier);
        advance(carried[0], carried[1]);
      });
    });
  }

  /// Where an operand's lines are, as the tensor cores ask for it; the address is added.
  struct Layout {
    uint64_t high;
    int64_t step; ///< bytes between sixteen and sixteen of the depth
  };
  static Layout layoutOf(const Operand &from) {
    int64_t width = from.tensor.width, line = 2 * width, swizzle = width == 64 ? 1 : width == 32 ? 2 : 3;
    auto field = [](int64_t bytes, int at) { return uint64_t(bytes / 16) << at; };
    if (from.depthInner) // eight rows of a line each; the other field is not used with a swizzle
      return {field(8 * line, 32) | uint64_t(1) << 16 | uint64_t(swizzle) << 62, 32};
    return {field(asyncDepth * line, 16) | field(8 * line, 32) | uint64_t(swizzle) << 62, 16 * line};
  }
  llvm::Value *descriptor(llvm::Value *address, const Layout &layout) {
    llvm::Value *low = b.CreateLShr(b.CreateAnd(address, number(0x3ffff)), 4);
    return b.CreateOr(b.CreateZExt(low, b.getInt64Ty()), b.getInt64(layout.high));
  }
  /// `tied`: registers that the instruction reads and writes, in place.
  std::vector<llvm::Value *> inPlace(const std::string &text, const std::vector<llvm::Value *> &arguments,
                                     const std::vector<llvm::Value *> &tied) {
    std::string constraints;
    for (size_t i = 0; i < tied.size(); ++i)
      constraints += "=f,";
    for (size_t i = 0; i < arguments.size(); ++i)
      constraints += "l,";
    for (size_t i = 0; i < tied.size(); ++i)
      constraints += std::to_string(i) + ",";
    std::vector<llvm::Value *> all = arguments;
    all.insert(all.end(), tied.begin(), tied.end());
    std::vector<Type *> types(tied.size(), b.getFloatTy());
    llvm::Value *made = assembly(text, constraints + "~{memory}", StructType::get(context, types), all);
    std::vector<llvm::Value *> results;
    for (size_t i = 0; i < tied.size(); ++i)
      results.push_back(b.CreateExtractValue(made, unsigned(i)));
    return results;
  }
  void multiply(std::vector<llvm::Value *> &acc, llvm::Value *start, llvm::Value *own) {
    size_t each = size_t(cut.columns) / 2;
    Layout ofX = layoutOf(s.x);
    llvm::Value *x = descriptor(add(start, mul(own, groupRows * lineBytes)), ofX);
    for (size_t part = 0; part < parts(); ++part) {
      Layout ofW = layoutOf(s.w[part]);
      llvm::Value *w = descriptor(add(start, asyncStart(s, part)), ofW);
      std::string list;
      for (size_t i = 0; i < each; ++i)
        list += (i ? ", $" : "$") + std::to_string(i);
      std::string text = "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, 1, 0;\n\twgmma.mma_async.sync.aligned.m64n" +
                         std::to_string(cut.columns) + "k16.f32.bf16.bf16 {" + list + "}, $" + std::to_string(each) +
                         ", $" + std::to_string(each + 1) + ", p, 1, 1, " + (s.x.depthInner ? "0, " : "1, ") +
                         (s.w[part].depthInner ? "0" : "1") + ";\n\t}";
      std::vector<llvm::Value *> own(acc.begin() + ptrdiff_t(part * each), acc.begin() + ptrdiff_t((part + 1) * each));
      for (int k = 0; k < asyncDepth / 16; ++k)
        own = inPlace(text,
                      {b.CreateAdd(x, b.getInt64(uint64_t(k * ofX.step / 16))),
                       b.CreateAdd(w, b.getInt64(uint64_t(k * ofW.step / 16)))},
                      own);
      std::copy(own.begin(), own.end(), acc.begin() + ptrdiff_t(part * each));
    }
  }
  void consume(llvm::Value *own) {
    if (int registers = sharesOf(groups).others)
      does("setmaxnreg.inc.sync.aligned.u32 " + std::to_string(registers) + ";");
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
      when(b.CreateAnd(b.CreateICmpNE(step, number(0)), b.CreateICmpEQ(lane, number(0))),
           [&] { does("mbarrier.arrive.shared::cta.b64 _, [$0];", "r", {empty(before)}); });
      carried[sumsEnd + 2] = slot;
      advance(carried[sumsEnd], carried[sumsEnd + 1]);
    });
    std::vector<llvm::Value *> acc(carried.begin(), carried.begin() + ptrdiff_t(sumsEnd));
    acc = inPlace("wgmma.wait_group.sync.aligned 0;", {}, acc); // nobody reads them before
    llvm::Value *rows = sizeOf(s.rows.extent()), *columns = sizeOf(s.columns.extent());
    llvm::Value *rowOfLane = add(add(row0, mul(own, groupRows)), add(mul(rest(warp, 4), 16), divide(lane, 4)));
    llvm::Value *columnOfLane = add(column0, mul(rest(lane, 4), 2));
    for (int j = 0; j < cut.columns / 8; ++j)
      for (int e = 0; e < 4; ++e) {
        llvm::Value *row = add(rowOfLane, e / 2 * 8), *column = add(columnOfLane, 8 * j + e % 2);
        stand(least(row, add(rows, -1)), least(column, add(columns, -1)), group[2], number(0));
        sums.clear();
        for (size_t part = 0; part < parts(); ++part)
          sums.push_back(acc[part * size_t(cut.columns) / 2 + size_t(4 * j + e)]);
        llvm::Value *inside = b.CreateAnd(b.CreateICmpSLT(row, rows), b.CreateICmpSLT(column, columns));
        for (const Store &one : s.stores)
          store(one, inside);
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
        does("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r", {full(number(slot)), number(1)});
        does("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r", {empty(number(slot)), number(4 * groups)});
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
