// Takes: an operation. Gives: arithmetic operations and bytes moved, as polynomials over run-time lengths.
// Why polynomials: the schedule's choice and the bench's report both ask for many lengths at once.
#include "ir/Chunk.h"
#include "ir/Scan.h"

using namespace mlir;
using namespace quern::ir;

/// What a transcendental function counts as: roughly the vector instructions of its polynomial.
static constexpr int64_t transcendental = 8;
/// Work for each element, in additions, as measured: what has no vector instruction of one cycle; polynomials with their
/// ranges; angles, which are reduced in double precision (a softmax takes as long); what goes from one number to the next.
static constexpr int64_t slow = 6, polynomial = 12, angle = 25, oneByOne = 200;

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

#define QUERN_COST_WORK(OP, FLOPS, BYTES, WORK)                                                                        \
  Size OP::getFlops() {                                                                                                \
    return FLOPS;                                                                                                      \
  }                                                                                                                    \
  Size OP::getBytes() {                                                                                                \
    return BYTES;                                                                                                      \
  }                                                                                                                    \
  Size OP::getWork() {                                                                                                 \
    return WORK;                                                                                                       \
  }
#define QUERN_COST(OP, FLOPS, BYTES) QUERN_COST_WORK(OP, FLOPS, BYTES, getFlops())

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
QUERN_COPY(ExpandOp)
QUERN_COPY(PermuteOp)
#define QUERN_CONVERT(OP, WORK)                                                                                        \
  QUERN_COST_WORK(OP, Size(0), traffic(*this), getResult().getType().elements() * Size(WORK))
QUERN_CONVERT(ConcatOp, 1)
QUERN_CONVERT(ToRealOp, 1)
QUERN_CONVERT(NarrowOp, slow)
QUERN_CONVERT(WidenOp, 1)
QUERN_CONVERT(DequantizeOp, 1)
QUERN_CONVERT(RescaleOp, 1)
// Only the rows that are gathered, or new, are read.
QUERN_COST_WORK(GatherOp, Size(0), bytesOf(getPositions().getType()) + bytesOf(getResult().getType()) * Size(2),
                getResult().getType().elements() * Size(slow))
QUERN_COST(RememberOp, Size(0), bytesOf(getX().getType()) * Size(2))
QUERN_COST(RecallOp, Size(0), bytesOf(getResult().getType()))
QUERN_COST(StoreOp, Size(0), bytesOf(getX().getType()))

#define QUERN_ELEMENTWISE_WORK(OP, EACH, WORK)                                                                         \
  QUERN_COST_WORK(OP, getResult().getType().elements() * Size(EACH), traffic(*this),                                   \
                  getResult().getType().elements() * Size(WORK))
#define QUERN_ELEMENTWISE(OP, EACH) QUERN_ELEMENTWISE_WORK(OP, EACH, EACH)
QUERN_ELEMENTWISE(NegOp, 1)
QUERN_ELEMENTWISE(AbsOp, 1)
QUERN_ELEMENTWISE_WORK(SqrtOp, 1, slow)
QUERN_ELEMENTWISE(FloorOp, 1)
QUERN_ELEMENTWISE(CeilOp, 1)
QUERN_ELEMENTWISE(RoundOp, 1)
QUERN_ELEMENTWISE(ToIntOp, 1)
QUERN_ELEMENTWISE(NotOp, 1)
QUERN_ELEMENTWISE(AddOp, 1)
QUERN_ELEMENTWISE(SubOp, 1)
QUERN_ELEMENTWISE(MulOp, 1)
QUERN_ELEMENTWISE_WORK(DivOp, 1, slow)
QUERN_ELEMENTWISE(FloorDivOp, 1)
QUERN_ELEMENTWISE(ModOp, 1)
QUERN_ELEMENTWISE(MaxOp, 1)
QUERN_ELEMENTWISE(MinOp, 1)
QUERN_ELEMENTWISE(AndOp, 1)
QUERN_ELEMENTWISE(OrOp, 1)
QUERN_ELEMENTWISE(CompareOp, 1)
QUERN_ELEMENTWISE(WhereOp, 1)
QUERN_ELEMENTWISE_WORK(ExpOp, transcendental, polynomial)
QUERN_ELEMENTWISE_WORK(Expm1Op, transcendental, polynomial)
QUERN_ELEMENTWISE_WORK(LogOp, transcendental, polynomial)
QUERN_ELEMENTWISE_WORK(Log1pOp, transcendental, polynomial)
QUERN_ELEMENTWISE_WORK(SinOp, transcendental, angle)
QUERN_ELEMENTWISE_WORK(CosOp, transcendental, angle)
QUERN_ELEMENTWISE_WORK(TanhOp, transcendental, polynomial)
QUERN_ELEMENTWISE_WORK(SigmoidOp, transcendental, polynomial)
QUERN_ELEMENTWISE_WORK(ErfOp, transcendental, polynomial)
QUERN_ELEMENTWISE_WORK(PowOp, transcendental, polynomial)

#define QUERN_ROWS(OP, EACH, WORK)                                                                                     \
  QUERN_COST_WORK(OP, getX().getType().elements() * Size(EACH), traffic(*this),                                        \
                  getX().getType().elements() * Size(WORK))
QUERN_ROWS(ReduceOp, 1, 1)
QUERN_ROWS(CumsumOp, 1, oneByOne)
QUERN_ROWS(ArgmaxOp, 1, oneByOne)
QUERN_ROWS(ScatterAddOp, 1, oneByOne)
/// Of a score: the largest, minus it, the sum, the division.
static constexpr int64_t softmaxEach = 3 + transcendental;
QUERN_ROWS(SoftmaxOp, softmaxEach, angle)
QUERN_COST_WORK(TopKOp, getX().getType().elements() * getInto().getSize(), traffic(*this),
                getX().getType().elements() * Size(oneByOne))

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
QUERN_COST(RepeatOp, overAllIterations(flopsOf(getBlock()) * Size(getIterations())),
           overAllIterations(bytesOf(getBlock()) * Size(getIterations())))
/// Within a kernel only arguments and results are memory; of a table that is only gathered from, the rows that are
/// gathered.
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
