// Takes: functions whose rows become codes (`quern.quantize` of what a weight in codes multiplies). Gives: the same with paired
// codes where the weight's have more than 4 bits.
//
//   before: %c = quantize %x along "D"                  after: %c = quantize %x along "D" paired
//           %y = contract (dequantize %c), (dequantize %w)
//
// Where the target multiplies bytes by pairs whose sums saturate in 16 bits (PassOptions): codes of two neighbours that are at
// most 128 together never come there, and need not be widened first. That costs less than a bit: a group's scale follows its
// largest pair, not twice its largest number. Codes of 4 bits are small enough as they are; products of what is paired with
// those lose nothing but this.
#include "ir/Attributes.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::ir;

namespace {

/// The rows whose codes a product reads with a weight whose codes are large; null for any other.
Value pairedRows(ContractOp product) {
  auto a = product.getA().getDefiningOp<DequantizeOp>(), b = product.getB().getDefiningOp<DequantizeOp>();
  if (!a || !b)
    return {};
  for (auto [numbers, weight] : {std::pair(a, b), std::pair(b, a)}) {
    auto rows = numbers.getX().getDefiningOp<QuantizeOp>();
    const Storage storage = typeOf(weight.getX()).getStorage();
    if (rows && !rows->hasAttr(weightAttr) && bitsOfCode(storage) > 4 && !quern::support::floatCodesOf(storage))
      return rows.getX();
  }
  return {};
}

class PairCodesPass : public PassWrapper<PairCodesPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PairCodesPass)
  explicit PairCodesPass(bool gains) : gains(gains) {}
  StringRef getArgument() const final { return "pair-codes"; }
  StringRef getDescription() const final {
    return "Choose scales of rows by pairs, so that products of bytes fit in 16 bits";
  }

  void runOnOperation() final {
    if (!gains)
      return;
    llvm::DenseSet<Value> paired;
    getOperation().walk([&](ContractOp product) {
      if (Value rows = pairedRows(product))
        paired.insert(rows);
    });
    getOperation().walk([&](QuantizeOp codes) { // those of one value stay one
      if (!codes->hasAttr(weightAttr) && paired.contains(codes.getX()))
        codes.setPaired(true);
    });
  }

private:
  bool gains;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createPairCodesPass(bool gains) {
  return std::make_unique<PairCodesPass>(gains);
}
