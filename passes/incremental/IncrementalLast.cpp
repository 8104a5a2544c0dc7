// Takes: a step function with results over T. Gives: the same function for the last new row alone, which is all that
// generation needs: the cut moves up through operations that treat positions one by one, so that the final norm and the
// projection to the vocabulary run for one row.
//
//   %y = contract %n, %w : [B, T, V]                   %r = squeeze (cut %x "T" at "T - 1")
//   return %y                                 =>       %y = contract (norm of %r), %w : [B, V]
#include "passes/incremental/Incremental.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

class LastRow {
public:
  explicit LastRow(DimAttr time) : time(time) {}

  Value of(Value value) {
    if (!typeOf(value).has(time.getName()))
      return value;
    Value &known = rows[value];
    if (!known) {
      Value row = make(value);
      rows[value] = row;
      return row;
    }
    return known;
  }

private:
  DimAttr time;
  llvm::DenseMap<Value, Value> rows;

  static NamedTensorType without(NamedTensorType type, DimAttr dim) {
    SmallVector<DimAttr> dims(type.getDims());
    llvm::erase(dims, dim);
    return type.withDims(dims);
  }

  Value make(Value value) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    Size last = time.getSize() - Size(1);
    if (auto index = value.getDefiningOp<IndexOp>())
      return SizeOp::create(builder, value.getLoc(), last);
    Operation *op = value.getDefiningOp();
    if (op && isPointwise(op) && !touches(op, time.getName())) {
      SmallVector<Value> operands;
      for (Value x : op->getOperands())
        operands.push_back(of(x));
      Operation *copy = builder.clone(*op);
      copy->setOperands(operands);
      for (OpResult result : copy->getResults())
        result.setType(without(typeOf(result), time));
      return copy->getResult(cast<OpResult>(value).getResultNumber());
    }
    auto one = DimAttr::get(value.getContext(), (time.getName() + ".last").str(), Size(1));
    auto cut =
        CutOp::create(builder, value.getLoc(), relabelled(typeOf(value), {{time.getName().str(), one}}), value,
                      LabelAttr::get(builder.getContext(), time.getName()), builder.getStringAttr(last.str()), one);
    return SqueezeOp::create(builder, value.getLoc(), without(typeOf(value), time), cut,
                             LabelAttr::get(builder.getContext(), one.getName()));
  }
};

} // namespace

void quern::passes::keepLastRow(func::FuncOp function, DimAttr time) {
  LastRow last(time);
  Operation *end = function.front().getTerminator();
  for (OpOperand &result : end->getOpOperands())
    result.set(last.of(result.get()));
  function.setType(FunctionType::get(function.getContext(), function.getArgumentTypes(), end->getOperandTypes()));
  eraseDead(function);
}
