// Takes: a `quern.attention`. Gives: its products, score, softmax and weighted sum as plain operations.
// Why: what no kernel can make the gradient of is differentiated by the rules of the plain operations.
//
//   before: %o = attention %q with %k over "S" of %v sinks %z ["N"] {   after: %x = contract %q, %k
//           ^bb0(%x):                                                          %y = tanh %x
//             %y = tanh %x                                                     %a = concat %y, %z ["S", "N"] into S.all
//             yield %y                                                         %w = softmax %a over ["S.all"]
//           }                                                                  %p = cut %w "S.all" at "0" into S
//                                                                              %o = contract %p, %v over ["S"]
#include "passes/gradient/Gradients.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

/// The weights of scores and sinks together, of which the scores' are wanted.
static Value weightsBesideSinks(GradientBuilder &make, AttentionOp op, Value score) {
  DimAttr key = typeOf(op.getScore()).dim(op.getDim());
  SmallVector<Value> parts = {score};
  SmallVector<StringRef> labels = {key.getName()};
  Size count = key.getSize();
  for (auto [sink, part] : llvm::zip(op.getSinks(), op.getPartNames())) {
    parts.push_back(sink);
    labels.push_back(part);
    count = count + typeOf(sink).dim(part).getSize();
  }
  DimAttr all = DimAttr::get(op.getContext(), (key.getName() + ".all").str(), count);
  Value joined = make.make<ConcatOp>(parts, labelArray(make.b, labels), all);
  Value weights = make.make<SoftmaxOp>(joined, labelArray(make.b, all.getName()));
  return make.make<CutOp>(weights, all.getName(), "0", key);
}

void quern::passes::writeOut(AttentionOp op) {
  GradientBuilder make(OpBuilder(op), op.getLoc());
  IRMapping mapping;
  for (unsigned i = 0; i < op.getQueries().size(); ++i) {
    SmallVector<StringRef> depth;
    for (DimAttr dim : op.getDepth(i))
      depth.push_back(dim.getName());
    Value product = make.make<ContractOp>(op.getQueries()[i], op.getKeys()[i], labelArray(make.b, depth));
    product.setType(op.getProduct(i).getType());
    product.setLoc(op.getProduct(i).getLoc());
    mapping.map(op.getProduct(i), product);
  }
  for (auto [i, input] : llvm::enumerate(op.getInputs()))
    mapping.map(op.getInputArgument(i), input);
  for (Operation &inner : op.getBlock().without_terminator())
    make.b.clone(inner, mapping);
  Value score = mapping.lookup(op.getScore());
  Value weights = op.getSinks().empty() ? make.make<SoftmaxOp>(score, labelArray(make.b, op.getDim()))
                                        : weightsBesideSinks(make, op, score);
  Value sum = make.make<ContractOp>(weights, op.getValues(), labelArray(make.b, op.getDim()));
  sum.setType(op.getAttended().getType());
  op.getAttended().replaceAllUsesWith(sum);
  op.erase();
}
