// Takes: a kernel with a scan, divided. Gives: LLVM IR: a loop over groups of tasks in parallel; of each task a loop over
// positions with the states in registers or the first-level cache, or over chunks of many positions (ChunkEmitter.cpp).
// Why LLVM and not Halide: a Func of Halide cannot hand a state from position to position through other Funcs, as a
// reduction between two updates needs it.
#include "codegen/scan/ScanEmitter.h"

#include <cmath>

using namespace llvm;

namespace quern::codegen::scan {

namespace {

// positions of inner dimensions that are written one by one
constexpr int64_t localBytes = 32 << 10; // of inputs that a task copies before its first position
constexpr int64_t groupWork = 20000;     // elements that are worth a thread's attention

class Emitter : Chunks {
public:
  Emitter(const KernelGraph &graph, const ScanShape &shape, const ChunkPlan *plan, Module &module)
      : Chunks(graph, shape, plan, module) {}

  int64_t run(const std::string &symbol) {
    auto inside = [&](const char *what) {
      return Function::Create(FunctionType::get(b.getInt32Ty(), {pointer, b.getInt32Ty(), pointer}, false),
                              GlobalValue::InternalLinkage, symbol + what, module);
    };
    task = inside("_task");
    emitTask();
    if (!shape.totals.empty()) {
      join = inside("_join");
      emitJoin();
    }
    emitEntry(symbol);
    return blockBytes;
  }

private:
  Function *join = nullptr;  // adds the parts of totals
  Value *partials = nullptr; // of totals: all of the first, by part, position and dimensions; then the next
  Value *part = nullptr;     // that a task belongs to
  static constexpr int64_t positionsOfJoin = 16;
  // ---- one position
  Value *neutral(const Node &node) {
    Type *type = typeOf(node);
    if (node.op == Op::Contract || node.reduction == Reduction::Sum || node.reduction == Reduction::Mean)
      return Constant::getNullValue(type);
    if (node.kind() == Kind::Bool)
      return node.reduction == Reduction::All ? Constant::getAllOnesValue(type) : Constant::getNullValue(type);
    bool most = node.reduction == Reduction::Max;
    if (node.kind() == Kind::Int)
      return ConstantInt::get(type, most ? INT32_MIN : INT32_MAX, true);
    return ConstantFP::get(type, most ? -INFINITY : INFINITY);
  }

  /// `sum` with what stands at one position of the reduced dimensions.
  Value *combined(const Node &node, Value *sum, const Place &at) {
    std::vector<Value *> v;
    for (int operand : node.operands) {
      Value *value = eval(true, operand, at);
      if (node.kind() == Kind::Real)
        value = math.asReal(value);
      v.push_back(sum->getType()->isVectorTy() ? lanesOf(value) : value);
    }
    if (node.op == Op::Contract)
      return b.CreateIntrinsic(sum->getType(), Intrinsic::fmuladd, {v[0], v[1], sum});
    switch (node.reduction) {
    case Reduction::Max:
      return node.kind() == Kind::Real ? math.max(sum, v[0]) : b.CreateBinaryIntrinsic(Intrinsic::smax, sum, v[0]);
    case Reduction::Min:
      return node.kind() == Kind::Real ? math.min(sum, v[0]) : b.CreateBinaryIntrinsic(Intrinsic::smin, sum, v[0]);
    case Reduction::Any:
      return b.CreateOr(sum, v[0]);
    case Reduction::All:
      return b.CreateAnd(sum, v[0]);
    default:
      return node.kind() == Kind::Real ? b.CreateFAdd(sum, v[0]) : b.CreateAdd(sum, v[0]);
    }
  }

  void reduce(int i) {
    const Node &node = body.nodes[i];
    std::vector<Dim> over = reducedDims(body.nodes, node);
    const Local &result = reductions.at(i);
    forEach(result.dims, place, [&](const Place &at) {
      write(result, at, neutral(node));
      forEach(over, at, [&](const Place &each) {
        Value *sum = read(result, at, node.kind());
        write(result, at, combined(node, sum, each));
      });
      if (node.op == Op::Reduce && node.reduction == Reduction::Mean) {
        Value *count = number(1);
        for (const Dim &dim : over)
          count = b.CreateMul(count, sizeOf(dim.size));
        Value *sum = read(result, at, node.kind());
        Value *length = b.CreateSIToFP(count, b.getFloatTy());
        write(result, at, b.CreateFDiv(sum, sum->getType()->isVectorTy() ? lanesOf(length) : length));
      }
    });
    known.back().clear(); // what was read of it before it was made
  }

