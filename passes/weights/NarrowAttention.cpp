// Takes: functions with `quern.attention`, of a module that rounds what its weights multiply and keeps keys and values in bf16.
// Gives: the same with attentions whose products multiply bf16, as those of weights multiply bf16 or codes.
//
//   before: %o = attention %q with %k over "S" of (widen %cache) { .. }
//   after:  %o = attention (widen (narrow %q)) with (widen (narrow %k)) over "S" of (widen %cache) narrow { .. }
//
// Where the target has an instruction for such products (PassOptions); elsewhere it would only lose digits. Keys and values in
// codes stay exact, and so does an attention that several dimensions are summed over, for which there is no kernel.
#include "ir/Attributes.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Options.h"
#include "passes/Passes.h"
#include "passes/weights/WeightFormats.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

Value withoutMoves(Value value) {
  while (Operation *op = value.getDefiningOp())
    if ((isViewLike(op) || isa<ExpandOp, PermuteOp>(op)) && op->getNumOperands() == 1)
      value = op->getOperand(0);
    else
      break;
  return value;
}

class NarrowAttentionPass : public PassWrapper<NarrowAttentionPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NarrowAttentionPass)
  explicit NarrowAttentionPass(bool gains) : gains(gains) {}
  StringRef getArgument() const final { return "narrow-attention"; }
  StringRef getDescription() const final { return "Round what attention multiplies to bf16"; }

  void runOnOperation() final {
    ModuleOp module = getOperation();
    ProgramOptions options = optionsOf(module);
    if (!gains || options.train || options.caches != Storage::BF16 || !WeightFormats::of(options).roundsRows())
      return;
    SmallVector<AttentionOp> found;
    module.walk([&](AttentionOp attention) {
      auto depth = llvm::seq<unsigned>(0, attention.getQueries().size());
      const bool coded = llvm::any_of(attention->getOperands(),
                                      [](Value operand) { return withoutMoves(operand).getDefiningOp<RescaleOp>(); });
      if (!coded && llvm::all_of(depth, [&](unsigned i) { return attention.getDepth(i).size() == 1; }))
        found.push_back(attention);
    });
    for (AttentionOp attention : found)
      narrow(attention);
  }

private:
  void narrow(AttentionOp attention) {
    for (unsigned i = 0; i < 2 * attention.getQueries().size() + 1; ++i)
      attention->setOperand(i, narrowed(attention->getOperand(i)));
    attention.setNarrow(true);
  }

  /// Once for all that multiply it: where it is stored, that is what is stored.
  Value narrowed(Value value) {
    if (auto widen = withoutMoves(value).getDefiningOp<WidenOp>();
        widen && typeOf(widen.getX()).getStorage() == Storage::BF16)
      return value;
    Value &wide = known[value];
    if (wide)
      return wide;
    OpBuilder b(value.getContext());
    b.setInsertionPointAfterValue(value);
    auto narrow = NarrowOp::create(b, value.getLoc(), typeOf(value).withStorage(Storage::BF16), value);
    auto widen = WidenOp::create(b, value.getLoc(), value.getType(), narrow);
    if (Operation *made = value.getDefiningOp(); made && made->hasAttr(onceAttr))
      for (Operation *op : {narrow.getOperation(), widen.getOperation()})
        op->setAttr(onceAttr, b.getUnitAttr());
    return wide = widen;
  }

  bool gains;
  llvm::DenseMap<Value, Value> known;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createNarrowAttentionPass(bool gains) {
  return std::make_unique<NarrowAttentionPass>(gains);
}
