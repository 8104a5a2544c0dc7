// Takes: a function over the full text. Gives: the same function where what is remembered is remembered as late as
// possible. A value over one twin of T alone, made position by position from the text, equals the rename of the same
// thing made over T; so keys, values and latents all end as `rename(u, T -> S)`, and u is what a cache may hold.
//
//   %s = quern.rename %x ["T"] to [S]            %u = quern.contract %x, %w        (over T)
//   %k = quern.contract %s, %w            =>     %t = quern.rope ... %u, cosines over T
//   %r = rope ... %k, cosines over S             %r = quern.rename %t ["T"] to [S]
//
// A gather along T, `x[T = p]`, becomes a gather of a fresh twin, so that all remembering goes through renames.
#include "passes/incremental/Incremental.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

class Sinker {
public:
  Sinker(func::FuncOp function, DimAttr time) : time(time) {
    for (BlockArgument argument : function.getArguments())
      note(argument, !times(argument).empty());
  }

  void run(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block))
      visit(&op);
  }

private:
  DimAttr time;
  llvm::DenseMap<Value, bool> data;
  llvm::DenseMap<Value, Value> overTime; // the same thing over T; of a value without time: itself
  unsigned twins = 0;

  SmallVector<DimAttr> times(Value value) {
    SmallVector<DimAttr> out;
    for (DimAttr dim : typeOf(value).getDims())
      if (dim.getSize() == time.getSize())
        out.push_back(dim);
    return out;
  }

  void note(Value value, bool isData) {
    data[value] = isData;
    if (times(value).empty())
      overTime[value] = value;
  }

  void visit(Operation *op) {
    if (auto loop = dyn_cast<RepeatOp>(op)) {
      for (auto [argument, init] : llvm::zip(loop.getBlock().getArguments(), loop.getInits()))
        note(argument, data.lookup(init) || !times(argument).empty());
      run(loop.getBlock());
      for (auto [result, argument, value] :
           llvm::zip(loop.getResults(), loop.getBlock().getArguments(), loop.getBlock().getTerminator()->getOperands()))
        note(result, data.lookup(argument) || data.lookup(value));
      return;
    }
    if (auto gather = dyn_cast<GatherOp>(op); gather && gather.getDim() == time.getName())
      overTwin(gather);
    bool isData = llvm::any_of(op->getOperands(), [&](Value x) { return data.lookup(x); });
    for (Value result : op->getResults())
      note(result, isData);
    for (OpResult result : op->getResults())
      if (times(result).size() == 1 && times(result)[0] != time)
        sink(result, isData);
    if (auto rename = dyn_cast<RenameOp>(op))
      backToTime(rename);
  }

  void overTwin(GatherOp gather) {
    OpBuilder builder(gather);
    auto twin = DimAttr::get(gather.getContext(), (time.getName() + ".g" + Twine(++twins)).str(), time.getSize());
    Value x = gather.getX();
    auto renamed = RenameOp::create(builder, gather.getLoc(), relabelled(typeOf(x), {{time.getName().str(), twin}}), x,
                                    labelArray(builder, {time.getName()}), builder.getArrayAttr({twin}));
    note(renamed, data.lookup(x));
    if (times(x).size() == 1)
      overTime[renamed] = x;
    gather.getXMutable().set(renamed);
    gather.setDim(twin.getName());
  }

  /// Finds `result`'s version over T; replaces a value of the text by a rename of it.
  void sink(OpResult result, bool isData) {
    DimAttr twin = times(result)[0];
    Value version = versionOf(result.getOwner(), result.getResultNumber(), twin);
    if (!version)
      return;
    overTime[result] = version;
    auto own = dyn_cast<RenameOp>(result.getOwner());
    if (!isData || (own && own.getX() == version))
      return;
    OpBuilder builder(result.getContext());
    builder.setInsertionPointAfter(result.getOwner());
    auto renamed = RenameOp::create(builder, result.getLoc(), result.getType(), version,
                                    labelArray(builder, {time.getName()}), builder.getArrayAttr({twin}));
    note(renamed, true);
    overTime[renamed] = version;
    result.replaceAllUsesExcept(renamed, renamed);
  }

  /// From T to a twin and back again: what was made on the way stays over T.
  void backToTime(RenameOp op) {
    if (times(op.getResult()) != SmallVector<DimAttr>{time})
      return;
    SmallVector<DimAttr> along = times(op.getX());
    Value version = overTime.lookup(op.getX());
    if (along.size() != 1 || along[0] == time || !version)
      return;
    OpBuilder builder(op);
    builder.setInsertionPointAfter(op);
    Value by = versionOfRename(op, time, builder);
    if (by)
      op.replaceAllUsesWith(by);
  }

  Value versionOf(Operation *op, unsigned number, DimAttr twin) {
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    Relabelling back = {{twin.getName().str(), time}};
    if (auto rename = dyn_cast<RenameOp>(op))
      return versionOfRename(rename, twin, builder);
    if (auto index = dyn_cast<IndexOp>(op)) {
      auto version = IndexOp::create(builder, op->getLoc(), time);
      note(version, false);
      return version;
    }
    bool runningSum = isa<CumsumOp>(op) && cast<CumsumOp>(op).getDim() == twin.getName();
    if (!isPointwise(op) || (touches(op, twin.getName()) && !runningSum))
      return {};
    SmallVector<Value> operands;
    for (Value x : op->getOperands()) {
      Value version = overTime.lookup(x);
      auto along = times(x);
      if (!version || (!along.empty() && along[0] != twin))
        return {};
      operands.push_back(version);
    }
    Operation *version = builder.clone(*op);
    version->setOperands(operands);
    relabel(version, back);
    for (Value result : version->getResults())
      note(result, data.lookup(op->getResult(0)));
    return version->getResult(number);
  }

  /// A rename's version: what it renames T (or another twin) from, with the rest of the renaming.
  Value versionOfRename(RenameOp op, DimAttr twin, OpBuilder &builder) {
    SmallVector<StringRef> from;
    SmallVector<Attribute> to;
    StringRef source = twin.getName();
    for (auto [name, dim] : llvm::zip(names(op.getFrom()), op.getTo().getAsRange<DimAttr>())) {
      if (dim == twin) {
        source = name;
        continue;
      }
      from.push_back(name);
      to.push_back(dim);
    }
    Value x = op.getX();
    SmallVector<DimAttr> along = times(x);
    if (along.size() != 1 || along[0].getName() != source)
      return {};
    Value version = source == time.getName() ? x : overTime.lookup(x);
    if (!version || from.empty())
      return version;
    auto renamed =
        RenameOp::create(builder, op.getLoc(), relabelled(typeOf(op.getResult()), {{twin.getName().str(), time}}),
                         version, labelArray(builder, from), builder.getArrayAttr(to));
    note(renamed, data.lookup(x));
    return renamed;
  }
};

} // namespace

void quern::passes::sinkRenames(func::FuncOp function, DimAttr time) {
  Sinker(function, time).run(function.front());
  eraseDead(function);
}
