// Takes: the loss of a module to be trained, before it is differentiated, in which something learned depends on where a
// key and a query stand by their distance alone: T5's buckets, a slope times the distance, any function of index(S) -
// index(T). Gives: the same, computed once for each distance and looked up where it is added. Why: for all keys and
// queries it is S x T numbers a head, and its gradient as many. By distance it is S + T, computed once for all layers;
// the looked-up numbers are part of the attention's kernels, and the gradient is a sum along diagonals
// (DifferentiateAttention.cpp).
//
//   %d = sub (index S), (index T)     : [S, T]               %d = max (sub (index N), T), 1 - T                : [N = S + T]
//   %b = gather %w["U" = bucket(%d)]  : [S, T, H]      =>    %b = gather %w["U" = bucket(%d)]                  : [N, H]
//   repeat .. { .. add %score, %b }                          repeat .. {
//                                                              %at = add (sub (index S), (index T)), T
//                                                              .. add %score, (gather %b["N" = %at]) }
//
// Position 0 of N belongs to no pair (it lets N be as long as S + T, which no length makes negative) and repeats
// position 1.
#include "ir/analysis/Operations.h"
#include "ir/analysis/Options.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// Two dimensions, of which a value knows no more than how far their positions are apart.
struct Pair {
  DimAttr first, second;
  bool operator==(const Pair &other) const { return first == other.first && second == other.second; }
};

class Tabulating {
public:
  explicit Tabulating(func::FuncOp function) : function(function) {}

  void run() {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      bool fromLearned =
          llvm::any_of(op->getOperands(), [&](Value x) { return learned.contains(x) || !x.getDefiningOp(); });
      for (Value result : op->getResults())
        if (isa<ParamOp>(op) || fromLearned)
          learned.insert(result);
      if (std::optional<Pair> pair = pairOf(op))
        relative.insert({op->getResult(0), *pair});
    });
    for (auto &[value, pair] : llvm::SmallVector<std::pair<Value, Pair>>(relative.begin(), relative.end()))
      if (typeOf(value).isReal() && learned.contains(value))
        lookUp(value, pair);
    if (!tables.empty())
      eraseDead(function);
  }

private:
  static std::optional<Pair> difference(Operation *op) {
    auto sub = dyn_cast<SubOp>(op);
    auto a = sub ? sub.getA().getDefiningOp<IndexOp>() : IndexOp(),
         b = sub ? sub.getB().getDefiningOp<IndexOp>() : IndexOp();
    if (!a || !b || a.getDim().getName() == b.getDim().getName())
      return std::nullopt;
    return a.getDim().getName() < b.getDim().getName() ? Pair{a.getDim(), b.getDim()} : Pair{b.getDim(), a.getDim()};
  }

  /// If the operation's result follows from a distance and from what has neither of its dimensions.
  std::optional<Pair> pairOf(Operation *op) const {
    if (std::optional<Pair> pair = difference(op))
      return pair;
    if (op->getNumResults() != 1 || !isPointwise(op) || !isa<InferTypeOpInterface>(op))
      return std::nullopt;
    std::optional<Pair> found;
    for (Value operand : op->getOperands())
      if (auto known = relative.find(operand); known != relative.end()) {
        if (found && !(*found == known->second))
          return std::nullopt;
        found = known->second;
      }
    if (!found)
      return std::nullopt;
    for (DimAttr dim : {found->first, found->second}) {
      bool open =
          llvm::any_of(op->getOperands(), [&](Value x) { return !relative.count(x) && typeOf(x).has(dim.getName()); });
      if (open || touches(op, dim.getName()))
        return std::nullopt;
    }
    return found;
  }

  /// The value for each distance, made where it was made.
  Value tabulated(Value value, const Pair &pair, DimAttr distances) {
    if (Value made = tables.lookup(value))
      return made;
    Operation *op = value.getDefiningOp();
    OpBuilder b(op);
    b.setInsertionPointAfter(op);
    Location loc = op->getLoc();
    if (difference(op)) {
      Value size = SizeOp::create(b, loc, pair.second.getSize()),
            least = SizeOp::create(b, loc, Size(1) - pair.second.getSize());
      Value index = IndexOp::create(b, loc, distances), apart = SubOp::create(b, loc, index, size)->getResult(0);
      apart = MaxOp::create(b, loc, apart, least)->getResult(0);
      bool backwards = op->getOperand(0).getDefiningOp<IndexOp>().getDim() == pair.second;
      return tables[value] = backwards ? NegOp::create(b, loc, apart)->getResult(0) : apart;
    }
    SmallVector<Value> operands;
    for (Value x : op->getOperands())
      operands.push_back(relative.count(x) ? tabulated(x, pair, distances) : x);
    return tables[value] = cloneOn(b, op, operands)->getResult(0);
  }

  /// Where `value` meets something that knows more than the distance: its table is looked up there, in each block anew.
  void lookUp(Value value, const Pair &pair) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : value.getUses())
      if (isElementwise(use.getOwner()) && !relative.count(use.getOwner()->getResult(0)))
        uses.push_back(&use);
    if (uses.empty())
      return;
    std::string name = ("distance." + pair.first.getName() + "." + pair.second.getName()).str();
    DimAttr distances = DimAttr::get(function.getContext(), name, pair.first.getSize() + pair.second.getSize());
    Value table = tabulated(value, pair, distances);
    DenseMap<Block *, Value> there;
    for (OpOperand *use : uses) {
      Block *block = use->getOwner()->getBlock();
      Value &found = there[block];
      if (!found) {
        bool here = block == value.getParentBlock();
        OpBuilder b(function.getContext());
        here ? b.setInsertionPointAfter(table.getDefiningOp()) : b.setInsertionPointToStart(block);
        Location loc = value.getLoc();
        Value first = IndexOp::create(b, loc, pair.first), second = IndexOp::create(b, loc, pair.second);
        Value apart = SubOp::create(b, loc, first, second)->getResult(0),
              size = SizeOp::create(b, loc, pair.second.getSize());
        auto gather = GatherOp::create(b, loc, table, AddOp::create(b, loc, apart, size)->getResult(0), name);
        gather.getResult().setType(typeOf(value)); // the order of dimensions that users expect
        found = gather.getResult();
      }
      use->set(found);
    }
  }

  func::FuncOp function;
  llvm::MapVector<Value, Pair> relative;
  DenseSet<Value> learned; ///< made from parameters, or from what a loop carries
  DenseMap<Value, Value> tables;
};

struct TabulateDistancesPass : PassWrapper<TabulateDistancesPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TabulateDistancesPass)
  StringRef getArgument() const override { return "tabulate-distances"; }
  StringRef getDescription() const override {
    return "make what is learned for each distance of a key from a query a table";
  }
  void runOnOperation() override {
    if (auto loss = getOperation().lookupSymbol<func::FuncOp>("loss"); loss && optionsOf(getOperation()).train)
      Tabulating(loss).run();
  }
};

} // namespace

std::unique_ptr<Pass> quern::passes::createTabulateDistancesPass() {
  return std::make_unique<TabulateDistancesPass>();
}
