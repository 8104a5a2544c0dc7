// Takes: one function of launches, loops and views with planned places. Gives: an LLVM function that computes pointers
// and calls kernels. Why pointers and not memrefs: kernels take halide_buffer_t, whose shapes are set once on entry; a
// call then only stores its addresses.
#include "codegen/host/HostFunction.h"

#include "codegen/ReadKernel.h"
#include "codegen/kernel/Storage.h"
#include "ir/Attributes.h"
#include "ir/Chunk.h"
#include "ir/analysis/Views.h"
#include "ir/analysis/Weights.h"
#include "ir/analysis/Window.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::codegen;

static Type pointer(MLIRContext *context) {
  return LLVM::LLVMPointerType::get(context);
}

// ---- addresses

HostFunction::HostFunction(HostProgram &program, func::FuncOp source, LLVM::LLVMFuncOp target)
    : program(program), source(source), target(target), b(target), loc(source.getLoc()) {}

Value HostFunction::offset(Value pointer, Value bytes) {
  return LLVM::GEPOp::create(b, loc, pointer.getType(), b.getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{bytes});
}

Value HostFunction::field(CallField field) {
  Value at = offset(target.getBody().front().getArgument(0), size->number(static_cast<int64_t>(field) * 8));
  if (field == CallField::First)
    return LLVM::LoadOp::create(b, loc, b.getI32Type(), at);
  return LLVM::LoadOp::create(b, loc, pointer(b.getContext()), at);
}

Value HostFunction::loadPointer(Value table, Value index) {
  Value at = LLVM::GEPOp::create(b, loc, table.getType(), table.getType(), table, ArrayRef<LLVM::GEPArg>{index});
  return LLVM::LoadOp::create(b, loc, table.getType(), at);
}

Value HostFunction::iteration() {
  Value flat = arith::ConstantIntOp::create(b, loc, 0, 64);
  for (Loop &loop : loops) {
    if (chunkOf(loop.op)) // parameters are not of a chunk
      continue;
    Value many = arith::ConstantIntOp::create(b, loc, static_cast<int64_t>(loop.op.getIterations()), 64);
    flat = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, flat, many), loop.iteration);
  }
  return flat;
}

Value HostFunction::slot(int index) {
  Value byIteration = loadPointer(field(CallField::Slots), arith::ConstantIntOp::create(b, loc, index, 64));
  // Outside of loops a slot has one iteration; inside, a parameter that all iterations share has one too.
  if (program.slots.slots()[index].iterations.size() == 1)
    return loadPointer(byIteration, arith::ConstantIntOp::create(b, loc, 0, 64));
  return loadPointer(byIteration, iteration());
}

Value HostFunction::state(FlatSymbolRefAttr symbol, Value rows) {
  auto op = SymbolTable::lookupNearestSymbolFrom<StateOp>(source, symbol);
  auto type = cast<NamedTensorType>(op.getType());
  int64_t index = llvm::find(program.states, symbol.getValue().str()) - program.states.begin();
  Value start = loadPointer(field(CallField::States), arith::ConstantIntOp::create(b, loc, index, 64));
  if (type.getRank() == typeOf(rows).getRank())
    return start;
  Size perIteration = storedBytes(type, type.elements().divided(type.getDims()[0].getSize()).value());
  return offset(start, arith::MulIOp::create(b, loc, iteration(), (*size)(perIteration)));
}

/// Where the new rows of a cache are written: after the `past` first ones, or after the filled slots of a ring.
Value HostFunction::stateRows(RememberOp remember) {
  View view = quern::ir::ownView(remember.getResult());
  int at = typeOf(remember.getResult()).find(remember.getTo().getName());
  std::optional<int64_t> window = windowOf(remember.getTo().getSize());
  Size before = window ? filledSlots(*window) : Size::symbol("past");
  Size row = storedBytes(typeOf(remember.getResult()), view.strides[at] * before);
  return offset(state(remember.getStateAttr(), remember.getResult()), (*size)(row));
}

