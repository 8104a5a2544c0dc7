// Takes: @loss and @loss.grad of a module to be trained. Gives: the end of them, from the last hidden rows to the loss
// and back, as a loop over chunks of rows. Why: logits and their gradient have tokens x vocabulary numbers, more than
// all layers keep; a chunk of them is all that is ever in memory. Each row's loss and its gradient are known within the
// row (the mean's divisor counts labels alone), so nothing is computed twice.
//
//   %x = contract %h, %w over D    [B, T, V]       %l, %dh, %dw = quern.repeat rows 256 carry (%sum = 0) over (%h', %n) {
//   %l = ... %x ...                [B, T]            %x = contract %h', %w     [rows, V]
//   %dx = ... %x, %n ...           [B, T, V]         %l', %dx = ...
//   %dh = contract %dx, %w over V             =>     %dh' = contract %dx, %w
//   %dw = contract %dx, %h over B, T                 yield %sum + contract %dx, %h' over rows, %l', %dh' }
//
// What belongs to it: every operation that sees a value with all rows and the vocabulary, and the operations between two
// such. Where rows meet in another way than by a sum at the end, or the logits are wanted elsewhere, the function stays
// as it is.
#include "passes/Passes.h"
#include "passes/gradient/Gradients.h"

#include "ir/Attributes.h"
#include "ir/Chunk.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Options.h"
#include "ir/analysis/Views.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

// A chunk has enough rows for a product with the vocabulary to run at speed.
static constexpr int64_t rowStep = 48;

namespace {
class Chunking {
public:
  /// `bytes`: what a chunk's logits take, unless `most` says how many rows it has.
  Chunking(func::FuncOp function, int64_t most, int64_t bytes)
      : function(function), block(function.front()), most(most), bytes(bytes) {}
  void run();

private:
  bool findLogits();
  bool findRegion();
  bool isRowByRow(Operation *op);
  bool isSum(Operation *op) const;
  void build();
  void moveUsersBehind(Operation *loop, Operation *last);

  bool isRow(StringRef name) const {
    return llvm::any_of(rows, [&](DimAttr dim) { return dim.getName() == name; });
  }
  unsigned rowsOf(NamedTensorType type) const {
    return llvm::count_if(type.getDims(), [&](DimAttr dim) { return isRow(dim.getName()); });
  }
  bool isWide(Value value) const {
    NamedTensorType type = typeOf(value);
    return rowsOf(type) == rows.size() && llvm::all_of(columns, [&](DimAttr dim) { return type.has(dim.getName()); });
  }
  /// `type` with one dimension in the place of all rows.
  NamedTensorType narrowed(NamedTensorType type, DimAttr all) const;
  Value merged(OpBuilder &builder, Value value);
  Value split(OpBuilder &builder, Value value, NamedTensorType type);

  func::FuncOp function;
  Block &block;
  int64_t most, bytes;
  ContractOp logits;
  SmallVector<DimAttr> rows, columns; ///< of the logits: run-time lengths, and the vocabulary
  DimAttr whole, part;                ///< all rows as one dimension, and those of an iteration
  llvm::SetVector<Operation *> region;
};
} // namespace

/// The same value as the forward direction has it, if `value` was recomputed for the gradient.
static Value forwardOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !op->hasAttr(againAttr) || op->getNumOperands() == 0)
    return value;
  SmallVector<Value> operands =
      llvm::map_to_vector(op->getOperands(), [](Value operand) { return forwardOf(operand); });
  auto attributes = [](Operation *one) {
    NamedAttrList list(one->getAttrDictionary());
    list.erase(againAttr);
    return list.getDictionary(one->getContext());
  };
  for (Operation *other : operands[0].getUsers())
    if (other->getName() == op->getName() && !other->hasAttr(againAttr) && other->getBlock() == op->getBlock() &&
        llvm::equal(other->getOperands(), operands) && other->getResultTypes() == op->getResultTypes() &&
        attributes(other) == attributes(op))
      return other->getResult(0);
  return value;
}

