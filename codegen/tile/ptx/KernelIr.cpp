// Takes: a launch of a tile program. Gives: what its function is made of in LLVM IR: each value once at a place, addresses,
// loops. Why LLVM's IR and not MLIR's: its nvvm dialect becomes these intrinsics, and kernels see no MLIR (docs/design/tile.md).
#include "codegen/tile/ptx/KernelIr.h"
#include "codegen/llvm/SizeValue.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <cmath>

using namespace llvm;

namespace quern::codegen::tile {

KernelIr::KernelIr(const Program &program, const Stage &stage, const std::string &name, Module &module)
    : p(program), s(stage), module(module), context(module.getContext()), b(context), math(b) {
  FastMathFlags flags;
  flags.setAllowContract();
  b.setFastMathFlags(flags);
  std::vector<Parameter> parameters = parametersOf(p, s);
  std::vector<Type *> types;
  for (const Parameter &parameter : parameters)
    types.push_back(parameter.form == Parameter::Form::Pointer  ? static_cast<Type *>(PointerType::get(context, 1))
                    : parameter.form == Parameter::Form::Tensor ? static_cast<Type *>(PointerType::get(context, 0))
                                                                : b.getInt32Ty());
  function =
      Function::Create(FunctionType::get(b.getVoidTy(), types, false), GlobalValue::ExternalLinkage, name, module);
  function->setCallingConv(CallingConv::PTX_Kernel);
  function->addFnAttr("nvvm.reqntid", std::to_string(gridOf(s).threads));
  if (int blocks = blocksTogether(s)) // else ptxas spills a few registers for more of them
    function->addFnAttr("nvvm.minctasm", std::to_string(blocks));
  function->addFnAttr(Attribute::NoUnwind);
  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  for (size_t i = 0; i < parameters.size(); ++i) {
    Argument *argument = function->getArg(unsigned(i));
    const Parameter &parameter = parameters[i];
    if (parameter.form == Parameter::Form::Pointer)
      pointers[parameter.buffer] = argument;
    else if (parameter.form == Parameter::Form::Length)
      lengths[parameter.symbol] = argument;
    else if (parameter.form == Parameter::Form::Tensor) { // stays where the launch put it
      argument->addAttr(Attribute::getWithByValType(context, ArrayType::get(b.getInt64Ty(), 16)));
      argument->addAttr(Attribute::getWithAlignment(context, Align(64)));
      argument->addAttr(Attribute::get(context, "nvvm.grid_constant"));
      tensors[parameter.dim] = b.CreatePtrToInt(argument, b.getInt64Ty());
    } else
      strides[{parameter.buffer, parameter.dim}] = argument;
  }
  for (const Value &v : p.values.all) {
    uint8_t bits = v.form == Value::Form::Coordinate  ? uint8_t(1 << v.integer)
                   : v.form == Value::Form::Sum       ? (v.operands.empty() ? 16 : 16 | 1 << int(Coordinate::Row))
                   : v.form == Value::Form::Statistic ? 32
                                                      : 0;
    for (int operand : v.operands)
      bits |= depends[size_t(operand)];
    depends.push_back(bits);
  }
}

void KernelIr::run() {
  thread = call(Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
  group[0] = call(Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {});
  group[1] = call(Intrinsic::nvvm_read_ptx_sreg_ctaid_y, {});
  group[2] = call(Intrinsic::nvvm_read_ptx_sreg_ctaid_z, {});
  lane = rest(thread, 32);
  warp = divide(thread, 32);
  body();
  b.CreateRetVoid();
}

llvm::Value *KernelIr::call(Intrinsic::ID id, std::vector<llvm::Value *> arguments, std::vector<Type *> types) {
  return b.CreateCall(Intrinsic::getOrInsertDeclaration(&module, id, types), arguments);
}

llvm::Value *KernelIr::assembly(const std::string &text, const std::string &constraints, Type *result,
                                const std::vector<llvm::Value *> &arguments) {
  std::vector<Type *> types;
  for (llvm::Value *argument : arguments)
    types.push_back(argument->getType());
  InlineAsm *code = InlineAsm::get(FunctionType::get(result, types, false), text, constraints, true);
  CallInst *made = b.CreateCall(code, arguments);
  made->setConvergent();
  return made;
}

void KernelIr::barrier() {
  call(Intrinsic::nvvm_barrier_cta_sync_aligned_all, {number(0)});
}

void KernelIr::when(llvm::Value *condition, const std::function<void()> &inside) {
  BasicBlock *then = BasicBlock::Create(context, "then", function),
             *after = BasicBlock::Create(context, "after", function);
  b.CreateCondBr(condition, then, after);
  b.SetInsertPoint(then);
  auto outer = known;
  inside();
  known = std::move(outer);
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

std::vector<llvm::Value *> KernelIr::either(llvm::Value *condition,
                                            const std::function<std::vector<llvm::Value *>()> &then,
                                            const std::function<std::vector<llvm::Value *>()> &otherwise) {
  BasicBlock *from[2] = {BasicBlock::Create(context, "then", function), BasicBlock::Create(context, "else", function)},
             *after = BasicBlock::Create(context, "after", function);
  b.CreateCondBr(condition, from[0], from[1]);
  std::vector<llvm::Value *> made[2], joined;
  for (int side = 0; side < 2; ++side) {
    b.SetInsertPoint(from[side]);
    auto outer = known;
    made[side] = side ? otherwise() : then();
    known = std::move(outer);
    from[side] = b.GetInsertBlock();
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
  for (size_t i = 0; i < made[0].size(); ++i) {
    PHINode *one = b.CreatePHI(made[0][i]->getType(), 2);
    for (int side = 0; side < 2; ++side)
      one->addIncoming(made[side][i], from[side]);
    joined.push_back(one);
  }
  return joined;
}

void KernelIr::loop(llvm::Value *from, llvm::Value *to, llvm::Value *step, std::vector<llvm::Value *> &carried,
                    const std::function<void(llvm::Value *)> &inside, int together) {
  BasicBlock *before = b.GetInsertBlock(), *head = BasicBlock::Create(context, "head", function),
             *within = BasicBlock::Create(context, "loop", function),
             *after = BasicBlock::Create(context, "done", function);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  PHINode *counter = b.CreatePHI(b.getInt32Ty(), 2);
  counter->addIncoming(from, before);
  std::vector<PHINode *> phis;
  for (llvm::Value *&value : carried) {
    phis.push_back(b.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    value = phis.back();
  }
  b.CreateCondBr(b.CreateICmpSLT(counter, to), within, after);
  b.SetInsertPoint(within);
  auto outer = known;
  inside(counter);
  known = std::move(outer);
  BasicBlock *last = b.GetInsertBlock();
  counter->addIncoming(b.CreateAdd(counter, step), last);
  for (size_t i = 0; i < phis.size(); ++i) {
    phis[i]->addIncoming(carried[i], last);
    carried[i] = phis[i];
  }
  MDNode *count = MDNode::get(context, {MDString::get(context, "llvm.loop.unroll.count"),
                                        ConstantAsMetadata::get(b.getInt32(uint32_t(together)))});
  MDNode *loopId = MDNode::getDistinct(context, {nullptr, count});
  loopId->replaceOperandWith(0, loopId);
  b.CreateBr(head)->setMetadata(LLVMContext::MD_loop, loopId);
  b.SetInsertPoint(after);
}

llvm::Value *KernelIr::sizeOf(const ir::Size &size) {
  return sizeValue(b, size, b.getInt32Ty(), lengths);
}

llvm::Value *KernelIr::shared(llvm::Value *bytes) {
  GlobalVariable *memory = module.getGlobalVariable("quern_shared");
  if (!memory) {
    memory = new GlobalVariable(module, ArrayType::get(b.getInt8Ty(), 0), false, GlobalValue::ExternalLinkage, nullptr,
                                "quern_shared", nullptr, GlobalValue::NotThreadLocal, 3);
    memory->setAlignment(Align(1024));
  }
  return b.CreateGEP(b.getInt8Ty(), memory, bytes);
}

void KernelIr::stand(llvm::Value *row, llvm::Value *column, llvm::Value *matrix, llvm::Value *depth) {
  at[0] = row, at[1] = column, at[2] = matrix, at[3] = depth;
}

llvm::Value *KernelIr::get(int value) {
  std::pair<int, std::vector<llvm::Value *>> key{value, {}};
  for (int i = 0; i < 4; ++i)
    key.second.push_back(depends[size_t(value)] & 1 << i ? at[i] : nullptr);
  if (depends[size_t(value)] & 16)
    key.second.insert(key.second.end(), sums.begin(), sums.end());
  if (depends[size_t(value)] & 32)
    key.second.insert(key.second.end(), statistics.begin(), statistics.end());
  if (auto found = known.find(key); found != known.end())
    return found->second;
  llvm::Value *made = compute(p.values[value]);
  known[std::move(key)] = made;
  return made;
}

void KernelIr::ask(int value) {
  if (!(depends[size_t(value)] & 16))
    get(value);
  else
    for (int operand : p.values[value].operands)
      ask(operand);
}

llvm::Value *KernelIr::sumAt(llvm::Value *, llvm::Value *) {
  throw std::logic_error("no launch but dots has sums of other columns");
}

llvm::Value *KernelIr::widened(llvm::Value *bits) {
  return b.CreateBitCast(b.CreateShl(b.CreateZExt(bits, b.getInt32Ty()), 16), b.getFloatTy());
}

llvm::Value *KernelIr::powerOfTwo(llvm::Value *x) {
  return call(Intrinsic::nvvm_ex2_approx_ftz, {x}, {b.getFloatTy()});
}

llvm::Value *KernelIr::compute(const Value &v) {
  switch (v.form) {
  case Value::Form::Number:
    return v.kind == Kind::Real  ? ConstantFP::get(b.getFloatTy(), v.real)
           : v.kind == Kind::Int ? number(v.integer)
                                 : static_cast<llvm::Value *>(b.getInt1(v.integer != 0));
  case Value::Form::Coordinate:
    return at[v.integer];
  case Value::Form::Length:
    return sizeOf(v.size);
  case Value::Form::Sum:
    return v.operands.empty() ? sums.at(size_t(v.integer)) : sumAt(at[0], get(v.operands[0]));
  case Value::Form::Statistic:
    return statistics.at(size_t(v.integer));
  case Value::Form::Load:
    return load(int(v.integer), v.operands);
  case Value::Form::Table: {
    std::vector<Constant *> list;
    for (double one : v.numbers)
      list.push_back(ConstantFP::get(b.getFloatTy(), one));
    auto *type = ArrayType::get(b.getFloatTy(), list.size());
    auto *table = new GlobalVariable(module, type, true, GlobalValue::InternalLinkage, ConstantArray::get(type, list),
                                     "table", nullptr, GlobalValue::NotThreadLocal, 4);
    return b.CreateLoad(b.getFloatTy(), b.CreateGEP(b.getFloatTy(), table, get(v.operands[0])));
  }
  default:
    break;
  }
  std::vector<llvm::Value *> operands;
  std::vector<Kind> kinds;
  for (int operand : v.operands) {
    operands.push_back(get(operand));
    kinds.push_back(p.values[operand].kind);
  }
  if (v.op == Op::Exp && quickPowers)
    return powerOfTwo(b.CreateFMul(operands[0], ConstantFP::get(b.getFloatTy(), 1.44269504088896340736)));
  if (v.op == Op::Narrow)
    return widened(b.CreateBitCast(call(Intrinsic::nvvm_f2bf16_rn, {operands[0]}), b.getInt16Ty()));
  bool positions = v.kind == Kind::Int && (v.op == Op::FloorDiv || v.op == Op::Mod);
  auto *by = positions ? dyn_cast<ConstantInt>(operands[1]) : nullptr;
  auto fromPlace = [&](int i) { return (depends[size_t(i)] & 15) && p.values[i].form != Value::Form::Load; };
  if (by && by->getSExtValue() > 0 && p.values[v.operands[0]].form == Value::Form::Coordinate &&
      fromPlace(v.operands[0]))
    return v.op == Op::Mod ? b.CreateURem(operands[0], by) : b.CreateUDiv(operands[0], by); // no position is negative
  Node node{v.op, storageOf(v.kind)};
  node.predicate = v.predicate;
  return math.elementwise(node, kinds, std::move(operands));
}

llvm::Value *KernelIr::strideOf(int buffer, size_t dim) {
  const Buffer &of = p.buffers[size_t(buffer)];
  if (of.role != Buffer::Role::Scratch)
    return of.layout.strides[dim] ? number(*of.layout.strides[dim]) : strides.at({buffer, dim});
  llvm::Value *stride = number(1);
  for (size_t d = of.dims.size(); d-- > dim + 1;) {
    llvm::Value *extent = sizeOf(of.dims[d].size);
    if (d + 1 == of.dims.size()) // rows begin at multiples of eight
      extent = b.CreateAnd(add(extent, 7), number(-8));
    stride = b.CreateMul(stride, extent);
  }
  return stride;
}

llvm::Value *KernelIr::combined(Reduction reduction, llvm::Value *x, llvm::Value *y) {
  return reduction == Reduction::Max   ? math.max(x, y)
         : reduction == Reduction::Min ? math.min(x, y)
                                       : b.CreateFAdd(x, y);
}

llvm::Value *KernelIr::neutral(Reduction reduction) {
  return ConstantFP::get(b.getFloatTy(), reduction == Reduction::Max   ? -INFINITY
                                         : reduction == Reduction::Min ? INFINITY
                                                                       : 0);
}

llvm::Value *KernelIr::ofWarp(Reduction reduction, llvm::Value *x) {
  for (int apart = 1; apart < 32; apart *= 2)
    x = combined(reduction, x, call(Intrinsic::nvvm_shfl_sync_bfly_f32, {number(-1), x, number(apart), number(31)}));
  return x;
}

static Type *storedType(IRBuilder<> &b, Storage storage) {
  switch (storage) {
  case Storage::F32:
    return b.getFloatTy();
  case Storage::I32:
    return b.getInt32Ty();
  case Storage::BF16:
    return b.getInt16Ty();
  case Storage::F16:
    return b.getHalfTy();
  default:
    return b.getInt8Ty();
  }
}

llvm::Value *KernelIr::address(int buffer, const std::vector<int> &positions) {
  const Buffer &of = p.buffers[size_t(buffer)];
  size_t rank = positions.size();
  auto wide = [&](llvm::Value *x) { return b.CreateSExt(x, b.getInt64Ty()); };
  llvm::Value *offset = b.getInt64(0);
  if (of.layout.packed) {
    int64_t tile = of.layout.tile;
    llvm::Value *n = get(positions[rank - 2]), *k = get(positions[rank - 1]);
    for (size_t d = 0; d + 2 < rank; ++d)
      offset = b.CreateAdd(b.CreateMul(offset, wide(sizeOf(of.dims[d].size))), wide(get(positions[d])));
    llvm::Value *tiles = divide(add(sizeOf(of.dims[rank - 2].size), tile - 1), tile);
    offset = b.CreateAdd(b.CreateMul(offset, wide(tiles)), wide(divide(n, tile)));
    offset = b.CreateAdd(b.CreateMul(offset, wide(sizeOf(of.dims[rank - 1].size))), wide(k));
    offset = b.CreateAdd(b.CreateMul(offset, b.getInt64(uint64_t(tile))), wide(rest(n, tile)));
  } else {
    for (size_t d = 0; d < rank; ++d)
      offset = b.CreateAdd(offset, b.CreateMul(wide(get(positions[d])), wide(strideOf(buffer, d))));
  }
  return b.CreateGEP(storedType(b, of.storage), pointers.at(buffer), offset);
}

/// A float of one byte, the lowest of a word, but for its unit.
llvm::Value *KernelIr::floatOf(const support::FloatCodes &form, llvm::Value *word) {
  llvm::Value *bits = b.CreateSExt(b.CreateTrunc(word, b.getInt8Ty()), b.getInt32Ty());
  return halfOf(b.CreateAnd(b.CreateShl(bits, uint64_t(form.shift)), number(form.mask)), 0);
}

/// A code times its scale (support/CodedGroups.h has the layout).
llvm::Value *KernelIr::code(int buffer, const std::vector<int> &positions) {
  const Buffer &of = p.buffers[size_t(buffer)];
  size_t rank = positions.size();
  int bits = bitsOfCode(of.storage);
  const int64_t tile = of.layout.tile, each = support::codesInStep(bits), length = support::groupOf(of.storage);
  auto wide = [&](llvm::Value *x) { return b.CreateSExt(x, b.getInt64Ty()); };
  llvm::Value *n = get(positions[rank - 2]), *k = get(positions[rank - 1]), *row = rest(n, tile), *in = rest(k, length);
  llvm::Value *index = b.getInt64(0);
  for (size_t d = 0; d + 2 < rank; ++d)
    index = b.CreateAdd(b.CreateMul(index, wide(sizeOf(of.dims[d].size))), wide(get(positions[d])));
  llvm::Value *tiles = divide(add(sizeOf(of.dims[rank - 2].size), tile - 1), tile),
              *groups = divide(add(sizeOf(of.dims[rank - 1].size), length - 1), length);
  index = b.CreateAdd(b.CreateMul(index, wide(tiles)), wide(divide(n, tile)));
  index = b.CreateAdd(b.CreateMul(index, wide(groups)), wide(divide(k, length)));
  llvm::Value *group =
      b.CreateGEP(b.getInt8Ty(), pointers.at(buffer),
                  b.CreateMul(index, b.getInt64(uint64_t(tile * support::bytesOf(of.storage, length)))));
  auto byte = [&](llvm::Value *at) {
    return b.CreateZExt(b.CreateLoad(b.getInt8Ty(), b.CreateGEP(b.getInt8Ty(), group, at)), b.getInt32Ty());
  };
  if (const support::FloatCodes *form = support::floatCodesOf(of.storage)) {
    llvm::Value *scale = byte(row);
    for (int i = 1; i < 4; ++i)
      scale = b.CreateOr(scale, b.CreateShl(byte(add(row, i * tile)), 8 * uint64_t(i)));
    return b.CreateFMul(b.CreateBitCast(scale, b.getFloatTy()),
                        floatOf(*form, byte(add(add(mul(in, tile), 4 * tile), row))));
  }
  llvm::Value *half = b.CreateOr(byte(row), b.CreateShl(byte(add(row, tile)), 8));
  llvm::Value *scale =
      b.CreateFPExt(b.CreateBitCast(b.CreateTrunc(half, b.getInt16Ty()), b.getHalfTy()), b.getFloatTy());
  llvm::Value *codes = byte(add(add(mul(add(mul(divide(in, each), tile), row), 4), rest(in, 4)), 2 * tile));
  if (bits == 4)
    codes = b.CreateAnd(b.CreateLShr(codes, mul(divide(rest(in, 8), 4), 4)), number(15));
  return b.CreateFMul(scale, b.CreateSIToFP(add(codes, -(1 << (bits - 1))), b.getFloatTy()));
}

llvm::Value *KernelIr::load(int buffer, const std::vector<int> &positions) {
  Storage storage = p.buffers[size_t(buffer)].storage;
  if (bitsOfCode(storage))
    return support::superBlocksOf(storage) ? superCode(buffer, positions) : code(buffer, positions);
  Type *type = storedType(b, storage);
  llvm::Value *from = address(buffer, positions),
              *value = b.CreateAlignedLoad(type, from, Align(type->getPrimitiveSizeInBits() / 8));
  switch (storage) {
  case Storage::BF16:
    return widened(value);
  case Storage::F16:
    return b.CreateFPExt(value, b.getFloatTy());
  case Storage::U8:
    return b.CreateICmpNE(value, b.getInt8(0));
  case Storage::I8:
    return b.CreateSExt(value, b.getInt32Ty());
  default:
    return value;
  }
}

void KernelIr::store(const Store &store, llvm::Value *inside, llvm::Value *value) {
  Storage storage = p.buffers[size_t(store.buffer)].storage;
  value = value ? value : get(store.value);
  llvm::Value *to = address(store.buffer, store.at);
  if (storage == Storage::BF16)
    value = b.CreateBitCast(call(Intrinsic::nvvm_f2bf16_rn, {value}), b.getInt16Ty());
  else if (storage == Storage::U8)
    value = b.CreateZExt(value, b.getInt8Ty());
  else if (storage == Storage::I8)
    value = b.CreateTrunc(value, b.getInt8Ty());
  when(inside, [&] { b.CreateAlignedStore(value, to, Align(value->getType()->getPrimitiveSizeInBits() / 8)); });
}

// ---- a map

namespace {
class MapIr : public KernelIr {
public:
  using KernelIr::KernelIr;

private:
  void body() override {
    int width = mapWidth(s);
    const bool pairs = storesPairs(s);
    llvm::Value *columns = sizeOf(s.columns.extent()), *rows = sizeOf(s.rows.extent());
    llvm::Value *column = mul(add(mul(group[0], width), rest(thread, width)), pairs ? 2 : 1),
                *first = add(mul(group[1], mapThreads / width), divide(thread, width));
    llvm::Value *step = mul(call(Intrinsic::nvvm_read_ptx_sreg_nctaid_y, {}), mapThreads / width);
    std::vector<llvm::Value *> none;
    loop(first, rows, step, none, [&](llvm::Value *row) {
      stand(row, least(column, add(columns, -1)), number(0), number(0));
      llvm::Value *inside = b.CreateICmpSLT(column, columns);
      auto put = [&](const Store &one, llvm::Value *where) {
        if (!pairs)
          return store(one, where);
        llvm::Value *made[2], *own = least(column, add(columns, -2)); // their number is even
        for (int i : {1, 0}) {
          stand(row, add(own, i), number(0), number(0));
          made[i] = get(one.value);
        }
        storePair(one, where, made[0], made[1]);
      };
      for (const Store &one : s.stores) {
        if (!one.to) {
          put(one, inside);
          continue;
        }
        llvm::Value *own = b.CreateAnd(b.CreateICmpSGE(row, sizeOf(one.from)), b.CreateICmpSLT(row, sizeOf(*one.to)));
        when(b.CreateAnd(own, inside), [&] { put(one, b.getTrue()); }); // elsewhere its places are none
      }
    });
  }
};
/// A warp for each row: lanes go along it side by side, then their numbers come together by shuffles.
class ReduceIr : public KernelIr {
public:
  using KernelIr::KernelIr;

private:
  void body() override {
    llvm::Value *columns = sizeOf(s.columns.extent()), *rows = sizeOf(s.rows.extent());
    llvm::Value *row = add(mul(group[0], mapThreads / 32), warp), *inside = b.CreateICmpSLT(row, rows);
    row = least(row, add(rows, -1));
    std::vector<llvm::Value *> made = {neutral(s.reduction)};
    loop(
        lane, columns, number(32), made,
        [&](llvm::Value *column) {
          stand(row, column, number(0), number(0));
          made[0] = combined(s.reduction, made[0], get(s.stores[0].value));
        },
        4);
    made[0] = ofWarp(s.reduction, made[0]);
    if (s.reduction == Reduction::Mean)
      made[0] = b.CreateFDiv(made[0], b.CreateSIToFP(columns, b.getFloatTy()));
    stand(row, number(0), number(0), number(0));
    store(s.stores[0], b.CreateAnd(inside, b.CreateICmpEQ(lane, number(0))), made[0]);
  }
};
} // namespace

void emitReduce(const Program &program, const Stage &stage, const std::string &name, Module &module) {
  ReduceIr(program, stage, name, module).run();
}

void emitMap(const Program &program, const Stage &stage, const std::string &name, Module &module) {
  MapIr(program, stage, name, module).run();
}

} // namespace quern::codegen::tile
