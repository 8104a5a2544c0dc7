// Takes: a tile program and its PTX. Gives: the C function that the host program calls: which variant fits, memory between
// launches, grids and arguments. What it calls is runtime/device/cuda/TileLaunch.cpp. Nothing of a kernel is computed here.
#include "codegen/tile/LaunchIr.h"

#include "codegen/llvm/SizeValue.h"
#include "codegen/tile/Signature.h"
#include "codegen/tile/ptx/PtxModule.h"

#include "llvm/IR/IRBuilder.h"

using namespace llvm;

namespace quern::codegen::tile {

namespace {
class LaunchIr {
public:
  LaunchIr(const Program &program, Module &module)
      : p(program), module(module), context(module.getContext()), b(context) {
    pointer = PointerType::getUnqual(context);
    i64 = b.getInt64Ty(), i32 = b.getInt32Ty();
  }
  void run(const std::map<int, std::string> &texts, const std::string &symbol);

private:
  const Program &p;
  Module &module;
  LLVMContext &context;
  IRBuilder<> b;
  PointerType *pointer;
  Type *i64, *i32;
  Function *function = nullptr;
  BasicBlock *failed = nullptr;
  std::map<std::string, llvm::Value *> lengths; // of 64 bits
  std::vector<llvm::Value *> given;             // halide_buffer_t of arguments and results
  std::map<int, llvm::Value *> addresses;