/// Whether a largest value or a softmax along the vocabulary is taken of what follows element by element.
static bool flowsIntoSoftmax(ContractOp contract, function_ref<bool(StringRef)> isRow) {
  llvm::SetVector<Value> work;
  work.insert(contract.getResult());
  for (size_t i = 0; i < work.size() && i < 64; ++i)
    for (Operation *user : work[i].getUsers()) {
      auto reduce = dyn_cast<ReduceOp>(user);
      bool rowwise =
          (reduce && reduce.getReduction() == Reduction::max && llvm::none_of(names(reduce.getDims()), isRow)) ||
          isa<SoftmaxOp>(user);
      if (rowwise)
        return true;
      if (user->getBlock() == contract->getBlock() && (isElementwise(user) || isViewLike(user)))
        work.insert(user->getResult(0));
    }
  return false;
}

bool Chunking::findLogits() {
  int64_t widest = 0;
  for (auto contract : block.getOps<ContractOp>()) {
    SmallVector<DimAttr> lengths, rest;
    int64_t count = 1;
    for (DimAttr dim : typeOf(contract.getResult()).getDims()) {
      (dim.getStatic() ? rest : lengths).push_back(dim);
      count *= dim.getStatic().value_or(1);
    }
    Size all(1);
    bool plain = !lengths.empty() && !rest.empty();
    for (DimAttr dim : lengths) {
      plain &= dim.getSize().asSymbol().has_value();
      all = all * dim.getSize();
    }
    auto isLength = [&](StringRef name) {
      return llvm::any_of(lengths, [&](DimAttr dim) { return dim.getName() == name; });
    };
    bool weight = llvm::any_of(contract->getOperands(), [&](Value operand) {
      return llvm::none_of(typeOf(operand).getDims(), [&](DimAttr dim) { return isLength(dim.getName()); });
    });
    if (!plain || !weight || count <= widest || !chunkLength(1, all) || !flowsIntoSoftmax(contract, isLength))
      continue;
    logits = contract;
    rows = lengths;
    columns = rest;
    widest = count;
  }
  if (!logits)
    return false;
  if (!most)
    most = std::max(rowStep, bytes / quern::support::bytesOf(typeOf(logits.getResult()).getStorage(), widest) /
                                 rowStep * rowStep);
  Size all(1);
  std::string name = "rows";
  for (DimAttr dim : rows)
    all = all * dim.getSize();
  bool taken = true;
  for (int i = 1; taken; ++i) {
    taken = false;
    for (Operation &op : block)
      for (Value result : op.getResults())
        taken |= typeOf(result).has(name);
    if (taken)
      name = "rows." + std::to_string(i);
  }
  whole = DimAttr::get(function.getContext(), name, all);
  part = DimAttr::get(function.getContext(), name, *chunkLength(most, all));
  return true;
}

bool Chunking::isSum(Operation *op) const {
  ArrayAttr dims;
  if (auto contract = dyn_cast<ContractOp>(op))
    dims = contract.getDims();
  else if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.getReduction() == Reduction::sum)
    dims = reduce.getDims();
  return dims &&
         llvm::count_if(names(dims), [&](StringRef name) { return isRow(name); }) == static_cast<int64_t>(rows.size());
}

/// Treats every row by itself, or is a sum over all of them that nothing of the region needs.
bool Chunking::isRowByRow(Operation *op) {
  if (isSum(op))
    return typeOf(op->getResult(0)).isReal() &&
           llvm::none_of(op->getResult(0).getUsers(), [&](Operation *user) { return region.contains(user); });
  if (op->getNumRegions() || op->getNumResults() != 1 || rowsOf(typeOf(op->getResult(0))) != rows.size())
    return false;
  if (isElementwise(op) || isa<ExpandOp, PermuteOp>(op))
    return true;
  if (!isa<ContractOp, ReduceOp, SoftmaxOp, GatherOp, RenameOp, UnitOp, SqueezeOp, CutOp, SplitOp, MergeOp>(op))
    return false;
  for (NamedAttribute attr : op->getAttrs()) {
    bool row = false;
    attr.getValue().walk([&](LabelAttr label) { row |= isRow(label.getName()); });
    if (row)
      return false;
  }
  return true;
}

