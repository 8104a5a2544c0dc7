// Takes: an operation. Gives: arithmetic operations and bytes moved, as polynomials over run-time lengths.
// Why polynomials: the schedule's choice and the bench's report both ask for many lengths at once.
#include "ir/Chunk.h"
#include "ir/Scan.h"

using namespace mlir;
using namespace quern::ir;

/// What a transcendental function counts as: roughly the vector instructions of its polynomial.
static constexpr int64_t transcendental = 8;

static Size bytesOf(Type type) {
  return storedBytes(cast<NamedTensorType>(type));
}

static Size bytesOf(TypeRange types) {
  Size total(0);
  for (Type type : types)
    total = total + bytesOf(type);
  return total;
}

static Size traffic(Operation *op) {
  return bytesOf(op->getOperandTypes()) + bytesOf(op->getResultTypes());
}

#define QUERN_COST(OP, FLOPS, BYTES)                                                                                   \
  Size OP::getFlops() {                                                                                                \
    return FLOPS;                                                                                                      \
  }                                                                                                                    \
  Size OP::getBytes() {                                                                                                \
    return BYTES;                                                                                                      \
  }

// Numbers that are part of the code, and what only renames: nothing is moved.
#define QUERN_FREE(OP) QUERN_COST(OP, Size(0), Size(0))
QUERN_FREE(ConstOp)
QUERN_FREE(SizeOp)
QUERN_FREE(RenameOp)
QUERN_FREE(SplitOp)
QUERN_FREE(UnitOp)
QUERN_FREE(SqueezeOp)
QUERN_FREE(CutOp)
QUERN_FREE(StateOp)
QUERN_FREE(YieldOp)
// A parameter's bytes are counted where it is read.
QUERN_FREE(ParamOp)
QUERN_FREE(QuantizeOp)

// Copies.
#define QUERN_COPY(OP) QUERN_COST(OP, Size(0), traffic(*this))
QUERN_COPY(ValuesOp)
QUERN_COPY(IndexOp)
QUERN_COPY(MergeOp)
QUERN_COPY(ConcatOp)
QUERN_COPY(ExpandOp)
QUERN_COPY(PermuteOp)
QUERN_COPY(ToRealOp)
QUERN_COPY(NarrowOp)
QUERN_COPY(WidenOp)
QUERN_COPY(DequantizeOp)
// Only the rows that are picked, or new, are read.
QUERN_COST(GatherOp, Size(0), bytesOf(getPositions().getType()) + bytesOf(getResult().getType()) * Size(2))
QUERN_COST(RememberOp, Size(0), bytesOf(getX().getType()) * Size(2))
QUERN_COST(RecallOp, Size(0), bytesOf(getResult().getType()))
QUERN_COST(StoreOp, Size(0), bytesOf(getX().getType()))

#define QUERN_ELEMENTWISE(OP, EACH) QUERN_COST(OP, getResult().getType().elements() * Size(EACH), traffic(*this))
QUERN_ELEMENTWISE(NegOp, 1)
QUERN_ELEMENTWISE(AbsOp, 1)
QUERN_ELEMENTWISE(SqrtOp, 1)
QUERN_ELEMENTWISE(FloorOp, 1)
QUERN_ELEMENTWISE(CeilOp, 1)
QUERN_ELEMENTWISE(RoundOp, 1)
QUERN_ELEMENTWISE(ToIntOp, 1)
QUERN_ELEMENTWISE(NotOp, 1)
QUERN_ELEMENTWISE(AddOp, 1)
QUERN_ELEMENTWISE(SubOp, 1)
QUERN_ELEMENTWISE(MulOp, 1)
QUERN_ELEMENTWISE(DivOp, 1)
QUERN_ELEMENTWISE(FloorDivOp, 1)
QUERN_ELEMENTWISE(ModOp, 1)
QUERN_ELEMENTWISE(MaxOp, 1)
QUERN_ELEMENTWISE(MinOp, 1)
QUERN_ELEMENTWISE(AndOp, 1)
QUERN_ELEMENTWISE(OrOp, 1)
QUERN_ELEMENTWISE(CompareOp, 1)
QUERN_ELEMENTWISE(WhereOp, 1)
QUERN_ELEMENTWISE(ExpOp, transcendental)
QUERN_ELEMENTWISE(LogOp, transcendental)
QUERN_ELEMENTWISE(Log1pOp, transcendental)
QUERN_ELEMENTWISE(SinOp, transcendental)
QUERN_ELEMENTWISE(CosOp, transcendental)
QUERN_ELEMENTWISE(TanhOp, transcendental)
QUERN_ELEMENTWISE(SigmoidOp, transcendental)
QUERN_ELEMENTWISE(ErfOp, transcendental)
QUERN_ELEMENTWISE(PowOp, transcendental)

