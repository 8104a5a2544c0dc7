// Takes: scans of which a softmax is part of an iteration. Gives: the softmax as the operations that it is made of.
// Why: a scan's loops have reductions and elementwise operations; a softmax over a state is just that.
//
//   before: %w = softmax %x over ["E"]
//   after:  %m = reduce max %x over ["E"];  %f = where(%m > -inf, %m, 0)     a row of only -inf gives zeros
//           %e = exp(%x - %f);  %s = reduce sum %e over ["E"];  %w = %e / where(%s > 0, %s, 1)
#include "passes/Passes.h"

#include "ir/Dialect.h"
#include "ir/Scan.h"

#include "mlir/Pass/Pass.h"

#include <limits>

using namespace mlir;
using namespace quern::ir;

static void writeOut(SoftmaxOp op) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value x = op.getX(), zero = ConstOp::create(builder, loc, 0.0), one = ConstOp::create(builder, loc, 1.0);
  Value nothing = ConstOp::create(builder, loc, -std::numeric_limits<double>::infinity());
  Value most = ReduceOp::create(builder, loc, Reduction::max, x, op.getDims());
  Value any = CompareOp::create(builder, loc, Predicate::gt, most, nothing);
  Value shift = WhereOp::create(builder, loc, any, most, zero);
  Value power = ExpOp::create(builder, loc, SubOp::create(builder, loc, x, shift));
  Value sum = ReduceOp::create(builder, loc, Reduction::sum, power, op.getDims());
  Value some = CompareOp::create(builder, loc, Predicate::gt, sum, zero);
  Value share = DivOp::create(builder, loc, power, WhereOp::create(builder, loc, some, sum, one));
  op.replaceAllUsesWith(share);
  op.erase();
}

namespace {
class WriteOutSoftmaxPass : public PassWrapper<WriteOutSoftmaxPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WriteOutSoftmaxPass)
  StringRef getArgument() const final { return "write-out-softmax"; }
  StringRef getDescription() const final { return "Write a softmax within a scan as the operations it is made of"; }
  void runOnOperation() final {
    SmallVector<SoftmaxOp> found;
    getOperation().walk([&](SoftmaxOp op) {
      if (op->getParentOfType<ScanOp>())
        found.push_back(op);
    });
    llvm::for_each(found, writeOut);
  }
};
} // namespace

std::unique_ptr<Pass> quern::passes::createWriteOutSoftmaxPass() {
  return std::make_unique<WriteOutSoftmaxPass>();
}
