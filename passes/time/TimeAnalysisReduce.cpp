// Takes: facts of a value whose positions are combined. Gives: up to which position the result depends on the text, or
// the reason why it looks ahead: a twin may be reduced where its element is the reduction's identity for later
// positions.
#include "passes/time/TimeTransfer.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

static StringRef spelled(StringRef label) {
  return label.split('.').first;
}

/// Where the masked get a number that counts: `max[S](where(mask, x, -5))` is never less than -5, but only while
/// something is masked.
static std::string countedNumber(Operation *op, StringRef what) {
  auto choice = op->getOperand(0).getDefiningOp<WhereOp>();
  auto constant = choice ? choice->getOperand(2).getDefiningOp<ConstOp>() : ConstOp();
  auto reduce = dyn_cast<ReduceOp>(op);
  bool least = isa<SoftmaxOp>(op) || (reduce && reduce.getReduction() == Reduction::max);
  bool most = reduce && reduce.getReduction() == Reduction::min,
       sum = reduce && reduce.getReduction() == Reduction::sum;
  if (!constant || !(least || most || sum))
    return "";
  std::string number;
  llvm::raw_string_ostream out(number);
  if (auto real = dyn_cast<FloatAttr>(constant.getValue()); real && std::isfinite(real.getValueAsDouble()))
    out << llvm::formatv("{0}", real.getValueAsDouble());
  else if (auto integer = dyn_cast<IntegerAttr>(constant.getValue()); integer && !integer.getType().isInteger(1))
    out << integer.getInt();
  if (number.empty() || (sum && number == "0"))
    return "";
  return "; its masked positions count as " + number + ", where " + what.str() + " needs " +
         (least  ? "-inf"
          : most ? "inf"
                 : "0");
}

std::set<Label> TimeTransfer::reduced(Operation *op, StringRef what, ArrayRef<StringRef> over, ArrayRef<Label> rest,
                                      const Facts &x, const Bounds &unless) {
  std::set<Label> dep = x.dep;
  for (StringRef name : over) {
    DimAttr dim;
    for (Value operand : op->getOperands())
      if (DimAttr found = typeOf(operand).dim(name))
        dim = found;
    if (dim && isOdd(dim) && x.data)
      refuse(op, what + "[" + spelled(name) + "] of a dimension made from " + time() + " cannot be done step by step");
    if (!dim || !analysis.isTime(dim))
      continue;
    Label label = name.str();
    SmallVector<Label> left;
    for (const Label &b : rest)
      if (b != label)
        left.push_back(b);
    std::string message = (what + "[" + spelled(label) + "]").str();
    auto keepGoing = [&] { // as if it were masked, so that other mistakes are found too
      dep.erase(label);
      if (llvm::is_contained(left, time()))
        dep.insert(time());
      else if (!left.empty())
        dep.insert(left.front());
    };
    if (label == time()) {
      if (x.data)
        refuse(op, message + " combines positions of " + label +
                       " itself; in steps only its twins are remembered (rename " + label +
                       " to a twin and reduce that), and only cumsum may run over " + label);
      else
        refuse(op, message + " counts all positions of " + label + "; write " + label + ", the length, instead");
      keepGoing();
      continue;
    }
    bool hadIt = dep.count(label);
    if (!unless.isNever() && unless.get(label, zero).value_or(1) <= 0) { // only position 0
      dep.erase(label);
      if (hadIt && !left.empty())
        dep.insert(left.front());
      continue;
    }
    SmallVector<Label> good;
    for (const Label &b : left)
      if (unless.isNever() || unless.get(label, b).value_or(1) <= 0)
        good.push_back(b);
    if (!good.empty()) {
      dep.erase(label);
      auto pick = llvm::find_if(good, [&](const Label &b) { return x.dep.count(b); });
      if (hadIt)
        dep.insert(pick != good.end() ? *pick : llvm::is_contained(good, time()) ? time() : good.front());
      continue;
    }
    if (!x.data) {
      refuse(op,
             message + " counts all positions of " + spelled(label) + "; write " + time() + ", the length, instead");
      continue;
    }
    std::string why;
    std::optional<std::pair<int64_t, Label>> nearest;
    for (const Label &b : left)
      if (auto c = unless.get(label, b); c && (!nearest || *c < nearest->first))
        nearest = {*c, b};
    auto before = [&](const Label &b) { return ("index(" + spelled(label) + ") <= index(" + spelled(b) + ")").str(); };
    if (nearest)
      why = "its mask only implies " + before(nearest->second) + " + " + std::to_string(nearest->first) +
            ", and needs " + before(nearest->second);
    else if (!left.empty())
      why = ("it sees positions of " + spelled(label) + " after " + spelled(left.front())).str() +
            ": nothing masks it by " + before(left.front()) + countedNumber(op, what);
    else
      why = ("it sees all positions of " + spelled(label) + ", and the result no longer has ").str() + time();
    refuse(op, message + " is not causal: " + why);
    keepGoing();
  }
  return dep;
}

