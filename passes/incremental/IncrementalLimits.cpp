// Takes: a function with its time analysis. Gives: what else a program should know of it: how long a text may become
// before a gather leaves a fixed table (`quern.limits`), and what depends on the request alone, not on the text
// (`quern.once`: cross-attention's keys and values).
#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "ir/analysis/SourceLines.h"
#include "passes/incremental/Incremental.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

ArrayAttr quern::passes::findLimits(func::FuncOp function, const TimeAnalysis &analysis) {
  Builder builder(function.getContext());
  SmallVector<Attribute> limits;
  auto add = [&](Operation *op, DimAttr table, int64_t atMost) {
    limits.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("at", builder.getStringAttr(callerOf(op->getLoc()))),
         builder.getNamedAttr("name", builder.getStringAttr(table.getName().split('.').first)),
         builder.getNamedAttr("size", builder.getI64IntegerAttr(std::max<int64_t>(atMost, 0)))}));
  };
  function.walk([&](Operation *op) {
    if (auto gather = dyn_cast<GatherOp>(op)) {
      DimAttr table = typeOf(gather.getX()).dim(gather.getDim());
      const std::optional<Affine> &at = analysis.facts(gather.getPositions()).affine;
      if (!table.getStatic() || !at || at->coefficients.size() != 1 || at->coefficients.begin()->second <= 0)
        return;
      // coefficient * (length - 1) + constant <= size - 1
      int64_t room = *table.getStatic() - 1 - at->constant;
      add(op, table, room < 0 ? 0 : room / at->coefficients.begin()->second + 1);
    } else if (auto cut = dyn_cast<CutOp>(op)) {
      DimAttr table = typeOf(cut.getX()).dim(cut.getDim());
      std::optional<int64_t> offset = cut.getOffsetSize().constant();
      if (table.getStatic() && offset && analysis.isTime(cut.getInto()))
        add(op, table, *table.getStatic() - *offset);
    }
  });
  llvm::sort(limits, [](Attribute a, Attribute b) {
    auto key = [](Attribute x) { return cast<IntegerAttr>(cast<DictionaryAttr>(x).get("size")).getInt(); };
    return key(a) < key(b);
  });
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return builder.getArrayAttr(limits);
}

void quern::passes::markOnce(func::FuncOp function, DimAttr time) {
  llvm::DenseMap<Value, bool> varies, ofRequest;
  std::string symbol = time.getSizeText();
  auto grows = [&](Value value) {
    return llvm::any_of(typeOf(value).getDims(),
                        [&](DimAttr dim) { return dim.getSize().mentions(symbol) || dim.getSize().mentions("past"); });
  };
  for (BlockArgument argument : function.getArguments()) {
    varies[argument] = grows(argument);
    ofRequest[argument] = !grows(argument);
  }
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto loop = dyn_cast<RepeatOp>(op)) {
      // What a loop carries is taken to change: a carried value that only the request decides would be a rare thing.
      for (Value value : loop.getBlock().getArguments())
        varies[value] = true;
      for (Value value : loop.getResults())
        varies[value] = true;
      return;
    }
    bool changes = isa<RecallOp, RememberOp, StoreOp>(op) || (isa<CumsumOp>(op) && cast<CumsumOp>(op).getStateAttr()) ||
                   (isa<ScanOp>(op) && cast<ScanOp>(op).getStates());
    if (auto size = dyn_cast<SizeOp>(op))
      changes = size.getPolynomial().mentions(symbol) || size.getPolynomial().mentions("past");
    bool request = false;
    for (Value x : op->getOperands()) {
      changes |= varies.lookup(x);
      request |= ofRequest.lookup(x);
    }
    for (Value result : op->getResults()) {
      changes |= grows(result);
      varies[result] = changes;
      ofRequest[result] = request;
    }
    if (request && !changes && op->getNumResults())
      op->setAttr(onceAttr, UnitAttr::get(op->getContext()));
  });
}
