// Takes: nothing. Gives: products of fragments that stay in registers, for compute capability 8.0 or later.
// Factors are made of the thread's number, as cores run slower where bits change than where all are zeros.
#include "codegen/tile/ptx/TensorProbe.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace quern::codegen::tile {

static constexpr unsigned probeThreads = 256, chains = 8, sums = 4, xRegisters = 4, wRegisters = 2; // m16n8k16

static void write(Module &module) {
  LLVMContext &context = module.getContext();
  IRBuilder<> b(context);
  auto *type = FunctionType::get(b.getVoidTy(), {PointerType::get(context, 1), b.getInt32Ty()}, false);
  Function *function = Function::Create(type, GlobalValue::ExternalLinkage, "tensor_probe", module);
  function->setCallingConv(CallingConv::PTX_Kernel);
  function->addFnAttr("nvvm.reqntid", std::to_string(probeThreads));
  function->addFnAttr(Attribute::NoUnwind);
  auto call = [&](Intrinsic::ID id, ArrayRef<llvm::Value *> arguments = {}) {
    return b.CreateCall(Intrinsic::getOrInsertDeclaration(&module, id), arguments);
  };
  BasicBlock *entry = BasicBlock::Create(context, "entry", function),
             *loop = BasicBlock::Create(context, "loop", function),
             *done = BasicBlock::Create(context, "done", function);
  b.SetInsertPoint(entry);
  llvm::Value *thread = call(Intrinsic::nvvm_read_ptx_sreg_tid_x), *group = call(Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  // Two bf16 in [1, 2), with the number's seven digits from the thread's.
  auto factors = [&](unsigned count, unsigned salt) {
    std::vector<llvm::Value *> all;
    for (unsigned i = 0; i < count; ++i) {
      llvm::Value *mixed = b.CreateMul(b.CreateAdd(thread, b.getInt32(salt + i)), b.getInt32(0x9e3779b1));
      all.push_back(b.CreateOr(b.CreateAnd(mixed, b.getInt32(0x007f007f)), b.getInt32(0x3f803f80)));
    }
    return all;
  };
  std::vector<llvm::Value *> x = factors(xRegisters, 1), w = factors(wRegisters, 1 + xRegisters);
  b.CreateCondBr(b.CreateICmpSGT(function->getArg(1), b.getInt32(0)), loop, done);
  b.SetInsertPoint(loop);
  PHINode *counter = b.CreatePHI(b.getInt32Ty(), 2);
  counter->addIncoming(b.getInt32(0), entry);
  std::vector<PHINode *> before;
  for (unsigned i = 0; i < chains * sums; ++i) {
    before.push_back(b.CreatePHI(b.getFloatTy(), 2));
    before.back()->addIncoming(ConstantFP::get(b.getFloatTy(), 0), entry);
  }
  std::vector<llvm::Value *> after;
  for (unsigned chain = 0; chain < chains; ++chain) {
    std::vector<llvm::Value *> arguments = x;
    arguments.insert(arguments.end(), w.begin(), w.end());
    arguments.insert(arguments.end(), before.begin() + chain * sums, before.begin() + (chain + 1) * sums);
    llvm::Value *made = call(Intrinsic::nvvm_mma_m16n8k16_row_col_bf16, arguments);
    for (unsigned e = 0; e < sums; ++e) {
      after.push_back(b.CreateExtractValue(made, e));
      before[chain * sums + e]->addIncoming(after.back(), loop);
    }
  }
  llvm::Value *next = b.CreateAdd(counter, b.getInt32(1));
  counter->addIncoming(next, loop);
  b.CreateCondBr(b.CreateICmpSLT(next, function->getArg(1)), loop, done);
  b.SetInsertPoint(done);
  std::vector<PHINode *> ends;
  for (llvm::Value *sum : after) {
    ends.push_back(b.CreatePHI(b.getFloatTy(), 2));
    ends.back()->addIncoming(ConstantFP::get(b.getFloatTy(), 0), entry);
    ends.back()->addIncoming(sum, loop);
  }
  llvm::Value *all = ends[0];
  for (size_t i = 1; i < ends.size(); ++i)
    all = b.CreateFAdd(all, ends[i]);
  llvm::Value *at = b.CreateAdd(b.CreateMul(group, b.getInt32(probeThreads)), thread);
  b.CreateStore(all, b.CreateGEP(b.getFloatTy(), function->getArg(0), b.CreateZExt(at, b.getInt64Ty())));
  b.CreateRetVoid();
}

PtxModule tensorProbe() {
  return ptxOf("the probe of tensor cores", 80, write);
}

} // namespace quern::codegen::tile