static std::set<Label> labelSet(ArrayAttr dims) {
  std::set<Label> out;
  for (StringRef name : names(dims))
    out.insert(name.str());
  return out;
}

Facts TimeTransfer::visitReduce(ReduceOp op) {
  const Facts &x = get(op.getX());
  Facts out = merged({&x});
  SmallVector<StringRef> over = names(op.getDims());
  std::set<Label> gone = labelSet(op.getDims());
  StringRef what = stringifyReduction(op.getReduction());
  Reduction how = op.getReduction();
  bool logic = how == Reduction::any || how == Reduction::all;
  double identity = how == Reduction::max ? -infinity : how == Reduction::min ? infinity : 0;
  auto unless = [&](const Facts &facts) {
    return how == Reduction::any ? facts.whenTrue : how == Reduction::all ? facts.whenFalse : absentOf(facts, identity);
  };

  if (!x.joined.empty() && llvm::is_contained(over, x.joined)) { // part by part
    if (over.size() > 1 || how == Reduction::mean) {
      refuse(op, "'" + what + "' of a dimension made from " + time() + " cannot be done step by step");
      return out;
    }
    out.dep.clear();
    for (const Facts::Part &part : x.parts) {
      SmallVector<Label> rest = analysis.times(op.getResult());
      StringRef label = part.label;
      // The operand's type has the joined dimension, not the part's: only a part along time is a reduction over time.
      std::set<Label> dep = part.facts.dep;
      if (part.size == analysis.timeSymbol) {
        Bounds f = unless(part.facts);
        bool good = f.isNever();
        for (const Label &b : rest)
          good |= !f.isNever() && f.get(part.label, b).value_or(1) <= 0;
        if (!good)
          refuse(op, what + "[" + spelled(x.joined) + "] is not causal: it sees positions of " + spelled(label) +
                         " that nothing masks");
        if (dep.erase(part.label) && !rest.empty())
          dep.insert(llvm::is_contained(rest, time()) ? time() : rest.front());
      }
      out.dep.insert(dep.begin(), dep.end());
    }
    return out;
  }

  out.dep = reduced(op, what, over, analysis.times(op.getResult()), x, unless(x));
  bool alongTime = llvm::any_of(over, [&](StringRef name) { return analysis.isTime(typeOf(op.getX()).dim(name)); });
  if (logic) {
    if (how == Reduction::any || !alongTime)
      out.whenTrue = x.whenTrue.without(gone);
    if (how == Reduction::all || !alongTime)
      out.whenFalse = x.whenFalse.without(gone);
  } else {
    for (auto &[k, bounds] : x.absent)
      if (k == 0 || k == identity || how != Reduction::sum)
        out.absent[k] = bounds.without(gone);
    // The mean divides by the length.
    out.raw |= how == Reduction::mean && alongTime;
  }
  return out;
}

