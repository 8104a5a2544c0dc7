// Takes: a planned module. Gives: the host module in the LLVM dialect (arith and scf inside), and the tables that the
// program's description needs.
#include "codegen/host/HostProgram.h"

#include "codegen/host/HostFunction.h"
#include "codegen/host/LaunchScratch.h"
#include "ir/Attributes.h"
#include "ir/Chunk.h"
#include "ir/analysis/Functions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::codegen;

/// All run-time lengths of a module, sorted; `past` and `cap` are always there, the runtime counts with them.
static std::vector<std::string> symbolsOf(ModuleOp module) {
  std::vector<std::string> symbols = {"cap", "past"};
  auto note = [&](Type type) {
    if (auto tensor = dyn_cast<NamedTensorType>(type))
      collectSymbols(tensor, symbols);
  };
  for (Operation &op : *module.getBody()) {
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      for (Type type : function.getArgumentTypes())
        note(type);
      function.walk([&](Operation *inner) {
        for (Type type : inner->getResultTypes())
          note(type);
        if (auto size = dyn_cast<SizeOp>(inner))
          for (const std::string &symbol : size.getPolynomial().symbols())
            if (!llvm::is_contained(symbols, symbol))
              symbols.push_back(symbol);
        if (auto launch = dyn_cast<LaunchOp>(inner))
          for (Attribute text : launch.getSymbols())
            for (const std::string &symbol : Size::parse(cast<StringAttr>(text).getValue())->symbols())
              if (!llvm::is_contained(symbols, symbol))
                symbols.push_back(symbol);
      });
    }
    if (auto state = dyn_cast<StateOp>(op))
      note(state.getType());
  }
  // The length of a chunk is the loop's own.
  llvm::erase_if(symbols, [](const std::string &symbol) { return chunkOf(symbol).has_value(); });
  llvm::sort(symbols);
  return symbols;
}

static LLVM::LLVMFuncOp declare(ModuleOp module, Location loc, const std::string &name, Type result) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(module.getContext());
  return LLVM::LLVMFuncOp::create(b, loc, name, LLVM::LLVMFunctionType::get(result, {pointer}));
}

/// i64 name(const int64_t *sizes): what `emit` computes.
static void buildNumber(HostProgram &program, Location loc, const std::string &name,
                        llvm::function_ref<Value(SizeEmitter &)> emit) {
  OpBuilder b(program.module->getContext());
  LLVM::LLVMFuncOp function = declare(*program.module, loc, name, b.getI64Type());
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 64);
  auto end = LLVM::ReturnOp::create(b, loc, zero);
  SizeEmitter size(end, entry->getArgument(0), program.symbols);
  end->setOperand(0, emit(size));
}

namespace {
/// The steps of a launch's scratch as code.
class ScratchEmitter {
public:
  ScratchEmitter(SizeEmitter &size, const LaunchScratch &launch)
      : size(size), b(size.builder()), loc(b.getUnknownLoc()), launch(launch), loops(launch.scratch.steps),
        values(launch.scratch.steps.size()) {
    emit(loops.outside);
  }
  Value operator[](int step) const { return values[step]; }

private:
  using Op = Scratch::Op;
  SizeEmitter &size;
  OpBuilder &b;
  Location loc;
  const LaunchScratch &launch;
  ScratchLoops loops;
  std::vector<Value> values;

  void emit(const std::vector<int> &which) {
    for (int i : which)
      values[i] = launch.scratch.steps[i].op == Op::Most ? emitLoop(i) : emitStep(launch.scratch.steps[i]);
  }

  Value emitLoop(int most) {
    const Scratch::Step &step = launch.scratch.steps[most];
    Value none = size.number(0), one = size.number(1);
    auto loop = scf::ForOp::create(b, loc, none, values[step.b], one, ValueRange{none});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    values[step.a] = loop.getInductionVar();
    emit(loops.within[most]);
    Value larger = arith::MaxSIOp::create(b, loc, loop.getRegionIterArg(0), values[step.c]);
    scf::YieldOp::create(b, loc, larger);
    return loop.getResult(0);
  }

  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  Value select(Value bit, Value yes, Value no) { return arith::SelectOp::create(b, loc, bit, yes, no); }
  Value wide(Value bit) { return arith::ExtUIOp::create(b, loc, b.getI64Type(), bit); }