Value HostFunction::place(PlaceAttr place, Value value) {
  unsigned index = place.getIndex();
  switch (place.getKind()) {
  case PlaceKind::Arena:
    return offset(field(CallField::Arena), arenaOffsets[index]);
  case PlaceKind::Output:
    return loadPointer(field(CallField::Outputs), arith::ConstantIntOp::create(b, loc, index, 64));
  case PlaceKind::Kept: {
    Size bytes = storedBytes(typeOf(value));
    Value start = offset(field(CallField::Kept), keptOffsets[index]);
    return offset(start, arith::MulIOp::create(b, loc, iteration(), (*size)(bytes)));
  }
  case PlaceKind::Part: {
    auto loop = cast<RepeatOp>(value.getDefiningOp()->getParentOp());
    return partOfStack(base(loop.getResult(index)), loop, typeOf(loop.getResult(index)));
  }
  case PlaceKind::Rows:
    for (OpOperand &use : value.getUses())
      if (auto remember = dyn_cast<RememberOp>(use.getOwner()))
        return stateRows(remember);
    break;
  case PlaceKind::State:
    return state(cast<StoreOp>(*value.user_begin()).getStateAttr(), value);
  }
  llvm_unreachable("a planned buffer has a place");
}

Value HostFunction::partOfStack(Value stack, RepeatOp loop, NamedTensorType type) {
  auto around = llvm::find_if(loops, [&](Loop &other) { return other.op == loop; });
  assert(around != loops.end() && "a part of a stack is read and written inside of its loop");
  Size bytes = storedBytes(type, iterationStride(loop, type));
  return offset(stack, arith::MulIOp::create(b, loc, around->iteration, (*size)(bytes)));
}

/// Where the result of a launch or a loop is; null for any other value.
static PlaceAttr plannedPlace(Value value) {
  Operation *op = value.getDefiningOp();
  auto places = op ? op->getAttrOfType<ArrayAttr>(placesAttr) : ArrayAttr();
  return places ? cast<PlaceAttr>(places[cast<OpResult>(value).getResultNumber()]) : PlaceAttr();
}

Value HostFunction::base(Value owner) {
  Operation *op = owner.getDefiningOp();
  if (!op) {
    auto argument = cast<BlockArgument>(owner);
    if (auto repeat = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp()))
      return repeat.isCarried(argument.getArgNumber())
                 ? base(repeat.getResult(argument.getArgNumber()))
                 : partOfStack(address(repeat.getStacks()[argument.getArgNumber() - repeat.getCarriedCount()]), repeat,
                               typeOf(repeat.getStacks()[argument.getArgNumber() - repeat.getCarriedCount()]));
    return loadPointer(field(CallField::Inputs), arith::ConstantIntOp::create(b, loc, argument.getArgNumber(), 64));
  }
  if (auto param = dyn_cast<ParamOp>(op))
    return slot(program.slots.dense(param));
  if (auto remember = dyn_cast<RememberOp>(op))
    return state(remember.getStateAttr(), owner);
  if (auto recall = dyn_cast<RecallOp>(op))
    return state(recall.getStateAttr(), owner);
  return place(plannedPlace(owner), owner);
}

Value HostFunction::address(Value value) {
  View view = quern::ir::viewOf(value);
  Value start = base(view.base);
  if (view.offset == Size(0))
    return start;
  return offset(start, (*size)(storedBytes(typeOf(value), view.offset)));
}

/// A packed weight: the slot that the kernel's layout asks for.
Value HostFunction::weight(Value value, LayoutAttr layout) {
  NamedTensorType type = typeOf(value);
  StringRef outer = type.getDims()[type.getRank() - 2].getName(), inner = type.getDims().back().getName();
  SmallVector<ParamOp> params;
  SmallVector<Slots::Part> parts;
  auto add = [&](Value part, StringRef rows, ArrayRef<DimAttr> leading) {
    View view = quern::ir::viewOf(part);
    auto stride = [&](StringRef name) { return *view.strides[typeOf(part).find(name)].constant(); };
    auto param = view.base.getDefiningOp<ParamOp>();
    // Several matrices in one stored tensor, slowest first.
    SmallVector<int64_t> offsets = {0};
    for (DimAttr dim : leading) {
      if (!param.getStacked().empty())
        break;
      SmallVector<int64_t> all;
      for (int64_t offset : offsets)
        for (int64_t i = 0; i < *dim.getStatic(); ++i)
          all.push_back(offset + i * stride(dim.getName()));
      offsets = std::move(all);
    }
    for (int64_t offset : offsets) {
      params.push_back(param);
      parts.push_back({*typeOf(part).dim(rows).getStatic(), stride(rows), stride(inner), offset});
    }
  };
  ConcatOp joined = quern::ir::joinedWeight(value);
  QuantizeOp codes = quern::ir::codedWeight(value);
  if (!joined)
    add(codes ? codes.getX() : value, outer, type.getDims().drop_back(2));
  else
    for (auto [part, name] : llvm::zip(joined.getInputs(), names(joined.getParts())))
      add(part, joined.getInto().getName() == outer ? name : outer, {});
  return slot(program.slots.packed(params, parts, layout, *type.getDims().back().getStatic(), type.getStorage()));
}

