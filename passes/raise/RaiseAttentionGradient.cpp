// Takes: functions with an attention's gradient derived by its own rule (gradient/DifferentiateAttention.cpp), whose
// operations with queries and keys are marked. Gives: a `quern.attention_gradient` for the sums that one kernel makes.
// Why one a kernel: what has queries and keys is made in each and stored by none.
//
//   before: %x = contract %q, %k over ["K"] ...            after: %dq = attention_gradient %q, %g with %k, %v over "S" of %k
//           %dq = contract %ds, %k over ["S"]                     %dv, %dk = attention_gradient %k, %v with %q, %g
//           %dv = contract %p, %g over ["T"]                                   over "T" of %g, %q
//           %dk = contract %ds, %q over ["T"]                     %db = attention_gradient ... along ["S", "T"]
//           %db = scatter_add %ds at index(S) - index(T) + T
//
// What does not end so (a number of its own for each query and key that learns) is stored as ever, with a remark.
#include "ir/Attributes.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Operations.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/raise/ScoreBody.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// All values of a block that hang together with some marked products, and what they end in.
struct Matrices {
  DenseSet<Value> values;
  SmallVector<ContractOp, 4> sums;
  SmallVector<ScatterAddOp, 1> scatters; ///< along diagonals
  Operation *first = nullptr, *escape = nullptr;
};

/// What becomes one operation.
struct Kernel {
  SmallVector<Operation *> ends; ///< sums over `over`, or one scatter
  DimAttr over;
  SmallVector<Value> weights, values; ///< of each end
  std::optional<std::pair<StringRef, StringRef>> distance;
  Size offset;
  ScoreBody body;
};

} // namespace

static bool staysInside(Operation *op) {
  return isElementwise(op) || isa<ConcatOp, CutOp, RenameOp, PermuteOp, ExpandOp>(op);
}

static std::vector<Matrices> collectMatrices(Block &block) {
  DenseMap<Value, unsigned> of;
  llvm::EquivalenceClasses<unsigned> joined;
  unsigned count = 0;
  SmallVector<std::pair<Operation *, unsigned>> ends;
  for (Operation &op : block) {
    if (isa<ContractOp>(op) && op.hasAttr(insideAttr)) {
      joined.insert(count);
      of[op.getResult(0)] = count++;
      continue;
    }
    std::optional<unsigned> own;
    auto note = [&](Value value) {
      auto found = of.find(value);
      if (found == of.end())
        return;
      if (own)
        joined.unionSets(*own, found->second);
      own = found->second;
    };
    op.walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), note); });
    if (own && staysInside(&op))
      of[op.getResult(0)] = *own;
    else if (own)
      ends.push_back({&op, *own});
  }
  llvm::MapVector<unsigned, Matrices> groups;
  for (Operation &op : block)
    if (op.getNumResults())
      if (auto found = of.find(op.getResult(0)); found != of.end()) {
        Matrices &group = groups[joined.getLeaderValue(found->second)];
        group.values.insert(op.getResult(0));
        group.first = group.first ? group.first : &op;
      }
  for (auto [op, index] : ends) {
    Matrices &group = groups[joined.getLeaderValue(index)];
    if (auto sum = dyn_cast<ContractOp>(op))
      group.sums.push_back(sum);
    else if (auto scatter = dyn_cast<ScatterAddOp>(op); scatter && op->hasAttr(insideAttr))
      group.scatters.push_back(scatter);
    else
      group.escape = op;
  }
  std::vector<Matrices> found;
  for (auto &[leader, group] : groups)
    found.push_back(std::move(group));
  return found;
}