  Value emitStep(const Scratch::Step &step) {
    auto operand = [&](int number) { return number < 0 ? Value() : values[number]; };
    Value x = operand(step.a), y = operand(step.b);
    switch (step.op) {
    case Op::Number:
      return size.number(step.number);
    case Op::Length:
      return size(launch.lengths.at(step.length));
    case Op::Add:
      return arith::AddIOp::create(b, loc, x, y);
    case Op::Sub:
      return arith::SubIOp::create(b, loc, x, y);
    case Op::Mul:
      return arith::MulIOp::create(b, loc, x, y);
    case Op::Min:
      return arith::MinSIOp::create(b, loc, x, y);
    case Op::Max:
      return arith::MaxSIOp::create(b, loc, x, y);
    case Op::Equal:
      return wide(compare(arith::CmpIPredicate::eq, x, y));
    case Op::Less:
      return wide(compare(arith::CmpIPredicate::slt, x, y));
    case Op::Select:
      return select(compare(arith::CmpIPredicate::ne, x, size.number(0)), y, operand(step.c));
    case Op::Div:
    case Op::Mod:
      return divided(step.op, x, y);
    case Op::Counter:
    case Op::Most:
      break;
    }
    llvm_unreachable("counters and loops have code elsewhere");
  }

  /// Down; and 0 where nothing is divided by.
  Value divided(Op op, Value x, Value y) {
    Value zero = size.number(0), one = size.number(1), divisor = arith::MaxSIOp::create(b, loc, y, one);
    Value rest = arith::RemSIOp::create(b, loc, x, divisor), below = compare(arith::CmpIPredicate::slt, rest, zero);
    Value down = rest, lower;
    if (op == Op::Mod) {
      lower = arith::AddIOp::create(b, loc, rest, divisor);
    } else {
      down = arith::DivSIOp::create(b, loc, x, divisor);
      lower = arith::SubIOp::create(b, loc, down, one);
    }
    return select(compare(arith::CmpIPredicate::slt, zero, y), select(below, lower, down), zero);
  }
};
} // namespace

/// i64 name(const int64_t *sizes): scratch of the launch that needs most, of one thread (Scratch::caller or worker).
static void buildScratch(HostProgram &program, func::FuncOp source, const std::string &name,
                         const KernelScratch &kernels, int Scratch::*thread) {
  buildNumber(program, source.getLoc(), name, [&](SizeEmitter &size) {
    Value most = size.number(0);
    for (const LaunchScratch &launch : scratchOfLaunches(source, kernels)) {
      if (launch.scratch.*thread >= 0)
        most = arith::MaxSIOp::create(size.builder(), source.getLoc(), most,
                                      ScratchEmitter(size, launch)[launch.scratch.*thread]);
    }
    return most;
  });
}

/// i64 name(const int64_t *sizes): the answers of an epoch function's comparisons, a bit each. Scalars only.
static void buildEpoch(HostProgram &program, func::FuncOp source, const std::string &name) {
  OpBuilder b(program.module->getContext());
  Location loc = source.getLoc();
  LLVM::LLVMFuncOp function = declare(*program.module, loc, name, b.getI64Type());
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  Value zero = arith::ConstantIntOp::create(b, loc, 0, 64);
  auto end = LLVM::ReturnOp::create(b, loc, zero);
  SizeEmitter size(end, entry->getArgument(0), program.symbols);
  b.setInsertionPoint(end);
  llvm::DenseMap<Value, Value> values;
  auto real = [&](Value v) -> Value {
    return v.getType().isF64() ? v : arith::SIToFPOp::create(b, loc, b.getF64Type(), v).getResult();
  };
  for (Operation &op : source.getBody().front()) {
    auto operand = [&](unsigned i) { return values[op.getOperand(i)]; };
    auto arithmetic = [&](auto integer, auto floating) -> Value {
      using Integer = decltype(integer);
      using Floating = decltype(floating);
      if (operand(0).getType().isF64() || operand(1).getType().isF64())
        return Floating::create(b, loc, real(operand(0)), real(operand(1)));
      return Integer::create(b, loc, operand(0), operand(1));
    };
    Value out;
    if (auto length = dyn_cast<SizeOp>(op)) {
      out = size(length.getPolynomial());
    } else if (auto constant = dyn_cast<ConstOp>(op)) {
      if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
        out = arith::ConstantFloatOp::create(b, loc, b.getF64Type(), number.getValue());
      else
        out = arith::ConstantIntOp::create(b, loc, cast<IntegerAttr>(constant.getValue()).getInt(),
                                           isa<BoolAttr>(constant.getValue()) ? 1 : 64);
    } else if (auto compare = dyn_cast<CompareOp>(op)) {
      using I = arith::CmpIPredicate;
      using F = arith::CmpFPredicate;
      static constexpr I ints[] = {I::slt, I::sle, I::sgt, I::sge, I::eq, I::ne};
      static constexpr F reals[] = {F::OLT, F::OLE, F::OGT, F::OGE, F::OEQ, F::UNE};
      auto which = static_cast<unsigned>(compare.getPredicate());
      if (operand(0).getType().isF64() || operand(1).getType().isF64())
        out = arith::CmpFOp::create(b, loc, reals[which], real(operand(0)), real(operand(1)));
      else
        out = arith::CmpIOp::create(b, loc, ints[which], operand(0), operand(1));
    } else if (isa<AddOp>(op)) {
      out = arithmetic(arith::AddIOp(), arith::AddFOp());
    } else if (isa<SubOp>(op)) {
      out = arithmetic(arith::SubIOp(), arith::SubFOp());
    } else if (isa<MulOp>(op)) {
      out = arithmetic(arith::MulIOp(), arith::MulFOp());
    } else if (isa<MaxOp>(op)) {
      out = arithmetic(arith::MaxSIOp(), arith::MaximumFOp());
    } else if (isa<MinOp>(op)) {
      out = arithmetic(arith::MinSIOp(), arith::MinimumFOp());
    } else if (isa<FloorDivOp>(op)) {
      out = arith::FloorDivSIOp::create(b, loc, operand(0), operand(1));
    } else if (isa<DivOp>(op)) {
      out = arith::DivFOp::create(b, loc, real(operand(0)), real(operand(1)));
    } else if (isa<NegOp>(op)) {
      Value nothing = arith::ConstantIntOp::create(b, loc, 0, 64);
      out = operand(0).getType().isF64() ? arith::NegFOp::create(b, loc, operand(0)).getResult()
                                         : arith::SubIOp::create(b, loc, nothing, operand(0)).getResult();
    } else if (isa<ToRealOp>(op)) {
      out = real(operand(0));
    } else if (isa<AndOp>(op)) {
      out = arith::AndIOp::create(b, loc, operand(0), operand(1));
    } else if (isa<OrOp>(op)) {
      out = arith::OrIOp::create(b, loc, operand(0), operand(1));
    } else if (isa<NotOp>(op)) {
      out = arith::XOrIOp::create(b, loc, operand(0), arith::ConstantIntOp::create(b, loc, 1, 1));
    } else if (isa<func::ReturnOp>(op)) {
      Value bits = arith::ConstantIntOp::create(b, loc, 0, 64);
      for (unsigned i = 0; i < op.getNumOperands(); ++i) {
        Value wide = arith::ExtUIOp::create(b, loc, b.getI64Type(), operand(i));
        Value shift = arith::ConstantIntOp::create(b, loc, i, 64);
        bits = arith::OrIOp::create(b, loc, bits, arith::ShLIOp::create(b, loc, wide, shift));
      }
      end->setOperand(0, bits);
      continue;
    }
    assert(out && "an epoch function computes comparisons of lengths only");
    values[op.getResult(0)] = out;
  }
}