// ---- headers of buffers

Value HostFunction::halideBuffer(NamedTensorType type, ArrayRef<Size> strides) {
  SmallVector<BufferHeaders::Dim> dims; // Halide counts from the innermost
  for (int i = static_cast<int>(type.getRank()) - 1; i >= 0; --i)
    dims.emplace_back(type.getDims()[i].getSize(), strides[i]);
  return headers->header(storedType(type.getStorage()), dims, b);
}

Value HostFunction::packedBuffer(NamedTensorType type, LayoutAttr attr) {
  const Layout layout = readLayout(attr);
  std::vector<int64_t> shape;
  for (DimAttr dim : type.getDims())
    shape.push_back(*dim.getStatic());
  SmallVector<BufferHeaders::Dim> dims;
  int64_t stride = 1;
  for (int64_t extent : packedExtents(type.getStorage(), layout, shape)) {
    dims.emplace_back(extent, stride);
    stride *= extent;
  }
  return headers->header(storedType(type.getStorage(), layout), dims, b);
}

// ---- operations

void HostFunction::call(LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  SmallVector<Value> arguments;
  headers->nextLaunch();
  for (Attribute symbol : launch.getSymbols()) {
    Value length = (*size)(*Size::parse(cast<StringAttr>(symbol).getValue()));
    arguments.push_back(arith::TruncIOp::create(b, loc, b.getI32Type(), length));
  }
  auto pass = [&](Value buffer, Value address) {
    Value field =
        offset(buffer, arith::ConstantIntOp::create(
                           b, loc, program.onDevice ? BufferHeaders::deviceField : BufferHeaders::hostField, 64));
    LLVM::StoreOp::create(b, loc, address, field);
    arguments.push_back(buffer);
  };
  for (auto [input, attr] : llvm::zip(launch.getInputs(), kernel.getArgLayouts())) {
    auto layout = cast<LayoutAttr>(attr);
    if (layout.isPacked())
      pass(packedBuffer(typeOf(input), layout), weight(input, layout));
    else
      pass(halideBuffer(typeOf(input), quern::ir::viewOf(input).strides), address(input));
  }
  for (Value result : launch.getResults()) {
    SmallVector<Size> strides = View::denseStrides(typeOf(result));
    for (Operation *user : result.getUsers())
      if (auto remember = dyn_cast<RememberOp>(user))
        strides = quern::ir::ownView(remember.getResult()).strides;
    pass(halideBuffer(typeOf(result), strides), base(result));
  }
  auto module = cast<ModuleOp>(target->getParentOp());
  const std::string &name = program.kernels.at(launch.getKernel().str());
  if (!module.lookupSymbol(name)) {
    OpBuilder top = OpBuilder::atBlockEnd(module.getBody());
    SmallVector<Type> types;
    for (Value argument : arguments)
      types.push_back(argument.getType());
    LLVM::LLVMFuncOp::create(top, loc, name, LLVM::LLVMFunctionType::get(b.getI32Type(), types));
  }
  Value number = arith::ConstantIntOp::create(b, loc, static_cast<int64_t>(program.launches.size()), 32);
  program.launches.push_back(launch);
  notifyProfile(0, {number, arith::TruncIOp::create(b, loc, b.getI32Type(), iteration())});
  Value code = LLVM::CallOp::create(b, loc, TypeRange{b.getI32Type()}, name, arguments).getResult();
  notifyProfile(1, {});
  Value before = LLVM::LoadOp::create(b, loc, b.getI32Type(), status);
  LLVM::StoreOp::create(b, loc, arith::OrIOp::create(b, loc, before, code), status);
}

/// Calls a function of quern_profile, by its position, if there is a profile.
void HostFunction::notifyProfile(int field, ArrayRef<Value> numbers) {
  Type pointerType = pointer(b.getContext());
  Value none = LLVM::ZeroOp::create(b, loc, pointerType);
  Value is = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, profile, none);
  auto branch = scf::IfOp::create(b, loc, is, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  callOf(profile, field, numbers);
}

Value HostFunction::callOf(Value table, int function, ArrayRef<Value> given, Type result) {
  SmallVector<Value> arguments = {loadPointer(table, arith::ConstantIntOp::create(b, loc, function, 64)), table};
  arguments.append(given.begin(), given.end());
  SmallVector<Type> types(TypeRange(ValueRange(arguments).drop_front()));
  Type type = LLVM::LLVMFunctionType::get(result ? result : LLVM::LLVMVoidType::get(b.getContext()), types);
  auto call = LLVM::CallOp::create(b, loc, cast<LLVM::LLVMFunctionType>(type), arguments);
  return result ? call.getResult() : Value();
}