  // ---- totals
  const Node &totalOf(int number) const { return body.nodes[body.yields[number]]; }
  /// Numbers of a total in one part: positions, then its dimensions.
  Value *sizeOfPart(int number) {
    Value *size = sizeOf(body.dim.size);
    for (const Dim &dim : totalOf(number).dims)
      size = b.CreateMul(size, sizeOf(dim.size));
    return size;
  }
  Value *partialAt(int number, Value *inPart, const Place &at) {
    Value *offset = this->number(0);
    for (int other : shape.totals) {
      if (other == number)
        break;
      offset = b.CreateAdd(offset, b.CreateMul(this->number(shape.parts()), sizeOfPart(other)));
    }
    Value *index = b.CreateAdd(b.CreateMul(inPart, sizeOf(body.dim.size)), at.at(body.dim.name).base);
    for (const Dim &dim : totalOf(number).dims)
      index = b.CreateAdd(b.CreateMul(index, sizeOf(dim.size)), at.at(dim.name).base);
    return b.CreateGEP(b.getFloatTy(), partials, b.CreateAdd(offset, index));
  }

  /// The sums of a part begin with 0, for the tasks that the others share.
  void clearTotals() {
    for (int number : shape.totals) {
      std::vector<Dim> dims = {body.dim};
      for (const Dim &dim : shape.inner(totalOf(number).dims))
        dims.push_back(dim);
      forEach(dims, place, [&](const Place &at) {
        b.CreateAlignedStore(ConstantFP::get(b.getFloatTy(), 0), partialAt(number, part, at), Align(4));
      });
    }
  }

  void addToTotal(int number, const Place &at) {
    auto *lanes = FixedVectorType::get(b.getFloatTy(), shape.width);
    Value *zeros = Constant::getNullValue(lanes), *value = combined(totalOf(number), zeros, at);
    if (mask)
      value = b.CreateSelect(mask, value, zeros);
    CallInst *sum = b.CreateFAddReduce(ConstantFP::getNegativeZero(b.getFloatTy()), value);
    sum->setHasAllowReassoc(true); // the lanes among themselves: in a tree
    Value *to = partialAt(number, part, at);
    b.CreateAlignedStore(b.CreateFAdd(b.CreateAlignedLoad(b.getFloatTy(), to, Align(4)), sum), to, Align(4));
  }

  /// Adds the parts of some positions, in their order.
  void emitJoin() {
    function = join;
    openClosure();
    known.assign(1, {});
    place.clear();
    Value *length = sizeOf(body.dim.size),
          *first = b.CreateMul(b.CreateSExt(join->getArg(1), i64), number(positionsOfJoin));
    Value *left = b.CreateSub(length, first), *most = number(positionsOfJoin);
    loop(b.CreateSelect(b.CreateICmpSLT(left, most), left, most), [&](Value *i) {
      Place here{{body.dim.name, {b.CreateAdd(first, i)}}};
      for (int total : shape.totals)
        forEach(totalOf(total).dims, here, [&](const Place &at) {
          Value *sum = b.CreateAlignedLoad(b.getFloatTy(), partialAt(total, number(0), at), Align(4));
          for (int64_t p = 1; p < shape.parts(); ++p)
            sum = b.CreateFAdd(sum, b.CreateAlignedLoad(b.getFloatTy(), partialAt(total, number(p), at), Align(4)));
          size_t result = shape.results.at(total);
          store(graph.argumentLayouts.size() + result, graph.nodes[graph.results[result]], at, sum);
        });
    });
    b.CreateRet(b.getInt32(0));
  }

  void nest(const Nest &nest) {
    for (int i : nest.sums)
      write(reductions.at(i), place, neutral(body.nodes[i]));
    forEach(nest.dims, place, [&](const Place &at) {
      std::vector<Value *> values;
      for (int i : nest.carried)
        values.push_back(eval(true, body.yields[i], at));
      for (int i : nest.sums) {
        Value *sum = combined(body.nodes[i], read(reductions.at(i), place, body.nodes[i].kind()), at);
        write(reductions.at(i), place, sum);
      }
      for (int number : nest.totals)
        addToTotal(number, at);
      for (int number : nest.outputs) {
        size_t result = shape.results.at(number);
        store(graph.argumentLayouts.size() + result, graph.nodes[graph.results[result]], at,
              ofKind(eval(true, body.yields[number], at), body.nodes[body.yields[number]]));
      }
      for (size_t k = 0; k < values.size(); ++k) {
        int i = nest.carried[k];
        Value *value = ofKind(values[k], body.nodes[i]);
        write(shape.shadowed.count(i) ? next[i] : states[i], at,
              shape.hasLane(body.nodes[i].dims) ? lanesOf(value) : value);
      }
    });
    known.back().clear(); // states and sums have changed
  }

