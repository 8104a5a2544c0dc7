// Takes: functions with `quern.attention`, of a module that rounds what its weights multiply and keeps keys and values in bf16.
// Gives: the same with attentions whose products multiply bf16, as those of weights multiply bf16 or codes.
//
//   before: %o = attention %q with %k over "S" of (widen %cache) { .. }
//   after:  %o = attention (widen (narrow %q)) with (widen (narrow %k)) over "S" of (widen %cache) narrow { .. }
//
// Where the target has an instruction for such products (PassOptions); elsewhere it would only lose digits. Keys and values in
// codes stay exact, and so does an attention that several dimensions are summed over, for which there is no kernel.
#include "ir/Attributes.h"
#include "ir/analysis/Options.h"
#include "passes/Passes.h"
#include "passes/weights/NarrowStorage.h"
#include "passes/weights/WeightFormats.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

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
      const bool coded = llvm::any_of(productOperands(attention), [](OpOperand *operand) {
        return withoutMoves(operand->get()).getDefiningOp<RescaleOp>();
      });
      if (!coded && llvm::all_of(depth, [&](unsigned i) { return attention.getDepth(i).size() == 1; }))
        found.push_back(attention);
    });
    for (AttentionOp attention : found)
      narrow(attention);
  }

private:
  void narrow(AttentionOp attention) {
    for (OpOperand *operand : productOperands(attention))
      operand->set(narrowed(operand->get()));
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
    wide = roundedToBF16(b, value.getLoc(), value);
    if (Operation *made = value.getDefiningOp(); made && made->hasAttr(onceAttr))
      for (Operation *op : {wide.getDefiningOp(), wide.getDefiningOp()->getOperand(0).getDefiningOp()})
        op->setAttr(onceAttr, b.getUnitAttr());
    return wide;
  }

  bool gains;
  llvm::DenseMap<Value, Value> known;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createNarrowAttentionPass(bool gains) {
  return std::make_unique<NarrowAttentionPass>(gains);
}