bool Chunking::findRegion() {
  auto touches = [](Operation &op, function_ref<bool(Value)> test) {
    bool found = false;
    op.walk([&](Operation *inner) { found |= llvm::any_of(inner->getOperands(), test); });
    return found;
  };
  llvm::DenseSet<Operation *> seen, after, before;
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(), [&](Value value) { return isWide(value); }) ||
        llvm::any_of(op.getResults(), [&](Value value) { return isWide(value); }))
      seen.insert(&op);
  for (Operation &op : block)
    if (seen.contains(&op) || touches(op, [&](Value value) { return after.contains(value.getDefiningOp()); }))
      after.insert(&op);
  for (Operation &op : llvm::reverse(block)) {
    bool needed = seen.contains(&op);
    for (Operation *user : op.getUsers()) {
      while (user->getBlock() != &block)
        user = user->getParentOp();
      needed |= before.contains(user);
    }
    if (needed)
      before.insert(&op);
  }
  for (Operation &op : block)
    if (seen.contains(&op) || (after.contains(&op) && before.contains(&op)))
      region.insert(&op);
  for (Operation *op : region) {
    if (!isRowByRow(op))
      return false;
    for (Value result : op->getResults())
      if (isWide(result) && llvm::any_of(result.getUsers(), [&](Operation *user) { return !region.contains(user); }))
        return false;
  }
  return !region.empty();
}

NamedTensorType Chunking::narrowed(NamedTensorType type, DimAttr all) const {
  SmallVector<DimAttr> dims;
  for (DimAttr dim : type.getDims())
    if (!isRow(dim.getName()))
      dims.push_back(dim);
    else if (!llvm::is_contained(dims, all))
      dims.push_back(all);
  return type.withDims(dims);
}

/// All rows as the first dimension.
Value Chunking::merged(OpBuilder &builder, Value value) {
  Location loc = value.getLoc();
  NamedTensorType type = typeOf(value);
  SmallVector<DimAttr> order(rows);
  SmallVector<StringRef> labels;
  for (DimAttr dim : rows)
    labels.push_back(dim.getName());
  for (DimAttr dim : type.getDims())
    if (!isRow(dim.getName()))
      order.push_back(dim);
  if (rowsOf(type) != rows.size())
    value = ExpandOp::create(builder, loc, type.withDims(order), value);
  else if (type.getDims() != ArrayRef<DimAttr>(order))
    value = PermuteOp::create(builder, loc, type.withDims(order), value);
  if (rows.size() > 1)
    return MergeOp::create(builder, loc, value, labelArray(builder, labels), whole);
  return RenameOp::create(builder, loc, value, labelArray(builder, labels), builder.getArrayAttr({whole}));
}

Value Chunking::split(OpBuilder &builder, Value value, NamedTensorType type) {
  Location loc = value.getLoc();
  SmallVector<Attribute> dims(rows.begin(), rows.end());
  if (rows.size() > 1)
    value = SplitOp::create(builder, loc, value, whole.getName(), builder.getArrayAttr(dims));
  else
    value = RenameOp::create(builder, loc, value, labelArray(builder, {whole.getName()}), builder.getArrayAttr(dims));
  return value.getType() == type ? value : PermuteOp::create(builder, loc, type, value).getResult();
}

