// Takes: an operation. Gives: which rule of the analysis of time holds for it, and the dimensions it touches.
// One line an operation: this table is what a pass over time can rely on.
#include "ir/Scan.h"
#include "support/numbers/RealFunctions.h"

using namespace mlir;
using namespace quern::ir;

using Names = SmallVector<StringRef>;

#define QUERN_TIME(OP, BEHAVIOR, TOUCHED)                                                                              \
  TimeBehavior OP::getTimeBehavior() {                                                                                 \
    return TimeBehavior::BEHAVIOR;                                                                                     \
  }                                                                                                                    \
  Names OP::getTouchedDims() {                                                                                         \
    return TOUCHED;                                                                                                    \
  }

/// The keys, what the products sum over, and what the sinks have instead of keys.
static Names reducedBy(AttentionOp op) {
  Names names = op.getPartNames();
  names.push_back(op.getDim());
  for (unsigned i = 0; i < op.getQueries().size(); ++i)
    for (DimAttr dim : op.getDepth(i))
      if (!llvm::is_contained(names, dim.getName()))
        names.push_back(dim.getName());
  return names;
}

static Names reducedBy(AttentionGradientOp op) {
  Names names = op.getDistance() ? quern::ir::names(*op.getDistance()) : Names{op.getDim()};
  for (unsigned i = 0; i < op.getRows().size(); ++i)
    for (DimAttr dim : op.getDepth(i))
      if (!llvm::is_contained(names, dim.getName()))
        names.push_back(dim.getName());
  return names;
}

QUERN_TIME(ConstOp, Constant, Names())
QUERN_TIME(ValuesOp, Constant, Names())
QUERN_TIME(ParamOp, Constant, Names())
QUERN_TIME(SizeOp, Length, Names())
QUERN_TIME(IndexOp, Position, Names())

QUERN_TIME(NegOp, Pointwise, Names())
QUERN_TIME(AbsOp, Pointwise, Names())
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) QUERN_TIME(NAME##Op, Pointwise, Names())
QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
QUERN_TIME(FloorOp, Pointwise, Names())
QUERN_TIME(CeilOp, Pointwise, Names())
QUERN_TIME(RoundOp, Pointwise, Names())
QUERN_TIME(ToIntOp, Pointwise, Names())
QUERN_TIME(ToRealOp, Pointwise, Names())
QUERN_TIME(NarrowOp, Pointwise, Names())
QUERN_TIME(WidenOp, Pointwise, Names())
QUERN_TIME(DequantizeOp, Pointwise, Names())
QUERN_TIME(RescaleOp, Pointwise, Names())
QUERN_TIME(QuantizeOp, Reduces, Names{getDim()})
QUERN_TIME(NotOp, Pointwise, Names())
QUERN_TIME(AddOp, Pointwise, Names())
QUERN_TIME(SubOp, Pointwise, Names())
QUERN_TIME(MulOp, Pointwise, Names())
QUERN_TIME(DivOp, Pointwise, Names())
QUERN_TIME(FloorDivOp, Pointwise, Names())
QUERN_TIME(ModOp, Pointwise, Names())
QUERN_TIME(PowOp, Pointwise, Names())
QUERN_TIME(MaxOp, Pointwise, Names())
QUERN_TIME(MinOp, Pointwise, Names())
QUERN_TIME(AndOp, Pointwise, Names())
QUERN_TIME(OrOp, Pointwise, Names())
QUERN_TIME(CompareOp, Pointwise, Names())
QUERN_TIME(WhereOp, Pointwise, Names())

QUERN_TIME(ReduceOp, Reduces, names(getDims()))
QUERN_TIME(ContractOp, Reduces, names(getDims()))
QUERN_TIME(SoftmaxOp, Reduces, names(getDims()))
QUERN_TIME(ScatterAddOp, Reduces, names(getDims()))
QUERN_TIME(AttentionOp, Reduces, reducedBy(*this))
QUERN_TIME(AttentionGradientOp, Reduces, reducedBy(*this))
QUERN_TIME(ArgmaxOp, Reduces, Names{getDim()})
QUERN_TIME(CumsumOp, Scans, Names{getDim()})
QUERN_TIME(ScanOp, Scans, Names{getDim().getName()})
QUERN_TIME(TopKOp, Selects, Names{getFrom()})
QUERN_TIME(GatherOp, Gathers, Names{getDim()})

QUERN_TIME(RenameOp, Relabels, names(getFrom()))
QUERN_TIME(SplitOp, Reshapes, Names{getDim()})
QUERN_TIME(MergeOp, Reshapes, names(getDims()))
QUERN_TIME(CutOp, Reshapes, Names{getDim()})
QUERN_TIME(ConcatOp, Reshapes, names(getParts()))
QUERN_TIME(UnitOp, Reshapes, Names())
QUERN_TIME(SqueezeOp, Reshapes, Names{getDim()})
QUERN_TIME(ExpandOp, Pointwise, Names())
QUERN_TIME(PermuteOp, Pointwise, Names())

QUERN_TIME(RememberOp, Remembers, Names{getFrom()})
QUERN_TIME(RecallOp, Remembers, Names())
QUERN_TIME(StoreOp, Remembers, Names())
QUERN_TIME(StateOp, Structure, Names())
QUERN_TIME(RepeatOp, Structure, Names())
QUERN_TIME(KernelOp, Structure, Names())
QUERN_TIME(LaunchOp, Structure, Names())
QUERN_TIME(YieldOp, Structure, Names())