Facts TimeTransfer::visitSoftmax(SoftmaxOp op) {
  const Facts &x = get(op.getX());
  Facts out = merged({&x});
  SmallVector<StringRef> over = names(op.getDims());
  SmallVector<Label> rest = analysis.times(op.getResult());
  if (!x.joined.empty() && llvm::is_contained(over, x.joined)) {
    // Every part's weights depend on all parts' scores.
    std::set<Label> others;
    for (const Facts::Part &part : x.parts) {
      others.insert(part.facts.dep.begin(), part.facts.dep.end());
      if (part.size != analysis.timeSymbol)
        continue;
      Bounds f = absentOf(part.facts, -infinity);
      if (!f.isNever() && llvm::none_of(rest, [&](const Label &b) { return f.get(part.label, b).value_or(1) <= 0; }))
        refuse(op, "softmax[" + spelled(x.joined) + "] is not causal: it sees positions of " + spelled(part.label) +
                       " after " + (rest.empty() ? time() : rest.front()));
      if (others.erase(part.label))
        others.insert(rest.empty() || llvm::is_contained(rest, time()) ? time() : rest.front());
    }
    out.dep = others;
    out.joined = x.joined;
    for (const Facts::Part &part : x.parts) {
      Facts facts = merged({&part.facts});
      facts.dep = others;
      facts.data = out.data;
      facts.absent[0] = absentOf(part.facts, -infinity);
      out.parts.push_back({part.label, part.size, facts});
    }
    return out;
  }
  Bounds seen = absentOf(x, -infinity);
  // The result keeps its dimensions: what remains for each label of `over` are the others.
  out.dep = reduced(op, "softmax", over, rest, x, seen);
  out.absent[0] = seen;
  return out;
}

Facts TimeTransfer::visitContract(ContractOp op) {
  const Facts &a = get(op.getA()), &b = get(op.getB());
  Facts out = merged({&a, &b});
  std::map<double, Bounds> product = productAbsent(a, b);
  Bounds unless = product.count(0) ? product.at(0) : Bounds();
  out.dep = reduced(op, "sum", names(op.getDims()), analysis.times(op.getResult()), out, unless);
  out.absent[0] = unless.without(labelSet(op.getDims()));
  return out;
}

/// As its products, the body, the softmax and the weighted sum would be one by one.
Facts TimeTransfer::visitAttention(AttentionOp op) {
  auto nonzero = [&](const Facts &a, const Facts &b) {
    std::map<double, Bounds> product = productAbsent(a, b);
    return product.count(0) ? product.at(0) : Bounds();
  };
  for (auto [i, query, key] : llvm::enumerate(op.getQueries(), op.getKeys())) {
    const Facts &a = get(query), &b = get(key); // of a depth of fixed size, never of time
    Facts product = merged({&a, &b});
    for (DimAttr dim : op.getDepth(i))
      product.absent[0] = nonzero(a, b).without({dim.getName().str()});
    set(op.getProduct(i), product);
  }
  for (auto [i, input] : llvm::enumerate(op.getInputs()))
    set(op.getInputArgument(i), get(input));
  run(op.getBlock());
  const Facts &score = get(op.getScore()), &values = get(op.getValues());
  std::vector<const Facts *> all = {&score};
  for (Value sink : op.getSinks())
    all.push_back(&get(sink));
  Facts weights = merged(all);
  Bounds seen = absentOf(score, -infinity);
  SmallVector<Label> rest = analysis.times(op.getScore());
  weights.dep = reduced(op, "softmax", {op.getDim()}, rest, weights, seen);
  weights.absent[0] = seen;
  Facts out = merged({&weights, &values});
  out.dep = reduced(op, "sum", {op.getDim()}, analysis.times(op.getAttended()), out, nonzero(weights, values));
  return out;
}

Facts TimeTransfer::visitCumsum(CumsumOp op) {
  const Facts &x = get(op.getX());
  Facts out = merged({&x});
  DimAttr dim = typeOf(op.getX()).dim(op.getDim());
  Label label = dim.getName().str();
  if (isOdd(dim) && out.data)
    refuse(op, "cumsum[" + spelled(label) + "] of a dimension made from " + time() + " cannot be done step by step");
  if (!analysis.isTime(dim))
    return out;
  if (op.getReverse())
    refuse(op, "cumsum[" + spelled(label) + "] from the last position to the first sees later positions");
  // The state between steps would grow with the text.
  if (label == time() && analysis.times(op.getResult()).size() > 1)
    refuse(op, "cumsum[" + spelled(label) + "] of a value that also has " +
                   spelled(analysis.twins(op.getResult()).front()) + " would have to keep a sum for every position");
  // A running sum of ones counts positions: index + 1.
  if (x.affine && x.affine->coefficients.empty()) {
    out.affine = Affine{{{label, x.affine->constant}}, x.affine->constant};
    if (x.affine->constant == 1)
      out.high[label] = out.low[label] = 1;
  } else if (auto high = x.high.find(zero), low = x.low.find(zero);
             high != x.high.end() && high->second <= 1 && low != x.low.end() && low->second >= 0) {
    out.high[label] = 1;
    out.low[zero] = 0;
  }
  return out;
}