void Chunking::build() {
  MLIRContext *context = function.getContext();
  Location loc = logits.getLoc();
  OpBuilder builder(region.back()->getNextNode());
  auto inside = [&](Value value) { return value.getDefiningOp() && region.contains(value.getDefiningOp()); };
  llvm::SetVector<Value> read;
  for (Operation *op : region)
    for (OpOperand &operand : op->getOpOperands())
      if (!inside(operand.get())) {
        operand.set(forwardOf(operand.get()));
        if (rowsOf(typeOf(operand.get())))
          read.insert(operand.get());
      }
  SmallVector<Value> inits, stacks, ends;
  SmallVector<Operation *> sums;
  SmallVector<Type> types, given;
  for (Operation *op : region) {
    Value result = op->getResult(0);
    if (isSum(op)) {
      sums.push_back(op);
      inits.push_back(GradientBuilder(builder, loc).zeros(typeOf(result)));
      types.push_back(result.getType());
    } else if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !region.contains(user); })) {
      ends.push_back(result);
      NamedTensorType type = narrowed(typeOf(result), whole);
      SmallVector<DimAttr> dims = {whole};
      llvm::copy_if(type.getDims(), std::back_inserter(dims), [&](DimAttr dim) { return dim != whole; });
      given.push_back(type.withDims(dims));
    }
  }
  for (Value value : read)
    stacks.push_back(merged(builder, value));
  llvm::append_range(types, given);
  auto loop = RepeatOp::create(builder, loc, types, inits, stacks, /*iterations=*/1, /*reversed=*/false,
                               builder.getI64IntegerAttr(most));
  Block &body = loop.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value init : inits)
    body.addArgument(init.getType(), loc);
  for (auto [value, stack] : llvm::zip(read, stacks))
    mapping.map(value, body.addArgument(partOfStack(loop, typeOf(stack)), loc));
  OpBuilder in(context);
  in.setInsertionPointToEnd(&body);
  for (Operation *op : region) {
    if (isSum(op)) { // over one dimension now
      SmallVector<StringRef> dims = {part.getName()};
      for (StringRef name : names(op->getAttrOfType<ArrayAttr>("dims")))
        if (!isRow(name))
          dims.push_back(name);
      op->setAttr("dims", labelArray(in, dims));
    }
    Operation *copy = in.clone(*op, mapping);
    copy->getResult(0).setType(
        narrowed(typeOf(op->getResult(0)), part)); // in the order that it was: rows before columns
  }
  SmallVector<Value> yielded;
  for (auto [i, sum] : llvm::enumerate(sums))
    yielded.push_back(AddOp::create(in, loc, body.getArgument(i), mapping.lookup(sum->getResult(0))).getResult());
  for (Value end : ends)
    yielded.push_back(mapping.lookup(end));
  YieldOp::create(in, loc, yielded);

  SmallVector<Value> replacements(loop.getResults());
  for (auto [i, end] : llvm::enumerate(ends))
    replacements[sums.size() + i] = split(builder, loop.getResult(sums.size() + i), typeOf(end));
  Operation *last = builder.getInsertionPoint()->getPrevNode();
  for (auto [i, sum] : llvm::enumerate(sums))
    sum->getResult(0).replaceAllUsesWith(replacements[i]);
  for (auto [i, end] : llvm::enumerate(ends))
    end.replaceUsesWithIf(replacements[sums.size() + i],
                          [&](OpOperand &use) { return !region.contains(use.getOwner()); });
  for (Operation *op : llvm::reverse(region))
    op->erase();
  moveUsersBehind(loop, last);
}

/// What stood between the region's operations and needs the loop's results comes behind `last`, in its order.
void Chunking::moveUsersBehind(Operation *loop, Operation *last) {
  llvm::DenseSet<Operation *> late;
  for (Operation *op = loop; op != last->getNextNode(); op = op->getNextNode())
    late.insert(op);
  SmallVector<Operation *> moved;
  for (Operation &op : block) {
    if (&op == loop)
      break;
    bool needs = false;
    op.walk([&](Operation *inner) {
      needs |= llvm::any_of(inner->getOperands(), [&](Value value) { return late.contains(value.getDefiningOp()); });
    });
    if (needs) {
      late.insert(&op);
      moved.push_back(&op);
    }
  }
  for (Operation *op : moved) {
    op->moveAfter(last);
    last = op;
  }
}

void Chunking::run() {
  if (!findLogits() || !findRegion())
    return;
  build();
  // What was recomputed for the region alone is no longer needed.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.hasAttr(againAttr) && op.use_empty())
      op.erase();
}

namespace {
class ChunkLossPass : public PassWrapper<ChunkLossPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ChunkLossPass)
  explicit ChunkLossPass(int64_t bytes) : bytes(bytes) {}
  StringRef getArgument() const final { return "chunk-loss"; }
  StringRef getDescription() const final { return "Compute logits and their gradient some rows at a time"; }

  void runOnOperation() final {
    ModuleOp module = getOperation();
    ProgramOptions options = optionsOf(module);
    if (!options.train)
      return;
    for (auto function : module.getOps<func::FuncOp>())
      if (function.getSymName() == "loss" || roleOf(function) == Role::Gradient)
        Chunking(function, options.chunkRows, bytes).run();
  }

private:
  int64_t bytes;
};
} // namespace

std::unique_ptr<Pass> quern::passes::createChunkLossPass(int64_t bytes) {
  return std::make_unique<ChunkLossPass>(bytes);
}
