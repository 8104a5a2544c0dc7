// Takes: contractions with weights of more than two dimensions. Gives: contractions with matrices.
// Why: a spec may store queries as [H, K, D] or [H * K, D]; packing and kernels should see one form of both.
//
//   before: %q = contract %x, %w over ["D"]           : [B, T, D], [H, K, D] -> [B, T, H, K]
//   after:  %m = merge %w ["H", "K"] into <F.0>       : [F.0, D], other strides of the same memory
//           %f = contract %x, %m over ["D"]           : [B, T, F.0]
//           %q = split %f "F.0" into [H, K]
//
// The summed dimensions are merged likewise, in the weight and in what it is multiplied with. Dimensions that both
// have, that stand for several stored tensors or that a gather reads (experts) stay.
#include "ir/Attributes.h"
#include "passes/Passes.h"

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace quern::ir;

namespace {

class FlattenWeightsPass : public PassWrapper<FlattenWeightsPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FlattenWeightsPass)
  StringRef getArgument() const final { return "flatten-weights"; }
  StringRef getDescription() const final { return "Weights of many dimensions become matrices"; }

  void runOnOperation() final {
    // What any function picks from is gathered from in none as a part of something larger: all share one packed form.
    getOperation().walk([&](GatherOp gather) {
      if (auto param = gather.getX().getDefiningOp<ParamOp>())
        gatheredDims[param.getPaths()].insert(gather.getDim());
    });
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<ContractOp> contracts;
      function.walk([&](ContractOp op) { contracts.push_back(op); });
      count = 0; // labels are per function, so that equal functions stay equal
      for (ContractOp op : contracts)
        flatten(op);
    }
  }

private:
  using Group = SmallVector<DimAttr>;

  /// The weight's own dimensions and those summed, each group together in memory, behind what stays as it is.
  std::optional<std::pair<Group, Group>> groupsOf(ContractOp op, ParamOp param, Value x) {
    SmallVector<StringRef> over = names(op.getDims());
    SmallVector<std::string> stacked = param.getStacked();
    Group rows, depth;
    bool begun = false, rowsLast = false;
    for (DimAttr dim : typeOf(param.getResult()).getDims()) {
      bool summed = llvm::is_contained(over, dim.getName()), shared = typeOf(x).has(dim.getName());
      auto gathered = gatheredDims.find(param.getPaths());
      bool stays = llvm::is_contained(stacked, dim.getName().str()) || (shared && !summed) ||
                   (gathered != gatheredDims.end() && gathered->second.contains(dim.getName()));
      if ((stays && begun) || (summed && !shared))
        return std::nullopt;
      if (stays)
        continue;
      Group &group = summed ? depth : rows;
      if (begun && rowsLast == summed && !group.empty()) // rows, depth, rows
        return std::nullopt;
      group.push_back(dim);
      begun = true;
      rowsLast = !summed;
    }
    if (rows.empty() || depth.empty() || depth.size() != over.size() || (rows.size() == 1 && depth.size() == 1))
      return std::nullopt;
    return std::pair(rows, depth);
  }

  /// `value` with the dimensions of a group as one.
  Value merge(OpBuilder &b, Location loc, Value value, const Group &group, StringRef label) {
    if (group.size() == 1)
      return value;
    Size size(1);
    SmallVector<StringRef> dims;
    for (DimAttr dim : group) {
      size = size * dim.getSize();
      dims.push_back(dim.getName());
    }
    return MergeOp::create(b, loc, value, labelArray(b, dims), DimAttr::get(&getContext(), label, size));
  }

  void flatten(ContractOp op) {
    for (auto [weight, x] : {std::pair(op.getB(), op.getA()), std::pair(op.getA(), op.getB())}) {
      auto param = weight.getDefiningOp<ParamOp>();
      if (!param || x.getDefiningOp<ParamOp>())
        continue;
      auto groups = groupsOf(op, param, x);
      if (!groups)
        continue;
      auto &[rows, depth] = *groups;
      OpBuilder b(op);
      Location loc = op.getLoc();
      std::string flat = "F." + std::to_string(count), summed = "I." + std::to_string(count++);
      Value matrix = merge(b, loc, merge(b, loc, weight, rows, flat), depth, summed);
      Value input = merge(b, loc, x, depth, summed);
      StringRef over = depth.size() == 1 ? depth[0].getName() : StringRef(summed);
      bool weightFirst = weight == op.getA();
      SmallVector<Value> made = {input};
      made.push_back(ContractOp::create(b, loc, weightFirst ? matrix : input, weightFirst ? input : matrix,
                                        labelArray(b, {over})));
      if (rows.size() > 1)
        made.push_back(SplitOp::create(b, loc, made.back(), flat,
                                       b.getArrayAttr(SmallVector<Attribute>(rows.begin(), rows.end()))));
      if (made.back().getType() != op.getType())
        made.push_back(PermuteOp::create(b, loc, op.getType(), made.back()));
      if (op->hasAttr(onceAttr))
        for (Value value : made)
          if (value != x)
            value.getDefiningOp()->setAttr(onceAttr, b.getUnitAttr());
      Value result = made.back();
      op.replaceAllUsesWith(result);
      op.erase();
      return;
    }
  }

  llvm::DenseMap<Attribute, llvm::StringSet<>> gatheredDims;
  unsigned count = 0;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createFlattenWeightsPass() {
  return std::make_unique<FlattenWeightsPass>();
}