/// offset + index(a) - index(b), as TabulateDistances.cpp writes it.
static bool readDistance(Value positions, Kernel &kernel) {
  auto sum = positions.getDefiningOp<AddOp>();
  auto apart = sum ? sum.getA().getDefiningOp<SubOp>() : SubOp();
  auto offset = sum ? sum.getB().getDefiningOp<SizeOp>() : SizeOp();
  auto plus = apart ? apart.getA().getDefiningOp<IndexOp>() : IndexOp(),
       minus = apart ? apart.getB().getDefiningOp<IndexOp>() : IndexOp();
  if (!offset || !plus || !minus)
    return false;
  kernel.distance = {plus.getDim().getName(), minus.getDim().getName()};
  kernel.offset = offset.getPolynomial();
  return true;
}

/// Adds a sum over one dimension of a weight from inside and a value, which has one dimension of its own.
static std::string addSum(Kernel &kernel, ContractOp sum, const DenseSet<Value> &inside) {
  bool first = inside.contains(sum.getA());
  if (first && inside.contains(sum.getB()))
    return "one of its sums is of two values with queries and keys";
  Value weights = first ? sum.getA() : sum.getB(), value = first ? sum.getB() : sum.getA();
  if (sum.getDims().size() != 1)
    return "one of its sums is over several dimensions";
  StringRef over = names(sum.getDims())[0];
  unsigned columns = 0;
  bool fixed = typeOf(value).has(over) && typeOf(weights).has(over);
  for (DimAttr dim : typeOf(value).getDims())
    if (!typeOf(weights).has(dim.getName()))
      ++columns, fixed &= dim.getStatic().has_value();
  if (!fixed || columns != 1)
    return "one of its sums is of a value that has not one dimension of its own, of fixed size";
  kernel.over = typeOf(weights).dim(over);
  kernel.ends.push_back(sum);
  kernel.weights.push_back(weights);
  kernel.values.push_back(value);
  return "";
}

/// The products and what is made of them; why the kernel cannot be made from these alone.
static std::string findBody(Kernel &kernel, const DenseSet<Value> &inside) {
  StringRef over = kernel.over.getName();
  kernel.body = collectBody(kernel.weights, kernel.ends[0]->getBlock(),
                            [&](ContractOp product) { return inside.contains(product.getResult()); });
  for (Value weights : kernel.weights)
    if (!kernel.body.contains(weights) || !typeOf(weights).sameSet(typeOf(kernel.weights[0])))
      return "its sums are of weights with different dimensions";
  for (Value input : kernel.body.inputs())
    if (inside.contains(input))
      return "'" + input.getDefiningOp()->getName().stripDialect().str() +
             "' of queries and keys is not element by element";
  bool own = false; // a dimension of the rows alone
  for (DimAttr dim : typeOf(kernel.weights[0]).getDims())
    own |= dim != kernel.over && llvm::none_of(kernel.values, [&](Value x) { return typeOf(x).has(dim.getName()); }) &&
           llvm::all_of(kernel.body.products, [&](ContractOp product) {
             return typeOf(product.getA()).has(over) != typeOf(product.getB()).has(over) &&
                    !typeOf(typeOf(product.getA()).has(over) ? product.getA() : product.getB()).has(dim.getName());
           });
  if (!own)
    return "no dimension belongs to the rows alone";
  for (ContractOp product : kernel.body.products)
    for (StringRef dim : names(product.getDims()))
      if (!typeOf(product.getA()).has(dim) || !typeOf(product.getB()).has(dim) ||
          !typeOf(product.getA()).dim(dim).getStatic())
        return "a product is over a length that only the run knows";
  return "";
}

