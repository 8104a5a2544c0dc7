// Takes: what launches of Hopper's warp groups do. Gives: its instructions, for compute capability 9.0 (sm_90a) alone: barriers
// that count arrivals and bytes, copies of whole boxes (TMA), wgmma. LLVM has no intrinsics of most; they are inline assembly.
//
// Descriptors and swizzles: NVIDIA's PTX ISA, "Shared memory matrix layout" and "Matrix descriptor".
#include "codegen/tile/ptx/TensorIr.h"

using namespace llvm;

namespace quern::codegen::tile {

void TensorIr::does(const std::string &text, const std::string &constraints,
                    const std::vector<llvm::Value *> &arguments) {
  assembly(text, constraints.empty() ? "~{memory}" : constraints + ",~{memory}", b.getVoidTy(), arguments);
}

void TensorIr::makeBarrier(llvm::Value *barrier, int64_t arrivals) {
  does("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r", {barrier, number(arrivals)});
}
void TensorIr::arrive(llvm::Value *barrier) {
  when(b.CreateICmpEQ(lane, number(0)), [&] { does("mbarrier.arrive.shared::cta.b64 _, [$0];", "r", {barrier}); });
}
void TensorIr::expect(llvm::Value *barrier, int64_t bytes) {
  does("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r", {barrier, number(bytes)});
}

void TensorIr::await(llvm::Value *barrier, llvm::Value *parity) {
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

void TensorIr::advance(llvm::Value *&slot, llvm::Value *&parity, int slots) {
  llvm::Value *next = add(slot, 1), *wraps = b.CreateICmpEQ(next, number(slots));
  slot = b.CreateSelect(wraps, number(0), next);
  parity = b.CreateSelect(wraps, b.CreateXor(parity, number(1)), parity);
}

void TensorIr::copyBox(const Operand &from, size_t which, llvm::Value *to, llvm::Value *own0, llvm::Value *k0,
                       llvm::Value *barrier) {
  const Tensor &t = from.tensor;
  std::string text = "cp.async.bulk.tensor." + std::to_string(t.dims.size()) +
                     "d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {",
              constraints = "r,l,r";
  std::vector<llvm::Value *> arguments = {to, tensorAt(which), barrier};
  for (const TensorDim &dim : t.dims) {
    llvm::Value *at = dim.at >= 0 ? get(dim.at) : number(0);
    if (dim.along == TensorDim::Along::Depth)
      at = add(at, k0);
    if (dim.along == TensorDim::Along::Own) {
      llvm::Value *own = divide(own0, dim.unit);
      at = add(at, dim.modulo ? rest(own, dim.modulo) : own);
    }
    text += (arguments.size() > 3 ? ", $" : "$") + std::to_string(arguments.size());
    constraints += ",r";
    arguments.push_back(at);
  }
  does(text + "}], [$2];", constraints, arguments);
}

void TensorIr::giveRegisters(int left) {
  if (left)
    does("setmaxnreg.dec.sync.aligned.u32 " + std::to_string(left) + ";");
}
void TensorIr::takeRegisters(int now) {
  if (now)
    does("setmaxnreg.inc.sync.aligned.u32 " + std::to_string(now) + ";");
}

TensorIr::Lines TensorIr::linesOf(const Operand &from, int64_t deep) {
  int64_t width = from.tensor.width, line = 2 * width, swizzle = width == 64 ? 1 : width == 32 ? 2 : 3;
  auto field = [](int64_t bytes, int at) { return uint64_t(bytes / 16) << at; };
  if (from.depthInner) // eight rows of a line each; the other field is not used with a swizzle
    return {field(8 * line, 32) | uint64_t(1) << 16 | uint64_t(swizzle) << 62, 32};
  return {field(deep * line, 16) | field(8 * line, 32) | uint64_t(swizzle) << 62, 16 * line};
}
llvm::Value *TensorIr::descriptor(llvm::Value *address, const Lines &lines) {
  llvm::Value *low = b.CreateLShr(b.CreateAnd(address, number(0x3ffff)), 4);
  return b.CreateOr(b.CreateZExt(low, b.getInt64Ty()), b.getInt64(lines.high));
}

static const char *classOf(const llvm::Value *value) {
  return value->getType()->isFloatTy() ? "f" : value->getType()->isIntegerTy(64) ? "l" : "r";
}

std::vector<llvm::Value *> TensorIr::inPlace(const std::string &text, const std::vector<llvm::Value *> &reads,
                                             const std::vector<llvm::Value *> &tied) {
  std::string constraints;
  std::vector<Type *> types;
  for (llvm::Value *one : tied)
    constraints += std::string("=") + classOf(one) + ",", types.push_back(one->getType());
  for (llvm::Value *one : reads)
    constraints += std::string(classOf(one)) + ",";
  for (size_t i = 0; i < tied.size(); ++i)
    constraints += std::to_string(i) + ",";
  std::vector<llvm::Value *> all = reads, results;
  all.insert(all.end(), tied.begin(), tied.end());
  llvm::Value *made = assembly(text, constraints + "~{memory}", StructType::get(context, types), all);
  for (size_t i = 0; i < tied.size(); ++i)
    results.push_back(b.CreateExtractValue(made, unsigned(i)));
  return results;
}

std::vector<llvm::Value *> TensorIr::multiplyGroup(int columns, const std::vector<llvm::Value *> &x, llvm::Value *w,
                                                   bool depthInner, const std::vector<llvm::Value *> &sums,
                                                   bool depthInnerOfX) {
  size_t count = size_t(columns) / 2;
  auto list = [](size_t from, size_t many) {
    std::string text = "{";
    for (size_t i = 0; i < many; ++i)
      text += (i ? ", $" : "$") + std::to_string(from + i);
    return text + "}";
  };
  bool inRegisters = x.size() > 1;
  std::string text = std::string("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, ") + (sums.empty() ? "0" : "1") +
                     ", 0;\n\twgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32.bf16.bf16 " +
                     list(0, count) + ", " + (inRegisters ? list(count, x.size()) : "$" + std::to_string(count)) +
                     ", $" + std::to_string(count + x.size()) + ", p, 1, 1, " +
                     (inRegisters     ? ""
                      : depthInnerOfX ? "0, "
                                      : "1, ") +
                     (depthInner ? "0" : "1") + ";\n\t}";
  std::vector<llvm::Value *> reads = x;
  reads.push_back(w);
  if (!sums.empty())
    return inPlace(text, reads, sums);
  std::string constraints;
  for (size_t i = 0; i < count; ++i)
    constraints += "=f,";
  for (llvm::Value *one : reads)
    constraints += std::string(classOf(one)) + ",";
  std::vector<Type *> types(count, b.getFloatTy());
  llvm::Value *made = assembly(text, constraints + "~{memory}", StructType::get(context, types), reads);
  std::vector<llvm::Value *> results;
  for (size_t i = 0; i < count; ++i)
    results.push_back(b.CreateExtractValue(made, unsigned(i)));
  return results;
}

} // namespace quern::codegen::tile