#define QUERN_ROWS(OP, EACH) QUERN_COST(OP, getX().getType().elements() * Size(EACH), traffic(*this))
QUERN_ROWS(ReduceOp, 1)
QUERN_ROWS(CumsumOp, 1)
QUERN_ROWS(ArgmaxOp, 1)
QUERN_ROWS(ScatterAddOp, 1)
/// Of a score: the largest, minus it, the sum, the division.
static constexpr int64_t softmaxEach = 3 + transcendental;
QUERN_ROWS(SoftmaxOp, softmaxEach)
QUERN_COST(TopKOp, getX().getType().elements() * getInto().getSize(), traffic(*this))

/// One multiplication and one addition for each position of all dimensions of both sides.
static Size contraction(NamedTensorType a, NamedTensorType b) {
  Size positions = a.elements();
  for (DimAttr dim : b.getDims())
    if (!a.has(dim.getName()))
      positions = positions * dim.getSize();
  return positions * Size(2);
}
QUERN_COST(ContractOp, contraction(getA().getType(), getB().getType()), traffic(*this))

// ---- bodies

static Size flopsOf(Block &block) {
  Size total(0);
  for (Operation &op : block)
    if (auto cost = dyn_cast<CostOpInterface>(op))
      total = total + cost.getFlops();
  return total;
}

static Size bytesOf(Block &block) {
  Size total(0);
  for (Operation &op : block)
    if (auto cost = dyn_cast<CostOpInterface>(op))
      total = total + cost.getBytes();
  return total;
}

/// Products, the score's own operations, the softmax and the weighted sum; masked scores count too.
static Size attention(AttentionOp op) {
  Size flops = flopsOf(op.getBlock());
  for (auto [query, key] : llvm::zip(op.getQueries(), op.getKeys()))
    flops = flops + contraction(typeOf(query), typeOf(key));
  NamedTensorType score = typeOf(op.getScore());
  flops = flops + score.elements() * Size(softmaxEach);
  for (Value sink : op.getSinks())
    flops = flops + typeOf(sink).elements() * Size(softmaxEach);
  return flops + contraction(score, typeOf(op.getValues()));
}
QUERN_COST(AttentionOp, attention(*this), traffic(*this))

/// Products, the weights' own operations and the sums; masked pairs count too.
static Size attentionGradient(AttentionGradientOp op) {
  Size flops = flopsOf(op.getBlock());
  for (auto [row, other] : llvm::zip(op.getRows(), op.getOthers()))
    flops = flops + contraction(typeOf(row), typeOf(other));
  for (auto [weights, value] : llvm::zip(op.getWeights(), op.getValues()))
    flops = flops + contraction(typeOf(weights), typeOf(value));
  return op.isAlongDistance() ? flops + typeOf(op.getWeights()[0]).elements() : flops;
}
QUERN_COST(AttentionGradientOp, attentionGradient(*this), traffic(*this))

QUERN_COST(ScanOp, flopsOf(getBlock()) * getDim().getSize(), traffic(*this))
QUERN_COST(RepeatOp, overAllTurns(flopsOf(getBlock()) * Size(getTurns())),
           overAllTurns(bytesOf(getBlock()) * Size(getTurns())))
/// Within a kernel only arguments and results are memory; of a table that is only gathered from, the rows that are
/// picked.
static Size kernelTraffic(KernelOp kernel) {
  Size total = bytesOf(kernel.getYield().getOperandTypes());
  for (BlockArgument argument : kernel.getBlock().getArguments()) {
    auto picks = [&](Operation *user) {
      auto gather = dyn_cast<GatherOp>(user);
      return gather && gather.getX() == argument && gather.getPositions() != argument;
    };
    if (argument.use_empty() || !llvm::all_of(argument.getUsers(), picks)) {
      total = total + bytesOf(argument.getType());
      continue;
    }
    for (Operation *user : argument.getUsers())
      total = total + bytesOf(user->getResultTypes());
  }
  return total;
}
QUERN_COST(KernelOp, flopsOf(getBlock()), kernelTraffic(*this))

std::map<std::string, Size> quern::ir::lengthsOf(KernelOp kernel, LaunchOp launch) {
  std::map<std::string, Size> lengths;
  for (auto [symbol, size] : llvm::zip(kernel.getSymbols(), names(launch.getSymbols())))
    if (std::optional<Size> polynomial = Size::parse(size))
      lengths[symbol] = *polynomial;
  return lengths;
}

/// A polynomial of the kernel in the caller's symbols.
static Size forCaller(LaunchOp op, Size (KernelOp::*cost)()) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(op, op.getKernelAttr());
  if (!kernel)
    return Size(0);
  return (kernel.*cost)().substitute(lengthsOf(kernel, op));
}
QUERN_COST(LaunchOp, forCaller(*this, &KernelOp::getFlops), forCaller(*this, &KernelOp::getBytes))