  void position(Value *n, Value *length) {
    Value *t = body.fromEnd ? b.CreateSub(b.CreateSub(length, number(1)), n) : n;
    place[body.dim.name] = {t};
    for (int i : shape.reductions)
      reduce(i);
    for (const Nest &each : shape.nests)
      nest(each);
    for (int i : shape.shadowed)
      forEach(states[i].dims, place,
              [&](const Place &at) { write(states[i], at, read(next[i], at, body.nodes[i].kind())); });
    place.erase(body.dim.name);
  }

  // ---- one task
  /// Where the task of a number is in the tasks' dimensions; what is left of the number must be 0.
  void findPlace(Value *rest) {
    place.clear();
    if (shape.lane) {
      int64_t lanes = *shape.lane->fixed(), blocks = (lanes + shape.width - 1) / shape.width;
      Value *first = b.CreateMul(b.CreateSRem(rest, number(blocks)), number(shape.width));
      rest = b.CreateSDiv(rest, number(blocks));
      place[shape.lane->name] = {first, true};
      mask = nullptr;
      if (lanes % shape.width) {
        std::vector<Constant *> steps;
        for (int i = 0; i < shape.width; ++i)
          steps.push_back(b.getInt64(i));
        mask = b.CreateICmpSLT(ConstantVector::get(steps),
                               b.CreateVectorSplat(shape.width, b.CreateSub(number(lanes), first)));
      }
    }
    for (auto dim = shape.tasks.rbegin(); dim != shape.tasks.rend(); ++dim) {
      Value *size = sizeOf(dim->size);
      place[dim->name] = {b.CreateSRem(rest, size)};
      rest = b.CreateSDiv(rest, size);
    }
  }

  void emitOneTask(Value *task) {
    known.assign(1, {});
    findPlace(task);
    states.clear(), next.assign(body.carried, {}), inputs.assign(body.inputs, {}), reductions.clear();
    for (int i = 0; i < body.carried; ++i) {
      states.push_back(local(body.nodes[i]));
      if (shape.shadowed.count(i))
        next[i] = local(body.nodes[i]);
    }
    for (int i : shape.reductions)
      reductions[i] = local(body.nodes[i]);
    for (const Nest &each : shape.nests)
      for (int i : each.sums)
        reductions[i] = local(body.nodes[i]);
    copyIn();
    Value *length = sizeOf(body.dim.size);
    auto oneByOne = [&] { loop(length, [&](Value *n) { position(n, length); }); };
    if (plan)
      either(b.CreateICmpSGE(length, number(2 * plan->size)), [&] { runByChunks(length); }, oneByOne);
    else
      oneByOne();
    for (auto [number, result] : shape.results)
      if (number < body.carried)
        forEach(states[number].dims, place, [&](const Place &at) {
          store(graph.argumentLayouts.size() + result, graph.nodes[graph.results[result]], at,
                read(states[number], at, body.nodes[number].kind()));
        });
  }

  /// The states before the first position, and inputs that fit into the cache.
  void copyIn() {
    for (int i = 0; i < body.carried; ++i)
      forEach(states[i].dims, place, [&](const Place &at) {
        Value *value = ofKind(eval(false, shape.operands[i], at), body.nodes[i]);
        write(states[i], at, shape.hasLane(body.nodes[i].dims) ? lanesOf(value) : value);
      });
    int64_t bytes = 0;
    for (int k = 0; k < body.inputs; ++k) {
      int i = body.carried + body.slices + k;
      const Node &node = body.nodes[i];
      std::vector<Dim> dims = shape.inner(node.dims);
      bool fixed = true;
      for (const Dim &dim : dims)
        fixed = fixed && dim.fixed();
      int64_t size = fixed ? count(dims) * support::bytesOf(node.storage) * (shape.hasLane(node.dims) ? shape.width : 1)
                           : localBytes + 1;
      if (bytes + size > localBytes)
        continue;
      bytes += size;
      Local copy = local(node);
      forEach(copy.dims, place, [&](const Place &at) {
        Value *value = ofKind(eval(false, shape.operands[i], at), node);
        write(copy, at, shape.hasLane(node.dims) ? lanesOf(value) : value);
      });
      inputs[k] = copy;
    }
    known.back().clear();
  }

