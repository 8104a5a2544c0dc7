// Takes: facts of the operands of operations that move numbers without changing them. Gives: facts of their results,
// with labels following renames, and dimensions such as N = S + 1 known part by part.
#include "passes/time/TimeTransfer.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

/// "S" of "S.3": what the spec says.
static StringRef spelled(StringRef label) {
  return label.split('.').first;
}

bool TimeTransfer::touchesTime(Operation *op, ArrayRef<DimAttr> touched, bool data) {
  for (DimAttr dim : touched)
    // Text-free values over twins are recomputed for all positions, so only T itself, the new rows, is out of reach.
    if (dim.getName() == time() || (data && (analysis.isTime(dim) || isOdd(dim)))) {
      refuse(op, "'" + op->getName().stripDialect() + "' of the dimension " + spelled(dim.getName()) +
                     " of time cannot be done step by step");
      return true;
    }
  return false;
}

Facts TimeTransfer::visitShape(Operation *op) {
  if (auto rename = dyn_cast<RenameOp>(op))
    return visitRename(rename);
  if (auto concat = dyn_cast<ConcatOp>(op))
    return visitConcat(concat);
  if (auto cut = dyn_cast<CutOp>(op))
    return visitCut(cut);
  if (auto gather = dyn_cast<GatherOp>(op))
    return visitGather(gather);
  Facts out = get(op->getOperand(0));
  NamedTensorType from = typeOf(op->getOperand(0));
  SmallVector<DimAttr> touched;
  if (auto split = dyn_cast<SplitOp>(op)) {
    touched.push_back(from.dim(split.getDim()));
    llvm::append_range(touched, split.getInto().getAsRange<DimAttr>());
  } else if (auto merge = dyn_cast<MergeOp>(op)) {
    for (StringRef name : names(merge.getDims()))
      touched.push_back(from.dim(name));
    touched.push_back(merge.getInto());
  }
  if (touchesTime(op, touched, out.data))
    out = merged({&out});
  if (!isa<ExpandOp, PermuteOp>(op))
    out.constant.reset();
  return out;
}

Facts TimeTransfer::visitRename(RenameOp op) {
  const Facts &x = get(op.getX());
  Renaming table;
  bool alongTime = false;
  for (auto [from, to] : llvm::zip(names(op.getFrom()), op.getTo().getAsRange<DimAttr>())) {
    table[from.str()] = to.getName().str();
    alongTime |= analysis.isTime(to);
  }
  if (x.data && alongTime && analysis.times(op.getResult()).size() > 1)
    refuse(op,
           "a value with two dimensions of time is renamed along time; it would have to be remembered for every pair "
           "of positions");
  return x.renamedBy(table);
}

Facts TimeTransfer::visitConcat(ConcatOp op) {
  SmallVector<const Facts *> operands = llvm::map_to_vector(op.getInputs(), [&](Value x) { return &get(x); });
  Facts out = merged(operands);
  SmallVector<StringRef> labels = names(op.getParts());
  if (isOdd(op.getInto()) || analysis.isTime(op.getInto())) {
    if (op.getInto().getName() == time() || analysis.isTime(op.getInto()) ||
        llvm::any_of(labels, [&](StringRef label) { return label == time(); })) {
      touchesTime(op, {op.getInto()}, true);
      return out;
    }
    out.joined = op.getInto().getName().str();
    for (auto [x, label, facts] : llvm::zip(op.getInputs(), labels, operands)) {
      // A part's positions are not those of a dimension that the whole may have under the same name.
      Label own = (label + ".of." + op.getInto().getName()).str();
      out.parts.push_back({own, typeOf(x).dim(label).getSizeText(), facts->renamedBy({{label.str(), own}})});
    }
    return out;
  }
  for (auto &[k, unused] : operands[0]->absent)
    if (llvm::all_of(operands, [&](const Facts *x) { return x->absent.count(k); })) {
      Bounds bounds = Bounds::never();
      for (const Facts *x : operands)
        bounds = join(bounds, x->absent.at(k));
      out.absent[k] = bounds;
    }
  if (typeOf(op.getResult()).isBool()) {
    out.whenTrue = out.whenFalse = Bounds::never();
    for (const Facts *x : operands) {
      out.whenTrue = join(out.whenTrue, x->whenTrue);
      out.whenFalse = join(out.whenFalse, x->whenFalse);
    }
  }
  return out;
}

Facts TimeTransfer::visitCut(CutOp op) {
  const Facts &x = get(op.getX());
  DimAttr from = typeOf(op.getX()).dim(op.getDim());
  if (!x.joined.empty() && x.joined == from.getName()) {
    Size offset(0);
    for (const Facts::Part &part : x.parts) { // exactly a part: that part
      Size length = *Size::parse(part.size);
      if (offset == op.getOffsetSize() && part.size == op.getInto().getSizeText())
        return part.facts.renamedBy({{part.label, op.getInto().getName().str()}});
      offset = offset + length;
    }
    refuse(op, "'cut' of a dimension of size " + from.getSizeText() + " made from " + time() +
                   " cannot be done step by step");
    return merged({&x});
  }
  Facts out = x;
  // A cut into T is a range of a fixed table: the rows of the new positions (Incremental.cpp moves its offset).
  SmallVector<DimAttr> touched = {from};
  if (x.data)
    touched.push_back(op.getInto());
  if (touchesTime(op, touched, x.data) || analysis.isTime(from) || analysis.isTime(op.getInto()) || isOdd(from))
    out = merged({&x});
  out.constant.reset();
  return out;
}

Facts TimeTransfer::visitGather(GatherOp op) {
  const Facts &x = get(op.getX()), &positions = get(op.getPositions());
  Facts out = merged({&x, &positions});
  DimAttr dim = typeOf(op.getX()).dim(op.getDim());
  Label label = dim.getName().str();
  if (!analysis.isTime(dim)) {
    out.absent = x.absent;
    out.whenTrue = x.whenTrue;
    out.whenFalse = x.whenFalse;
    if (isOdd(dim) && out.data)
      refuse(op, "gather along " + spelled(label) + ", made from " + time() + ", cannot be done step by step");
    return out;
  }
  if (!x.dep.count(label))
    return out;
  SmallVector<Label> rest = analysis.times(op.getResult());
  auto bound = [&](const Label &b) {
    auto at = positions.high.find(b);
    return at == positions.high.end() ? std::nullopt : std::optional(at->second);
  };
  SmallVector<Label> good;
  for (const Label &b : rest)
    if (bound(b).value_or(1) <= 0)
      good.push_back(b);
  if (good.empty() && bound(zero).value_or(1) <= 0 && !rest.empty())
    good.push_back(rest.front());
  out.dep.erase(label);
  out.dep.insert(positions.dep.begin(), positions.dep.end());
  if (!good.empty()) {
    out.dep.insert(llvm::is_contained(good, time()) ? time() : good.front());
    return out;
  }
  std::string why;
  auto near = llvm::find_if(rest, [&](const Label &b) { return bound(b).has_value(); });
  if (near != rest.end())
    why = ("its positions are only known to be <= index(" + spelled(*near) + ") + " + Twine(*bound(*near))).str();
  else if (!rest.empty())
    why = ("its positions are not known to be <= index(" + spelled(rest.front()) + ")").str();
  else
    why = "it gathers one position of the whole text, and the result no longer has " + time();
  refuse(op, "gather along " + spelled(label) + " is not causal: " + why);
  if (!rest.empty())
    out.dep.insert(rest.front());
  return out;
}
