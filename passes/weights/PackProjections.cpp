// Takes: contractions of one value with several weights. Gives: one contraction with all of them, packed into one.
// Why: queries, keys and values (gate and up) then read their input once, in one loop over one weight; the parts come
// out as windows. The loader packs the weight, so nothing is done per call.
//
//   before: %q = contract %x, %wq    %k = contract %x, %wk    %v = contract %x, %wv
//   after:  %w = concat %wq, %wk, %wv                    {quern.weight}: the loader's work
//           %p = contract %x, %w
//           %q = cut %p at 0      %k = cut %p at 768      %v = cut %p at 1536
//
// Parts that share the label of their rows (gate and up) are along a dimension of their own instead, so that a kernel
// has the same row of each at hand: %p[U = 0], %p[U = 1].
//
// Weights of different formats (`--quantize`, `--precision stored`) stay apart: joined they would all take the bits of the
// widest, and input that is read again is a part of what these are. So do weights beside adapters that are trained, as the
// gradient reads each by itself, and adapters beside weights, whose tiles would be as narrow as theirs.
#include "ir/Attributes.h"
#include "ir/analysis/Weights.h"
#include "passes/Passes.h"
#include "passes/weights/WeightFormats.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

namespace {

/// A contraction of `x` with a weight [rows, depth] of which nobody else knows.
struct Projection {
  ContractOp op;
  Value x;
  Value weight; ///< a parameter, perhaps flattened
  DimAttr rows, depth;
};

bool usedOnce(Value weight) {
  for (; !isa<ParamOp>(weight.getDefiningOp()); weight = weight.getDefiningOp()->getOperand(0))
    if (!weight.hasOneUse())
      return false;
  return weight.hasOneUse();
}

/// A weight with what it is made from.
void moveBefore(Value weight, Operation *place) {
  for (Operation *op = weight.getDefiningOp(); op;
       op = op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr) {
    op->moveBefore(place);
    place = op;
  }
}

std::optional<Projection> projection(ContractOp op) {
  if (op.getDims().size() != 1)
    return std::nullopt;
  for (auto [weight, x] : {std::pair(op.getB(), op.getA()), std::pair(op.getA(), op.getB())}) {
    ParamOp param = parameterOf(weight);
    NamedTensorType type = typeOf(weight);
    if (!param || !usedOnce(weight) || !param.getStacked().empty() || type.getRank() != 2)
      continue;
    DimAttr depth = type.dim(names(op.getDims())[0]);
    if (!depth || x.getDefiningOp<ParamOp>())
      continue;
    DimAttr rows = type.getDims()[type.getDims()[0] == depth ? 1 : 0];
    if (typeOf(x).has(depth.getName()) && !typeOf(x).has(rows.getName()))
      return Projection{op, x, weight, rows, depth};
  }
  return std::nullopt;
}

class PackProjectionsPass : public PassWrapper<PackProjectionsPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PackProjectionsPass)
  explicit PackProjectionsPass(PackingRule rule) : tileFor(std::move(rule)) {}
  StringRef getArgument() const final { return "pack-projections"; }
  StringRef getDescription() const final { return "Contractions of one value with several weights become one"; }

  void runOnOperation() final {
    ProgramOptions options = optionsOf(getOperation());
    if (options.trainsAdapters())
      return;
    formats = WeightFormats::of(options);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function->hasAttr(changingAttr)) // joined weights exist packed only
        continue;
      function.walk([&](Block *block) { packIn(*block); });
      count = 0; // labels are per function, so that equal functions stay equal
    }
  }