/// The kernels of a group, or why there are none.
static std::string split(const Matrices &group, std::vector<Kernel> &kernels) {
  if (group.escape)
    return "'" + group.escape->getName().stripDialect().str() + "' reads values with queries and keys";
  llvm::MapVector<StringRef, Kernel> over;
  for (ContractOp sum : group.sums) {
    std::string reason = addSum(over[names(sum.getDims())[0]], sum, group.values);
    if (!reason.empty())
      return reason;
  }
  for (auto &[name, kernel] : over)
    kernels.push_back(std::move(kernel));
  for (ScatterAddOp scatter : group.scatters) {
    Kernel kernel;
    SmallVector<StringRef> dims = names(scatter.getDims());
    if (dims.size() != 2 || !typeOf(scatter.getX()).has(dims[0]) || !readDistance(scatter.getPositions(), kernel))
      return "what is learned by distance is summed otherwise than along diagonals";
    kernel.over = typeOf(scatter.getX()).dim(dims[1]);
    kernel.ends.push_back(scatter);
    kernel.weights.push_back(scatter.getX());
    kernels.push_back(std::move(kernel));
  }
  for (Kernel &kernel : kernels)
    if (std::string reason = findBody(kernel, group.values); !reason.empty())
      return reason;
  return "";
}

static void replace(const Kernel &kernel) {
  Operation *place = kernel.ends[0];
  OpBuilder builder(place);
  SmallVector<Value> rows, others, inputs = kernel.body.inputs();
  for (ContractOp product : kernel.body.products) {
    bool first = typeOf(product.getA()).has(kernel.over.getName());
    others.push_back(first ? product.getA() : product.getB());
    rows.push_back(first ? product.getB() : product.getA());
  }
  for (ArrayRef<Value> read :
       {ArrayRef<Value>(rows), ArrayRef<Value>(others), ArrayRef<Value>(kernel.values), ArrayRef<Value>(inputs)})
    for (Value value : read)
      moveBefore(value, place);
  SmallVector<Type> types;
  SmallVector<Location> ends, replaced;
  for (Operation *end : kernel.ends) {
    types.push_back(end->getResult(0).getType());
    ends.push_back(end->getLoc());
  }
  for (ContractOp product : kernel.body.products)
    replaced.push_back(product.getLoc());
  for (Operation *op : kernel.body.operations)
    replaced.push_back(op->getLoc());
  ArrayAttr distance;
  StringAttr offset;
  DimAttr into;
  if (kernel.distance) {
    distance = labelArray(builder, {kernel.distance->first, kernel.distance->second});
    offset = builder.getStringAttr(kernel.offset.str());
    into = cast<ScatterAddOp>(place).getInto();
  }
  auto gradient = AttentionGradientOp::create(builder, builder.getFusedLoc(ends), types, rows, others, kernel.values,
                                              inputs, kernel.over.getName(), distance, offset, into);
  kernel.body.copyInto(gradient.getBody(), inputs, kernel.weights, builder.getFusedLoc(replaced));
  for (auto [end, result] : llvm::zip(kernel.ends, gradient.getResults()))
    end->getResult(0).replaceAllUsesWith(result);
}

namespace {

class RaiseAttentionGradientPass : public PassWrapper<RaiseAttentionGradientPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RaiseAttentionGradientPass)
  StringRef getArgument() const final { return "raise-attention-gradient"; }
  StringRef getDescription() const final { return "Recognise the kernels of attention's gradient"; }
  void runOnOperation() final {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<Block *> blocks = {&function.getBody().front()};
      function.walk([&](RepeatOp repeat) { blocks.push_back(&repeat.getBlock()); });
      for (Block *block : blocks)
        run(*block);
    }
  }

private:
  static void run(Block &block) {
    bool changed = false;
    for (const Matrices &group : collectMatrices(block)) {
      std::vector<Kernel> kernels;
      std::string reason = split(group, kernels);
      if (!reason.empty())
        remark::missed(group.first->getLoc(), remark::RemarkOpts::name("attention-gradient").category("fusion"))
            << "its gradient stores values with queries and keys: " << reason;
      if (!reason.empty())
        continue;
      llvm::for_each(kernels, replace);
      changed = true;
    }
    if (changed)
      eraseDead(block);
  }
};

} // namespace

std::unique_ptr<Pass> quern::passes::createRaiseAttentionGradientPass() {
  return std::make_unique<RaiseAttentionGradientPass>();
}
