// Takes: a step function. Gives: running sums and scans that go on from a state in plain operations: what the state holds
// is read before, and its new value stored behind. Why right before kernels are cut out: passes before that see one operation.
#include "passes/fuse/ExpandStates.h"

#include "ir/Scan.h"

using namespace mlir;
using namespace quern::ir;

/// A running sum that goes on from a state, in plain operations.
static void expandState(CumsumOp op) {
  OpBuilder builder(op);
  NamedTensorType type = typeOf(op.getResult());
  DimAttr time = type.dim(op.getDim());
  SmallVector<DimAttr> dims;
  for (DimAttr dim : type.getDims())
    if (dim != time)
      dims.push_back(dim);
  Location loc = op.getLoc();
  auto before = RecallOp::create(builder, loc, type.withDims(dims), op.getStateAttr());
  auto sum = CumsumOp::create(builder, loc, type, op.getX(), op.getDimAttr(), FlatSymbolRefAttr(), UnitAttr());
  auto total = AddOp::create(builder, loc, type, sum.getResult(), before.getResult());
  DimAttr one = DimAttr::get(op.getContext(), (time.getName() + ".last").str(), Size(1));
  auto cut = CutOp::create(builder, loc, total.getResult(), op.getDim(), (time.getSize() - Size(1)).str(), one);
  auto last = SqueezeOp::create(builder, loc, cut.getResult(), one.getName());
  auto ordered = PermuteOp::create(builder, loc, type.withDims(dims), last.getResult());
  StoreOp::create(builder, loc, ordered, op.getStateAttr());
  op.replaceAllUsesWith(total.getResult());
  op.erase();
}

/// Whether a value is zeros: what a state holds before the first step.
static bool isZero(Value value) {
  auto expand = value.getDefiningOp<ExpandOp>();
  Value number = expand ? expand.getX() : value;
  if (auto real = number.getDefiningOp<ToRealOp>())
    number = real.getX();
  auto constant = number.getDefiningOp<ConstOp>();
  if (!constant)
    return false;
  if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
    return real.getValue().isPosZero();
  return cast<IntegerAttr>(constant.getValue()).getValue().isZero();
}

/// A scan that goes on from states, in plain operations.
static void expandStates(ScanOp op) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  for (unsigned i = 0; i < op.getCarriedCount(); ++i) {
    auto state = cast<FlatSymbolRefAttr>((*op.getStates())[i]);
    // The state's own order of storage, without the dimension of the iterations.
    auto symbol = SymbolTable::lookupNearestSymbolFrom<StateOp>(op, state);
    NamedTensorType own = typeOf(op.getInits()[i]);
    NamedTensorType type = own.withDims(cast<NamedTensorType>(symbol.getType()).getDims().take_back(own.getRank()));
    Value before = RecallOp::create(builder, loc, type, state);
    if (!isZero(op.getInits()[i])) {
      Value past = SizeOp::create(builder, loc, Size::symbol("past"));
      Value none = ConstOp::create(builder, loc, int64_t(0));
      Value first = CompareOp::create(builder, loc, Predicate::eq, past, none);
      before = WhereOp::create(builder, loc, first, op.getInits()[i], before);
    }
    op.getInitsMutable()[i].assign(before);
    builder.setInsertionPointAfter(op);
    Value after = op.getResult(i);
    if (type != own && !after.use_empty()) {
      auto ordered = PermuteOp::create(builder, loc, own, after);
      after.replaceAllUsesExcept(ordered, ordered);
    }
    after.setType(type);
    StoreOp::create(builder, loc, after, state);
    builder.setInsertionPoint(op);
  }
  op.removeStatesAttr();
}

void quern::passes::expandStates(func::FuncOp function) {
  function.walk([&](CumsumOp op) {
    if (op.getStateAttr())
      expandState(op);
  });
  function.walk([&](ScanOp op) {
    if (op.getStates())
      ::expandStates(op);
  });
}