HostProgram quern::codegen::buildHostProgram(ModuleOp planned, const KernelScratch &scratch, KernelSymbols symbols,
                                             bool onDevice) {
  MLIRContext *context = planned.getContext();
  context->loadDialect<LLVM::LLVMDialect, arith::ArithDialect, scf::SCFDialect>();
  HostProgram program;
  program.module = ModuleOp::create(planned.getLoc());
  program.symbols = symbolsOf(planned);
  program.kernels = std::move(symbols);
  program.onDevice = onDevice;
  for (auto state : planned.getOps<StateOp>())
    (state.getCheck() ? program.checks : program.states).push_back(state.getSymName().str());
  Type i32 = IntegerType::get(context, 32);
  for (auto function : planned.getOps<func::FuncOp>()) {
    std::string name = function.getSymName().str();
    if (isEpoch(function))
      continue;
    HostEntry entry;
    entry.source = function;
    entry.run = "quern_run_" + name;
    entry.arenaBytes = "quern_arena_" + name;
    entry.keptBytes = "quern_kept_" + name;
    entry.callerScratch = "quern_scratch_" + name;
    entry.workerScratch = "quern_worker_scratch_" + name;
    HostFunction(program, function, declare(*program.module, function.getLoc(), entry.run, i32)).lower();
    buildNumber(program, function.getLoc(), entry.arenaBytes, [&](SizeEmitter &size) {
      return arenaLayout(size, function->getAttrOfType<ArrayAttr>(arenaAttr)).back();
    });
    buildNumber(program, function.getLoc(), entry.keptBytes, [&](SizeEmitter &size) {
      return keptLayout(size, function->getAttrOfType<ArrayAttr>(keptAttr)).back();
    });
    buildScratch(program, function, entry.callerScratch, scratch, &Scratch::caller);
    buildScratch(program, function, entry.workerScratch, scratch, &Scratch::worker);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto paths = function.getResultAttrOfType<ArrayAttr>(i, gradientAttr))
        entry.gradients.emplace_back(
            i, program.slots.gradient(paths, cast<NamedTensorType>(function.getResultTypes()[i]), function.getLoc()));
    // `forward.last` shares `forward`'s comparisons.
    if (auto epoch = formOf(planned, originOf(function), Role::Epoch)) {
      entry.epoch = "quern_epoch_" + name;
      buildEpoch(program, epoch, entry.epoch);
    }
    program.entries.push_back(std::move(entry));
  }
  return program;
}