  // ---- functions
  /// What the closure holds: lengths, then buffers, then the tasks of a group and of all.
  Value *slotOf(size_t i, Type *type) {
    return b.CreateLoad(type, b.CreateGEP(i64, function->getArg(2), number(static_cast<int64_t>(i))));
  }

  void openClosure() {
    b.SetInsertPoint(BasicBlock::Create(context, "", function));
    hosts.clear(), strides.clear();
    auto slot = [&](size_t i, Type *type) { return slotOf(i, type); };
    for (size_t i = 0; i < graph.symbols.size(); ++i)
      lengths[graph.symbols[i]] = slot(i, i64);
    for (size_t k = 0; k < buffers(); ++k) {
      Value *buffer = slot(graph.symbols.size() + k, pointer);
      bool argument = k < graph.argumentLayouts.size();
      const Node &node =
          graph.nodes[argument ? k : static_cast<size_t>(graph.results[k - graph.argumentLayouts.size()])];
      const Layout &layout =
          argument ? graph.argumentLayouts[k] : graph.resultLayouts[k - graph.argumentLayouts.size()];
      hosts.push_back(b.CreateLoad(pointer, b.CreateGEP(b.getInt8Ty(), buffer, number(16))));
      Value *dims = b.CreateLoad(pointer, b.CreateGEP(b.getInt8Ty(), buffer, number(40)));
      std::vector<Value *> own;
      for (size_t d = 0; d < node.dims.size(); ++d) {
        if (layout.strides[d]) {
          own.push_back(number(*layout.strides[d]));
          continue;
        }
        int64_t reversed = static_cast<int64_t>(node.dims.size() - 1 - d);
        Value *stride = b.CreateLoad(b.getInt32Ty(), b.CreateGEP(b.getInt8Ty(), dims, number(reversed * 16 + 8)));
        own.push_back(b.CreateSExt(stride, i64));
      }
      strides.push_back(std::move(own));
    }
    if (!shape.totals.empty())
      partials = slot(graph.symbols.size() + buffers() + 2, pointer);
  }

  FunctionCallee mallocOf() {
    FunctionCallee ask = module.getOrInsertFunction("halide_malloc", FunctionType::get(pointer, {pointer, i64}, false));
    cast<Function>(ask.getCallee())->addRetAttr(Attribute::NoAlias);
    return ask;
  }
  FunctionCallee freeOf() {
    return module.getOrInsertFunction("halide_free", FunctionType::get(b.getVoidTy(), {pointer, pointer}, false));
  }

  void emitTask() {
    function = task;
    openClosure();
    known.assign(1, {});
    Value *index = b.CreateSExt(task->getArg(1), i64), *group, *all, *first;
    if (shape.totals.empty()) {
      group = slotOf(graph.symbols.size() + buffers(), i64);
      all = slotOf(graph.symbols.size() + buffers() + 1, i64);
      first = b.CreateMul(index, group);
    } else { // a part of the blocks of lanes, of one of the other tasks
      Value *parts = number(shape.parts()), *row = b.CreateMul(b.CreateSDiv(index, parts), number(shape.blocks()));
      part = b.CreateSRem(index, parts);
      group = number(shape.blocksOfPart());
      all = b.CreateAdd(row, number(shape.blocks()));
      first = b.CreateAdd(row, b.CreateMul(part, group));
      findPlace(first);
      place.erase(shape.lane->name);
      clearTotals();
    }
    Value *left = b.CreateSub(all, first);
    Value *own = b.CreateSelect(b.CreateICmpSLT(left, group), left, group);
    known.assign(1, {});
    Value *none = ConstantPointerNull::get(pointer);
    CallInst *asked = b.CreateCall(mallocOf(), {none, number(0)}); // how many bytes is known at the end
    block = asked;
    loop(own, [&](Value *i) { emitOneTask(b.CreateAdd(first, i)); });
    if (blockBytes) {
      asked->setArgOperand(1, number(blockBytes));
      b.CreateCall(freeOf(), {none, asked});
    } else {
      asked->eraseFromParent();
    }
    b.CreateRet(b.getInt32(0));
  }