void HostFunction::lowerLaunch(LaunchOp launch) {
  if (!launch.getOnce())
    return call(launch);
  Value first = field(CallField::First);
  Value yes =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, first, arith::ConstantIntOp::create(b, loc, 0, 32));
  auto branch = scf::IfOp::create(b, loc, yes, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  call(launch);
}

void HostFunction::copy(Value from, Value to, NamedTensorType type) {
  copyBytes(from, to, (*size)(storedBytes(type)));
}

/// Where a device computes, within its memory.
void HostFunction::copyBytes(Value from, Value to, Value bytes) {
  if (program.onDevice)
    callOf(field(CallField::Device), 0, {to, from, bytes});
  else
    LLVM::MemmoveOp::create(b, loc, to, from, bytes, /*isVolatile=*/false);
}

/// A new state; or a check: if it holds true, the function's status names it (the first one stays).
void HostFunction::lowerStore(StoreOp store) {
  if (PlaceAttr place = plannedPlace(store.getX()); place && place.getKind() == PlaceKind::State)
    return; // it is there
  auto check = llvm::find(program.checks, store.getState().str());
  if (check == program.checks.end())
    return copy(address(store.getX()), state(store.getStateAttr(), store.getX()), typeOf(store.getX()));
  auto number = [&](int64_t value, unsigned bits) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, bits);
  };
  using arith::CmpIPredicate;
  Value flag;
  if (program.onDevice)
    flag = arith::TruncIOp::create(b, loc, b.getI8Type(),
                                   callOf(field(CallField::Device), 1, {address(store.getX())}, b.getI32Type()));
  else
    flag = LLVM::LoadOp::create(b, loc, b.getI8Type(), address(store.getX()));
  Value before = LLVM::LoadOp::create(b, loc, b.getI32Type(), status);
  Value bad = arith::CmpIOp::create(b, loc, CmpIPredicate::ne, flag, number(0, 8));
  Value fine = arith::CmpIOp::create(b, loc, CmpIPredicate::eq, before, number(0, 32));
  Value now = arith::AndIOp::create(b, loc, bad, fine);
  Value code = number(-(check - program.checks.begin()) - 1, 32);
  LLVM::StoreOp::create(b, loc, arith::SelectOp::create(b, loc, now, code, before), status);
}

void HostFunction::lowerRepeat(RepeatOp repeat) {
  auto flag = [&](StringRef name, unsigned i) {
    return cast<BoolAttr>(repeat->getAttrOfType<ArrayAttr>(name)[i]).getValue();
  };
  for (auto [i, init] : llvm::enumerate(repeat.getInits()))
    if (flag(copyInAttr, i))
      copy(address(init), base(repeat.getResult(i)), typeOf(init));
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 64), one = arith::ConstantIntOp::create(b, loc, 1, 64);
  std::optional<Chunk> chunk = chunkOf(repeat);
  Value many = arith::ConstantIntOp::create(b, loc, static_cast<int64_t>(repeat.getIterations()), 64), most, rows;
  if (chunk) {
    most = size->number(chunk->most);
    rows = (*size)(chunk->rows);
    many = arith::DivSIOp::create(b, loc, arith::AddIOp::create(b, loc, rows, size->number(chunk->most - 1)), most);
  }
  auto loop = scf::ForOp::create(b, loc, zero, many, one);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value iteration = loop.getInductionVar();
  if (repeat.getReversed())
    iteration = arith::SubIOp::create(b, loc, arith::SubIOp::create(b, loc, many, one), iteration);
  if (chunk) {
    Value left = arith::SubIOp::create(b, loc, rows, arith::MulIOp::create(b, loc, iteration, most));
    size->enterChunks(chunkLength(chunk->most, chunk->rows)->str(), arith::MinSIOp::create(b, loc, left, most),
                      loop.getBody()->getTerminator());
  }
  loops.push_back({repeat, iteration});
  lowerBlock(repeat.getBlock());
  auto yield = cast<YieldOp>(repeat.getBlock().getTerminator());
  for (auto [i, value] : llvm::enumerate(yield.getValues()))
    if (flag(copyOutAttr, i))
      copy(address(value), base(repeat.getResult(i)), typeOf(value));
  loops.pop_back();
  if (chunk)
    size->leaveChunks();
}