  llvm::Value *number(int64_t value) { return b.getInt64(uint64_t(value)); }
  llvm::Value *sizeOf(const ir::Size &size) { return sizeValue(b, size, i64, lengths); }
  llvm::Value *call(const char *name, Type *result, const std::vector<llvm::Value *> &arguments) {
    std::vector<Type *> types;
    for (llvm::Value *argument : arguments)
      types.push_back(argument->getType());
    return b.CreateCall(module.getOrInsertFunction(name, FunctionType::get(result, types, false)), arguments);
  }
  llvm::Value *field(Type *type, llvm::Value *from, int64_t bytes) {
    return b.CreateLoad(type, b.CreateGEP(b.getInt8Ty(), from, number(bytes)));
  }
  /// halide_buffer_t: the device's address first; of its dimensions, the last of ours first, the stride is the third word.
  llvm::Value *strideOf(int buffer, size_t dim) {
    size_t reversed = p.buffers[size_t(buffer)].dims.size() - 1 - dim;
    return field(i32, field(pointer, given[size_t(buffer)], 40), int64_t(reversed) * 16 + 8);
  }
  void check(llvm::Value *fine) {
    BasicBlock *next = BasicBlock::Create(context, "next", function);
    b.CreateCondBr(fine, next, failed);
    b.SetInsertPoint(next);
  }
  llvm::Value *fits(const Variant &variant);
  llvm::Value *strideInElements(int buffer, size_t dim);
  llvm::Value *tensor(const Operand &operand);
  struct Image {
    llvm::Value *text, *bytes, *state, *known;
  };
  std::map<int, Image> images; // by capability
  void launch(size_t variant, size_t stage, llvm::Value *state);
  void variant(size_t number);
};
} // namespace

/// In 64 bits.
llvm::Value *LaunchIr::strideInElements(int buffer, size_t dim) {
  const Buffer &of = p.buffers[size_t(buffer)];
  if (of.role != Buffer::Role::Scratch)
    return of.layout.strides[dim] ? number(*of.layout.strides[dim]) : b.CreateSExt(strideOf(buffer, dim), i64);
  llvm::Value *stride = number(1);
  for (size_t d = of.dims.size(); d-- > dim + 1;) {
    llvm::Value *extent = sizeOf(of.dims[d].size);
    if (d + 1 == of.dims.size()) // rows begin at multiples of eight
      extent = b.CreateAnd(b.CreateAdd(extent, number(7)), number(-8));
    stride = b.CreateMul(stride, extent);
  }
  return stride;
}

/// runtime/device/GpuDevice.h has the fields: a number, the address, then extents, strides in bytes and boxes.
llvm::Value *LaunchIr::tensor(const Operand &operand) {
  const Tensor &t = operand.tensor;
  constexpr unsigned most = 5, head = 3;
  auto *type = ArrayType::get(i64, head + 3 * most);
  IRBuilder<> entry(&function->getEntryBlock(), function->getEntryBlock().begin());
  llvm::Value *made = entry.CreateAlloca(type);
  auto set = [&](unsigned at, llvm::Value *value) {
    b.CreateStore(value, b.CreateConstInBoundsGEP2_64(type, made, 0, at));
  };
  set(0, addresses.at(operand.buffer));
  set(1, number(int64_t(t.dims.size())));
  set(2, number(2 * t.width));
  for (unsigned d = 0; d < t.dims.size(); ++d) {
    const TensorDim &dim = t.dims[d];
    llvm::Value *stride = dim.stride ? sizeOf(*dim.stride) : strideInElements(operand.buffer, dim.of);
    set(head + d, sizeOf(dim.extent));
    set(head + most + d, b.CreateMul(stride, number(2)));
    set(head + 2 * most + d, number(dim.box));
  }
  return b.CreatePtrToInt(made, i64);
}

llvm::Value *LaunchIr::fits(const Variant &variant) {
  llvm::Value *holds = b.getTrue();
  if (variant.capability != p.variants.back().capability) { // else the device must run it, or says why not
    const Image &image = images.at(variant.capability);
    holds = b.CreateICmpSGT(call("quern_tile_takes", i32, {image.known, image.text, image.bytes}), b.getInt32(0));
  }
  for (const Variant::Adjacent &one : variant.adjacent) {
    llvm::Value *follows = b.CreateMul(strideInElements(one.buffer, one.inner), sizeOf(one.extent));
    holds = b.CreateAnd(holds, b.CreateICmpEQ(strideInElements(one.buffer, one.outer), follows));
  }
  if (variant.mostRows)
    holds = b.CreateAnd(holds, b.CreateICmpSLE(sizeOf(variant.rows), number(variant.mostRows)));
  llvm::Value *bytes = number(0);
  for (int buffer : variant.aligned) {
    bytes = b.CreateOr(bytes, addresses.at(buffer));
    const Buffer &of = p.buffers[size_t(buffer)];
    for (size_t d = 0; of.role != Buffer::Role::Scratch && d + 1 < of.dims.size(); ++d)
      if (!of.layout.strides[d])
        bytes = b.CreateOr(bytes, b.CreateShl(b.CreateSExt(strideOf(buffer, d), i64), 1));
  }
  return b.CreateAnd(holds, b.CreateICmpEQ(b.CreateAnd(bytes, number(15)), number(0)));
}

void LaunchIr::launch(size_t number, size_t index, llvm::Value *state) {
  const Stage &stage = p.variants[number].stages[index];
  std::vector<Parameter> parameters = parametersOf(p, stage);
  auto *type = ArrayType::get(i64, parameters.size());
  IRBuilder<> entry(&function->getEntryBlock(), function->getEntryBlock().begin());
  llvm::Value *values = entry.CreateAlloca(type);
  std::vector<Constant *> pointers;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter &parameter = parameters[i];
    llvm::Value *value = parameter.form == Parameter::Form::Pointer  ? addresses.at(parameter.buffer)
                         : parameter.form == Parameter::Form::Tensor ? tensor(operandOf(stage, parameter.dim))
                         : parameter.form == Parameter::Form::Length
                             ? lengths.at(parameter.symbol)
                             : b.CreateZExt(strideOf(parameter.buffer, parameter.dim), i64);
    b.CreateStore(value, b.CreateConstInBoundsGEP2_64(type, values, 0, i));
    pointers.push_back(b.getInt8(parameter.form == Parameter::Form::Pointer  ? 1
                                 : parameter.form == Parameter::Form::Tensor ? 2
                                                                             : 0));
  }
  Constant *list = ConstantArray::get(ArrayType::get(b.getInt8Ty(), pointers.size()), pointers);
  auto *kinds = new GlobalVariable(module, list->getType(), true, GlobalValue::PrivateLinkage, list);
  Grid grid = gridOf(stage);
  auto pieces = [&](const Pieces &of) -> llvm::Value * {
    return b.CreateSDiv(b.CreateAdd(sizeOf(of.extent), this->number(of.by - 1)), this->number(of.by));
  };
  llvm::Value *y = pieces(grid.y);
  if (stage.form == Stage::Form::Map) // its function goes on to the rest
    y = b.CreateBinaryIntrinsic(Intrinsic::smin, y, this->number(mostMapRows));
  llvm::Value *status =
      call("quern_tile_launch", i32,
           {state, b.CreateGlobalString(kernelName(p, number, index)), pieces(grid.x), y, pieces(grid.z),
            b.getInt32(uint32_t(grid.threads)), b.getInt32(uint32_t(grid.sharedBytes)),
            b.getInt32(uint32_t(parameters.size())), kinds, values});
  check(b.CreateICmpEQ(status, b.getInt32(0)));
}