  void emitEntry(const std::string &symbol) {
    std::vector<Type *> types(graph.symbols.size(), b.getInt32Ty());
    types.insert(types.end(), buffers(), pointer);
    function =
        Function::Create(FunctionType::get(b.getInt32Ty(), types, false), GlobalValue::ExternalLinkage, symbol, module);
    b.SetInsertPoint(BasicBlock::Create(context, "", function));
    size_t slots = types.size() + 3;
    Value *closure = b.CreateAlloca(ArrayType::get(i64, slots));
    auto put = [&](size_t i, Value *value) {
      b.CreateStore(value, b.CreateGEP(i64, closure, number(static_cast<int64_t>(i))));
    };
    lengths.clear();
    for (size_t i = 0; i < types.size(); ++i) {
      Value *value = function->getArg(static_cast<unsigned>(i));
      if (i < graph.symbols.size())
        lengths[graph.symbols[i]] = value = b.CreateSExt(value, i64);
      put(i, value);
    }
    Value *all = number(1);
    for (const Dim &dim : shape.tasks)
      all = b.CreateMul(all, sizeOf(dim.size));
    Value *none = ConstantPointerNull::get(pointer);
    FunctionCallee parallel = module.getOrInsertFunction(
        "halide_do_par_for",
        FunctionType::get(b.getInt32Ty(), {pointer, pointer, b.getInt32Ty(), b.getInt32Ty(), pointer}, false));
    auto inParallel = [&](Function *each, Value *count) {
      return b.CreateCall(parallel, {none, each, b.getInt32(0), b.CreateTrunc(count, b.getInt32Ty()), closure});
    };
    auto dividedUp = [&](Value *x, Value *by) { return b.CreateSDiv(b.CreateAdd(x, b.CreateSub(by, number(1))), by); };
    if (!shape.totals.empty()) {
      Value *bytes = number(0);
      for (int total : shape.totals)
        bytes = b.CreateAdd(bytes, b.CreateMul(sizeOfPart(total), number(4 * shape.parts())));
      put(types.size() + 2, b.CreateCall(mallocOf(), {none, bytes}));
      Value *status = inParallel(task, b.CreateMul(all, number(shape.parts())));
      Value *joined = inParallel(join, dividedUp(sizeOf(body.dim.size), number(positionsOfJoin)));
      Value *memory = b.CreateLoad(pointer, b.CreateGEP(i64, closure, number(static_cast<int64_t>(types.size() + 2))));
      b.CreateCall(freeOf(), {none, memory});
      b.CreateRet(b.CreateSelect(b.CreateICmpEQ(status, b.getInt32(0)), joined, status));
      return emitArgv(symbol, types);
    }
    all = b.CreateMul(all, number(shape.blocks()));
    int64_t each = std::max<int64_t>(1, count(shape.inner(body.nodes[0].dims))) * shape.width;
    Value *work = b.CreateMul(all, b.CreateMul(sizeOf(body.dim.size), number(each)));
    // As many groups as are worth it, of equal size: a short last one would leave a thread idle.
    Value *worth = b.CreateAdd(b.CreateSDiv(work, number(groupWork)), number(1));
    worth = b.CreateSelect(b.CreateICmpSLT(worth, all), worth, all);
    worth = b.CreateSelect(b.CreateICmpSLT(worth, number(1)), number(1), worth);
    Value *group = dividedUp(all, worth), *groups = dividedUp(all, group);
    group = b.CreateSelect(b.CreateICmpSLT(group, number(1)), number(1), group);
    put(types.size(), group);
    put(types.size() + 1, all);
    BasicBlock *one = BasicBlock::Create(context, "", function), *several = BasicBlock::Create(context, "", function);
    b.CreateCondBr(b.CreateICmpSLE(groups, number(1)), one, several);
    b.SetInsertPoint(one);
    b.CreateRet(b.CreateCall(task, {none, b.getInt32(0), closure}));
    b.SetInsertPoint(several);
    b.CreateRet(inParallel(task, groups));
    emitArgv(symbol, types);
  }

  /// The same with its arguments in a list.
  void emitArgv(const std::string &symbol, const std::vector<Type *> &types) {
    Function *entry = function;
    function = Function::Create(FunctionType::get(b.getInt32Ty(), {pointer}, false), GlobalValue::ExternalLinkage,
                                symbol + "_argv", module);
    b.SetInsertPoint(BasicBlock::Create(context, "", function));
    std::vector<Value *> arguments;
    for (size_t i = 0; i < types.size(); ++i) {
      Value *each = b.CreateLoad(pointer, b.CreateGEP(pointer, function->getArg(0), number(static_cast<int64_t>(i))));
      arguments.push_back(i < graph.symbols.size() ? b.CreateLoad(b.getInt32Ty(), each) : each);
    }
    b.CreateRet(b.CreateCall(entry, arguments));
  }
};

} // namespace

int64_t emitScan(const KernelGraph &graph, const ScanShape &shape, const ChunkPlan *plan, const std::string &symbol,
                 Module &module) {
  return Emitter(graph, shape, plan, module).run(symbol);
}

} // namespace quern::codegen::scan