/// The new rows of a ring are after its filled slots; the last W of them go to their slots, position modulo W.
void HostFunction::moveIntoRing(RememberOp remember) {
  int64_t window = *windowOf(remember.getTo().getSize());
  NamedTensorType type = typeOf(remember.getResult());
  View view = quern::ir::ownView(remember.getResult());
  int at = type.find(remember.getTo().getName());
  SmallVector<Size> outer; // the dimensions around the positions: rows of the batch
  Size run(1);             // the elements of one position
  for (int d = 0; d < static_cast<int>(type.getRank()); ++d)
    if (d != at)
      (d < at ? outer.emplace_back(type.getDims()[d].getSize()) : run = run * type.getDims()[d].getSize());
  assert(outer.size() <= 1 && "a cache has the batch before the positions, and the rest after them");
  auto number = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, loc, value, 64); };
  Value past = (*size)(Size::symbol("past")), rows = (*size)(typeOf(remember.getX()).dim(remember.getFrom()).getSize());
  Value filled = (*size)(filledSlots(window)), step = (*size)(storedBytes(type, view.strides[at]));
  // Positions that already are in their slots (the ring is not yet full) and those that newer ones replace stay away.
  Value tooOld = arith::SubIOp::create(b, loc, rows, number(window));
  Value inPlace = arith::SubIOp::create(b, loc, number(window), past);
  Value first = arith::MaxSIOp::create(b, loc, arith::MaxSIOp::create(b, loc, tooOld, inPlace), number(0));
  Value start = state(remember.getStateAttr(), remember.getResult());
  Value many = outer.empty() ? number(1) : (*size)(outer[0]);
  auto batch = scf::ForOp::create(b, loc, number(0), many, number(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(batch.getBody()->getTerminator());
  if (!outer.empty())
    start = offset(start,
                   arith::MulIOp::create(b, loc, batch.getInductionVar(), (*size)(storedBytes(type, view.strides[0]))));
  auto loop = scf::ForOp::create(b, loc, first, rows, number(1));
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value row = loop.getInductionVar();
  Value slot = arith::RemSIOp::create(b, loc, arith::AddIOp::create(b, loc, past, row), number(window));
  auto rowAt = [&](Value index) { return offset(start, arith::MulIOp::create(b, loc, index, step)); };
  copyBytes(rowAt(arith::AddIOp::create(b, loc, filled, row)), rowAt(slot), (*size)(storedBytes(type, run)));
}

void HostFunction::lowerBlock(Block &block) {
  for (Operation &op : block) {
    if (auto launch = dyn_cast<LaunchOp>(op))
      lowerLaunch(launch);
    else if (auto repeat = dyn_cast<RepeatOp>(op))
      lowerRepeat(repeat);
    else if (auto store = dyn_cast<StoreOp>(op))
      lowerStore(store);
  }
  // All of the block has read the rings: the new rows may take the places of the oldest.
  for (auto remember : block.getOps<RememberOp>())
    if (windowOf(remember.getTo().getSize()))
      moveIntoRing(remember);
}

void HostFunction::lower() {
  Block *entry = target.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
  entryEnd = LLVM::ReturnOp::create(b, loc, zero); // moved to the end below
  b.setInsertionPoint(entryEnd);
  Value sizes = LLVM::LoadOp::create(b, loc, pointer(b.getContext()), entry->getArgument(0));
  size = std::make_unique<SizeEmitter>(entryEnd, sizes, program.symbols);
  headers = std::make_unique<BufferHeaders>(entryEnd, *size, target);
  status = LLVM::AllocaOp::create(b, loc, pointer(b.getContext()), b.getI32Type(),
                                  arith::ConstantIntOp::create(b, loc, 1, 64));
  LLVM::StoreOp::create(b, loc, zero, status);
  profile = field(CallField::Profile);
  arenaOffsets = arenaLayout(*size, source->getAttrOfType<ArrayAttr>(arenaAttr));
  keptOffsets = keptLayout(*size, source->getAttrOfType<ArrayAttr>(keptAttr));
  // `entryEnd` stays where run-once code ends: the body goes after it, into a block of its own.
  Block *bodyBlock = new Block();
  target.getBody().push_back(bodyBlock);
  b.setInsertionPointToStart(bodyBlock);
  lowerBlock(source.getBody().front());
  headers->finish();
  LLVM::ReturnOp::create(b, loc, LLVM::LoadOp::create(b, loc, b.getI32Type(), status).getResult());
  OpBuilder jump(entryEnd);
  LLVM::BrOp::create(jump, loc, ValueRange(), bodyBlock);
  entryEnd->erase();
}