void LaunchIr::variant(size_t number) {
  const Variant &variant = p.variants[number];
  const Image &image = images.at(variant.capability);
  llvm::Value *status = call("quern_tile_build", i32, {image.state, image.text, image.bytes});
  check(b.CreateICmpEQ(status, b.getInt32(0)));
  llvm::Value *state = b.CreateLoad(pointer, image.state);
  std::vector<int> taken;
  for (const Stage &stage : variant.stages)
    for (const Parameter &parameter : parametersOf(p, stage)) {
      const Buffer &buffer = p.buffers[size_t(parameter.buffer)];
      bool isMemory = parameter.form == Parameter::Form::Pointer || parameter.form == Parameter::Form::Tensor;
      if (!isMemory || buffer.role != Buffer::Role::Scratch || addresses.count(parameter.buffer))
        continue;
      llvm::Value *bytes = this->number(support::bytesOf(buffer.storage));
      for (size_t d = 0; d < buffer.dims.size(); ++d) {
        llvm::Value *extent = sizeOf(buffer.dims[d].size);
        if (d + 1 == buffer.dims.size())
          extent = b.CreateAnd(b.CreateAdd(extent, this->number(7)), this->number(-8));
        bytes = b.CreateMul(bytes, extent);
      }
      llvm::Value *address = call("quern_tile_take", i64, {bytes});
      addresses[parameter.buffer] = address;
      taken.push_back(parameter.buffer);
      check(b.CreateICmpNE(address, this->number(0)));
    }
  for (size_t i = 0; i < variant.stages.size(); ++i)
    launch(number, i, state);
  for (int buffer : taken)
    call("quern_tile_give", b.getVoidTy(), {addresses.at(buffer)});
  b.CreateRet(b.getInt32(0));
}

void LaunchIr::run(const std::map<int, std::string> &texts, const std::string &symbol) {
  size_t buffers = 0;
  for (const Buffer &buffer : p.buffers)
    buffers += buffer.role != Buffer::Role::Scratch;
  std::vector<Type *> types(p.symbols.size(), i32);
  types.resize(p.symbols.size() + buffers, pointer);
  function = Function::Create(FunctionType::get(i32, types, false), GlobalValue::ExternalLinkage, symbol, module);
  BasicBlock *entry = BasicBlock::Create(context, "entry", function);
  failed = BasicBlock::Create(context, "failed", function);
  b.SetInsertPoint(failed);
  b.CreateRet(b.getInt32(1));
  b.SetInsertPoint(entry);
  for (size_t i = 0; i < p.symbols.size(); ++i)
    lengths[p.symbols[i]] = b.CreateSExt(function->getArg(unsigned(i)), i64);
  for (size_t i = 0; i < buffers; ++i) {
    given.push_back(function->getArg(unsigned(p.symbols.size() + i)));
    addresses[int(i)] = field(i64, given.back(), 0);
  }
  for (const auto &[capability, ptx] : texts) {
    std::string name = symbol + "_" + std::to_string(capability);
    auto *state = new GlobalVariable(module, pointer, false, GlobalValue::InternalLinkage,
                                     ConstantPointerNull::get(pointer), name + "_built"),
         *known = new GlobalVariable(module, i32, false, GlobalValue::InternalLinkage, b.getInt32(0), name + "_known");
    images[capability] = {b.CreateGlobalString(ptx), number(int64_t(ptx.size())), state, known};
  }
  for (size_t i = 0; i < p.variants.size(); ++i) {
    BasicBlock *here = BasicBlock::Create(context, p.variants[i].name, function),
               *next = BasicBlock::Create(context, "else", function);
    b.CreateCondBr(fits(p.variants[i]), here, next);
    b.SetInsertPoint(here);
    auto outer = addresses;
    variant(i);
    addresses = outer;
    b.SetInsertPoint(next);
  }
  b.CreateRet(b.getInt32(1)); // the last variant fits always

  Function *byPointers = Function::Create(FunctionType::get(i32, {pointer}, false), GlobalValue::ExternalLinkage,
                                          symbol + "_argv", module);
  b.SetInsertPoint(BasicBlock::Create(context, "entry", byPointers));
  std::vector<llvm::Value *> arguments;
  for (size_t i = 0; i < types.size(); ++i) {
    llvm::Value *at = b.CreateLoad(pointer, b.CreateConstInBoundsGEP1_64(pointer, byPointers->getArg(0), i));
    arguments.push_back(types[i] == i32 ? b.CreateLoad(i32, at) : at);
  }
  b.CreateRet(b.CreateCall(function, arguments));
}

void emitLaunches(const Program &program, const std::map<int, std::string> &texts, const std::string &symbol,
                  Module &module) {
  LaunchIr(program, module).run(texts, symbol);
}

} // namespace quern::codegen::tile