private:
  void packIn(Block &block) {
    // Input, depth, on the first call only, the weight's order, whether it is an adapter, and format.
    using Key = std::tuple<Value, Attribute, unsigned, unsigned, unsigned, Storage>;
    llvm::MapVector<Key, SmallVector<Projection>> siblings;
    for (auto op : block.getOps<ContractOp>())
      if (std::optional<Projection> found = projection(op)) {
        unsigned once = op->hasAttr(onceAttr), rowsFirst = typeOf(found->weight).getDims()[0] == found->rows;
        ParamOp param = parameterOf(found->weight);
        unsigned adapter = param->hasAttr(adapterAttr);
        Storage storage = adapter ? Storage::F32 : formats.of(param, !op->getParentOfType<RepeatOp>()).weight;
        siblings[{found->x, found->depth, once, rowsFirst, adapter, storage}].push_back(*found);
      }
    for (auto &[key, parts] : siblings) {
      // Parts with the label of the first go with it; those with labels of their own make another weight.
      llvm::MapVector<Attribute, SmallVector<Projection>> byRows;
      for (Projection &part : parts)
        byRows[part.rows].push_back(part);
      SmallVector<Projection> alone;
      for (auto &[rows, same] : byRows)
        if (same.size() > 1)
          stack(same);
        else
          alone.push_back(same[0]);
      if (alone.size() > 1)
        append(alone);
    }
    reportRouted(block);
  }

  /// Gate and up of experts: each row's weights are its own, and so much more than its input that reading this once is
  /// worth nothing.
  void reportRouted(Block &block) {
    if (!getContext().getRemarkEngine())
      return;
    llvm::MapVector<std::pair<Value, Value>, SmallVector<ContractOp>> siblings; // input, what is gathered
    for (auto op : block.getOps<ContractOp>())
      for (auto [weight, x] : {std::pair(op.getB(), op.getA()), std::pair(op.getA(), op.getB())})
        if (auto gather = weight.getDefiningOp<GatherOp>();
            gather && op.getDims().size() == 1 && parameterOf(gather.getX()) && typeOf(gather.getX()).getRank() == 3)
          siblings[{x, gather.getPositions()}].push_back(op);
    for (auto &[key, ops] : siblings) {
      if (ops.size() < 2)
        continue;
      int64_t weights = 0, depth = 0;
      for (ContractOp op : ops) {
        auto gather = (op.getA() == key.first ? op.getB() : op.getA()).getDefiningOp<GatherOp>();
        NamedTensorType type = typeOf(gather.getX());
        depth = type.dim(names(op.getDims())[0]).getStatic().value_or(0);
        int64_t elements = 1;
        for (DimAttr dim : type.getDims())
          if (dim.getName() != gather.getDim())
            elements *= dim.getStatic().value_or(0);
        weights += quern::support::bytesOf(type.getStorage(), elements);
      }
      remark::missed(ops[0].getLoc(), remark::RemarkOpts::name("packing").category("packing"))
          << std::to_string(ops.size())
          << " contractions with weights that each row is routed to stay apart: one would read "
          << std::to_string(quern::support::bytesOf(typeOf(key.first).getStorage(), depth))
          << " bytes of input a row once, beside " << std::to_string(weights) << " of weights";
    }
  }

  /// The weight of all parts, before the first of their contractions.
  Value join(MutableArrayRef<Projection> parts, ArrayRef<Value> weights, ArrayRef<StringRef> along, DimAttr into) {
    OpBuilder b(parts[0].op);
    auto weight = ConcatOp::create(b, parts[0].op.getLoc(), weights, labelArray(b, along), into);
    weight->setAttr(weightAttr, b.getUnitAttr());
    return weight;
  }

  /// The one contraction. What was contracted is taken from it by `part`.
  void replace(MutableArrayRef<Projection> parts, Value weight,
               function_ref<Value(OpBuilder &, Value, unsigned)> part) {
    OpBuilder b(parts[0].op);
    bool once = parts[0].op->hasAttr(onceAttr); // read now: the operations go one by one
    auto mark = [&](Value value) {
      if (once)
        value.getDefiningOp()->setAttr(onceAttr, b.getUnitAttr());
    };
    // As it is by now: it may be the result of projections that were packed a moment ago.
    Value x = parts[0].op.getA() == parts[0].weight ? parts[0].op.getB() : parts[0].op.getA();
    Value all = ContractOp::create(b, parts[0].op.getLoc(), x, weight, parts[0].op.getDims());
    mark(all);
    for (auto [i, projection] : llvm::enumerate(parts)) {
      b.setInsertionPoint(projection.op);
      Value value = part(b, all, i);
      if (value.getType() != projection.op.getType())
        value = PermuteOp::create(b, projection.op.getLoc(), projection.op.getType(), value);
      for (Value made = value; made != all; made = made.getDefiningOp()->getOperand(0))
        mark(made);
      projection.op.replaceAllUsesWith(value);
      projection.op.erase();
    }
  }

  /// What one contraction instead of several is worth: its input is read once.
  void say(MutableArrayRef<Projection> parts, bool packed) {
    if (!getContext().getRemarkEngine())
      return;
    std::string rows;
    for (const Projection &part : parts)
      rows += (rows.empty() ? "" : ", ") + std::to_string(*part.rows.getStatic());
    int64_t depth = *parts[0].depth.getStatic();
    ContractOp first = parts[0].op;
    NamedTensorType input = typeOf(first.getA() == parts[0].weight ? first.getB() : first.getA());
    auto options = remark::RemarkOpts::name("packing").category("packing");
    if (packed)
      remark::passed(parts[0].op.getLoc(), options)
          << "one contraction for " << std::to_string(parts.size()) << " (" << rows << " rows of "
          << std::to_string(depth) << "), packed when the program starts: "
          << std::to_string(quern::support::bytesOf(input.getStorage(), depth) * static_cast<int64_t>(parts.size() - 1))
          << " bytes a row that are not read again";
    else
      remark::missed(parts[0].op.getLoc(), options)
          << std::to_string(parts.size()) << " contractions of one value stay apart: their rows (" << rows
          << ") do not fill tiles of a packed weight";
  }

  void stack(MutableArrayRef<Projection> parts) {
    bool packed = tileFor(*parts[0].rows.getStatic(), *parts[0].depth.getStatic());
    say(parts, packed);
    if (!packed)
      return;
    std::string label = "U." + std::to_string(count++);
    MLIRContext *context = &getContext();
    SmallVector<Value> weights;
    SmallVector<std::string> own;
    for (auto [i, part] : llvm::enumerate(parts)) {
      moveBefore(part.weight, parts[0].op);
      own.push_back(label + "." + std::to_string(i));
      OpBuilder b(parts[0].op);
      weights.push_back(UnitOp::create(b, part.op.getLoc(), part.weight, DimAttr::get(context, own[i], Size(1))));
    }
    DimAttr into = DimAttr::get(context, label, Size(static_cast<int64_t>(parts.size())));
    Value weight = join(parts, weights, SmallVector<StringRef>(own.begin(), own.end()), into);
    replace(parts, weight, [&](OpBuilder &b, Value all, unsigned i) -> Value {
      DimAttr one = DimAttr::get(context, own[i], Size(1));
      Value cut = CutOp::create(b, parts[i].op.getLoc(), all, label, std::to_string(i), one);
      return SqueezeOp::create(b, parts[i].op.getLoc(), cut, own[i]);
    });
  }

  void append(MutableArrayRef<Projection> parts) {
    int64_t total = 0;
    SmallVector<int64_t> offsets;
    SmallVector<Value> weights;
    SmallVector<StringRef> rows;
    for (Projection &part : parts) {
      offsets.push_back(total);
      total += *part.rows.getStatic();
      weights.push_back(part.weight);
      rows.push_back(part.rows.getName());
    }
    bool packed = tileOfParts(tileFor(total, *parts[0].depth.getStatic()), offsets);
    say(parts, packed);
    if (!packed)
      return;
    for (Projection &part : parts)
      moveBefore(part.weight, parts[0].op);
    std::string label = "P." + std::to_string(count++);
    Value weight = join(parts, weights, rows, DimAttr::get(&getContext(), label, Size(total)));
    replace(parts, weight, [&](OpBuilder &b, Value all, unsigned i) -> Value {
      return CutOp::create(b, parts[i].op.getLoc(), all, label, std::to_string(offsets[i]), parts[i].rows);
    });
  }

  PackingRule tileFor;
  WeightFormats formats;
  unsigned count = 0;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createPackProjectionsPass(PackingRule rule) {
  return std::make_unique<PackProjectionsPass>(std::move(rule));
}
