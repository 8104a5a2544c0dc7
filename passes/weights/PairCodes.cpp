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

/// Whether a product reads the codes with a weight whose codes are large.
bool meetsLargeCodes(QuantizeOp rows) {
  return llvm::any_of(rows->getUsers(), [](Operation *user) {
    auto numbers = dyn_cast<DequantizeOp>(user);
    return numbers && llvm::any_of(numbers->getUsers(), [&](Operation *product) {
             auto contract = dyn_cast<ContractOp>(product);
             return contract && llvm::any_of(contract->getOperands(), [&](Value operand) {
                      auto weight = operand.getDefiningOp<DequantizeOp>();
                      if (!weight || weight == numbers)
                        return false;
                      const Storage storage = typeOf(weight.getX()).getStorage();
                      return bitsOfCode(storage) > 4 && !quern::support::floatCodesOf(storage);
                    });
           });
  });
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
    llvm::DenseMap<Value, SmallVector<QuantizeOp>> ofRows; // those of one value stay one
    getOperation().walk([&](QuantizeOp codes) {
      if (!codes->hasAttr(weightAttr))
        ofRows[codes.getX()].push_back(codes);
    });
    for (auto &[rows, all] : ofRows)
      if (llvm::any_of(all, meetsLargeCodes))
        for (QuantizeOp codes : all)
          codes.setPaired(true);
  }

private:
  bool gains;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createPairCodesPass(bool gains) {
  return std::make_unique<PairCodesPass>(gains);
}
