// Takes: a function whose gradient is wanted, and a number of iterations. Gives: its loops in segments of so many.
// Why: the gradient then keeps what a loop carries once a segment and, when it comes to a segment, runs its iterations
// forward again, saving what they save for that segment alone: memory of the square root of their number, for one more
// run forwards.
//
//   %y = repeat 12 carry (%x = %x0) { body }
//   =>  %y = repeat 4 carry (%s = %x0) { %e = repeat 3 carry (%x = %s) { body } {quern.segment}; yield %e }
//
// Iterations that are left over are one shorter segment at the end. Parameters keep their iterations: the outer loop is
// the slower one.
#include "ir/Attributes.h"
#include "passes/gradient/Differentiate.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

/// `segments` times `iterations` iterations of `repeat`, from iteration `first`, on what `inits` carry in.
static RepeatOp segmented(OpBuilder &builder, RepeatOp repeat, ValueRange inits, int64_t first, int64_t segments,
                          int64_t iterations) {
  Location loc = repeat.getLoc();
  TypeRange types = repeat.getResultTypes();
  auto outer = RepeatOp::create(builder, loc, types, inits, ValueRange(), segments, /*reversed=*/false, IntegerAttr());
  Block &around = outer.getBody().emplaceBlock();
  for (Type type : types)
    around.addArgument(type, loc);
  OpBuilder inside(builder.getContext());
  inside.setInsertionPointToEnd(&around);
  auto inner = RepeatOp::create(inside, loc, types, around.getArguments(), ValueRange(), iterations, /*reversed=*/false,
                                IntegerAttr());
  inner->setAttr(segmentAttr, builder.getUnitAttr());
  IRMapping mapping;
  repeat.getBody().cloneInto(&inner.getBody(), mapping);
  inner.walk([&](ParamOp param) {
    ArrayRef<Attribute> paths = param.getPaths().getValue();
    size_t each = paths.size() / repeat.getIterations(); // loops within have iterations of their own
    if (paths.size() > 1)
      param.setPathsAttr(builder.getArrayAttr(paths.slice(first * each, segments * iterations * each)));
  });
  YieldOp::create(inside, loc, inner.getResults());
  return outer;
}

void quern::passes::segmentLoops(func::FuncOp function, int64_t iterations) {
  if (iterations < 2)
    return;
  for (auto repeat : llvm::make_early_inc_range(function.front().getOps<RepeatOp>())) {
    int64_t all = repeat.getIterations(), whole = all / iterations;
    if (all <= iterations || repeat.getReversed() || !repeat.getStacks().empty() ||
        repeat.getNumResults() > repeat.getCarriedCount())
      continue;
    OpBuilder builder(repeat);
    RepeatOp last = segmented(builder, repeat, repeat.getInits(), 0, whole, iterations);
    if (int64_t rest = all % iterations)
      last = segmented(builder, repeat, last.getResults(), whole * iterations, 1, rest);
    repeat.replaceAllUsesWith(last.getResults());
    repeat.erase();
  }
}
