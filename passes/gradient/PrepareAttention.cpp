// Takes: a function about to be differentiated, and what in it learns. Gives: each attention that the gradient flows
// through fit for its rule (DifferentiateAttention.cpp): it gives the two numbers of each row's softmax, and whatever
// learns with queries and keys is made in its body. Or plain operations in its place where that cannot be, with a remark.
//
//   before: %b = mul %slope, %gap  [H, T, S]                  after: %o, %shift, %share = attention %q with %k ..
//           %o = attention %q with %k .. reading %b {                    reading %slope, %gap {
//           ^bb0(%x, %y):                                            ^bb0(%x, %s, %g):
//             %z = add %x, %y                                          %y = mul %s, %g
//                                                                      %z = add %x, %y
//
// Why: the gradient of %b would be as many numbers as the scores, that of %slope is a sum of a kernel.
#include "ir/analysis/Distances.h"
#include "ir/analysis/Operations.h"
#include "passes/gradient/Gradients.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

std::optional<DimAttr> quern::passes::queryDim(AttentionOp op) {
  std::optional<DimAttr> query;
  for (DimAttr dim : typeOf(op.getScore()).getDims()) {
    StringRef name = dim.getName();
    bool queries = llvm::all_of(op.getQueries(), [&](Value x) { return typeOf(x).has(name); });
    bool keys = llvm::any_of(op.getKeys(), [&](Value x) { return typeOf(x).has(name); });
    if (name == op.getDim() || !queries || keys || typeOf(op.getValues()).has(name))
      continue;
    if (!query || !dim.getStatic())
      query = dim;
  }
  return query;
}

namespace {

class Preparing {
public:
  Preparing(AttentionOp op, const DenseSet<Value> &active) : op(op), active(active) {}
  /// Why the gradient has no kernels; empty if it has.
  std::string run();

private:
  bool hasBoth(Value value) { return typeOf(value).has(op.getDim()) && typeOf(value).has(query.getName()); }
  /// Whether it is looked up by how far a key is from a query.
  bool isOfPairs(const DistanceLookup &lookup) {
    StringRef plus = lookup.plus.getName(), minus = lookup.minus.getName();
    return (plus == op.getDim() && lookup.minus == query) || (minus == op.getDim() && lookup.plus == query);
  }
  /// The first input that learns with queries and keys, and not by their distance.
  std::optional<unsigned> inputToMake();
  void makeInside(unsigned input);

  AttentionOp op;
  const DenseSet<Value> &active;
  DimAttr query;
};

} // namespace

std::optional<unsigned> Preparing::inputToMake() {
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    if (!active.contains(input) || !hasBoth(input))
      continue;
    if (std::optional<DistanceLookup> lookup = distanceLookup(input); !lookup || !isOfPairs(*lookup))
      return i;
  }
  return std::nullopt;
}

/// The operation that makes an input moves into the body.
void Preparing::makeInside(unsigned input) {
  Operation *made = op.getInputs()[input].getDefiningOp();
  OpBuilder inside = OpBuilder::atBlockBegin(&op.getBlock());
  IRMapping mapping;
  for (Value operand : made->getOperands()) {
    if (mapping.contains(operand))
      continue;
    if (auto number = operand.getDefiningOp<ConstOp>()) {
      mapping.map(operand, inside.clone(*number)->getResult(0));
      continue;
    }
    unsigned at = llvm::find(op.getInputs(), operand) - op.getInputs().begin();
    if (at == op.getInputs().size()) {
      op.getInputsMutable().append(operand);
      op.getBlock().addArgument(operand.getType(), operand.getLoc());
    }
    mapping.map(operand, op.getInputArgument(at));
  }
  Value value = inside.clone(*made, mapping)->getResult(0);
  op.getInputArgument(input).replaceAllUsesWith(value);
  op.getBlock().eraseArgument(op.getInputArgument(input).getArgNumber());
  op.getInputsMutable().erase(input);
}

std::string Preparing::run() {
  std::optional<DimAttr> found = queryDim(op);
  if (!found)
    return "no dimension belongs to the queries alone";
  query = *found;
  while (std::optional<unsigned> input = inputToMake()) {
    Operation *made = op.getInputs()[*input].getDefiningOp();
    if (!made || made->getBlock() != op->getBlock())
      return "something learned with queries and keys is made outside of the loop, and not from their distance alone";
    if (!isElementwise(made))
      return "'" + made->getName().stripDialect().str() +
             "' makes something learned with queries and keys, not from their distance alone";
    makeInside(*input);
  }
  for (unsigned i = 0; i < op.getQueries().size(); ++i)
    if (op.getDepth(i).size() != 1 && (active.contains(op.getQueries()[i]) || active.contains(op.getKeys()[i])))
      return "a product of queries and keys sums over several dimensions";
  return "";
}

AttentionOp quern::passes::setStatistics(AttentionOp op, bool wanted) {
  if (op.hasStatistics() == wanted)
    return op;
  SmallVector<Type> types = {op.getAttended().getType()};
  if (wanted)
    types.append(2, AttentionOp::statisticType(typeOf(op.getScore()), op.getDim()));
  OpBuilder builder(op);
  auto other = AttentionOp::create(builder, op.getLoc(), types, op.getQueries(), op.getKeys(), op.getValues(),
                                   op.getInputs(), op.getSinks(), op.getDim(), op.getPartsAttr());
  other->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  other.getBody().takeBody(op.getBody());
  op.getAttended().replaceAllUsesWith(other.getAttended());
  op.erase();
  return other;
}

void quern::passes::prepareAttentions(func::FuncOp function, const DenseSet<Value> &active) {
  SmallVector<AttentionOp> found;
  function.walk([&](AttentionOp op) {
    if (active.contains(op.getAttended()))
      found.push_back(op);
  });
  SmallVector<std::string> reasons; // all before anything new is made, of which `active` knows nothing
  for (AttentionOp op : found)
    reasons.push_back(Preparing(op, active).run());
  for (auto [op, reason] : llvm::zip(found, reasons)) {
    if (reason.empty()) {
      setStatistics(op, true);
      continue;
    }
    remark::missed(op.getLoc(), remark::RemarkOpts::name("attention-gradient").category("training"))
        << "its gradient stores all scores: " << reason;
    writeOut(op);
  }
}
