// Takes: a function over the full text. Gives: facts of every value and the reasons, if any, why the function cannot be
// extended step by step (docs: passes/README.md). Why: a cache is right exactly if what is remembered never changes
// when text is added, and that can be derived from the masks.
//
// Facts flow forwards in one walk; a loop's body is walked until the facts of what it carries no longer change, as
// refusals of a body are meaningful only then.
#include "ir/Scan.h"
#include "ir/analysis/Functions.h"
#include "passes/time/TimeTransfer.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

Facts Facts::renamedBy(const Renaming &table) const {
  Facts out = *this;
  out.dep.clear();
  for (const Label &label : dep)
    out.dep.insert(renamed(table, label));
  auto affineBy = [&](const Affine &a) {
    Affine b{{}, a.constant};
    for (auto &[label, c] : a.coefficients)
      b.coefficients[renamed(table, label)] = c;
    return b;
  };
  if (affine)
    out.affine = affineBy(*affine);
  if (quotient)
    out.quotient->first = affineBy(quotient->first);
  for (auto [from, to] : {std::pair(&high, &out.high), std::pair(&low, &out.low)}) {
    to->clear();
    for (auto &[label, c] : *from)
      (*to)[renamed(table, label)] = c;
  }
  out.whenTrue = whenTrue.renamedBy(table);
  out.whenFalse = whenFalse.renamedBy(table);
  for (auto &[k, bounds] : out.absent)
    bounds = absent.at(k).renamedBy(table);
  if (!joined.empty())
    out.joined = renamed(table, joined);
  for (Part &part : out.parts) {
    Renaming others = table;
    others.erase(part.label); // the part's own label stands for `joined`
    part.facts = part.facts.renamedBy(others);
  }
  return out;
}

bool Facts::operator==(const Facts &o) const {
  return dep == o.dep && data == o.data && request == o.request && raw == o.raw && comparisons == o.comparisons &&
         affine == o.affine && high == o.high && low == o.low && quotient == o.quotient && whenTrue == o.whenTrue &&
         whenFalse == o.whenFalse && absent == o.absent && constant == o.constant && joined == o.joined &&
         parts == o.parts;
}

DimAttr quern::passes::timeDimension(func::FuncOp function) {
  if (!function.getNumArguments())
    return {};
  auto text = dyn_cast<NamedTensorType>(function.getArgument(0).getType());
  if (!text || text.getRank() < 2 || !text.getDims().back().getSize().asSymbol())
    return {};
  return text.getDims().back();
}

// ---- refusals

std::string TimeAnalysis::describeRefusals() const {
  std::string out;
  std::set<std::string>
      reported; // a softmax that is not masked makes its weighted sum wrong too: once a line is enough
  for (const Refusal &refusal : refused) {
    auto [user, library] = linesOf(refusal.where);
    std::string line = user.substr(0, user.rfind(':'));
    if (!reported.insert(line).second && user != "?")
      continue;
    out += (out.empty() ? "" : "\n") + user + ": " + refusal.message + (library.empty() ? "" : " (" + library + ")");
  }
  return out;
}

// ---- the walk

TimeAnalysis::TimeAnalysis(func::FuncOp function, bool scoredOnly) {
  DimAttr dim = timeDimension(function);
  timeLabel = dim.getName().str();
  timeSize = dim.getSize();
  timeSymbol = timeSize.str();
  for (BlockArgument argument : function.getArguments()) {
    Facts facts;
    for (const Label &label : times(argument))
      facts.dep.insert(label);
    facts.data = !facts.dep.empty();
    facts.request = !facts.data;
    known[argument] = facts;
  }
  TimeTransfer transfer(*this);
  transfer.run(function.front());
  Operation *end = function.front().getTerminator();
  const int scored = scoredOnly ? scoredResult(function) : -1;
  for (auto [number, result] : llvm::enumerate(end->getOperands())) {
    if (scored >= 0 && int(number) != scored)
      continue;
    Location where = result.getDefiningOp() ? result.getDefiningOp()->getLoc() : end->getLoc();
    if (!typeOf(result).has(timeLabel))
      refused.push_back({where, "the result has no " + timeLabel});
    else if (times(result).size() > 1 ||
             llvm::any_of(known[result].dep, [&](const Label &l) { return l != timeLabel; }))
      refused.push_back({where, "the result has a twin of " + timeLabel});
  }
}

const Facts &TimeAnalysis::facts(Value value) const {
  auto at = known.find(value);
  assert(at != known.end() && "a value that was not analysed");
  return at->second;
}

SmallVector<Label> TimeAnalysis::times(Value value) const {
  SmallVector<Label> out;
  for (DimAttr dim : typeOf(value).getDims())
    if (isTime(dim))
      out.push_back(dim.getName().str());
  return out;
}

SmallVector<Label> TimeAnalysis::twins(Value value) const {
  SmallVector<Label> out = times(value);
  llvm::erase(out, timeLabel);
  return out;
}

void TimeTransfer::refuse(Operation *op, const Twine &message) {
  if (report)
    analysis.refused.push_back({op->getLoc(), message.str()});
}

bool TimeTransfer::isOdd(DimAttr dim) const {
  return !analysis.isTime(dim) && dim.getSize().mentions(analysis.timeSymbol);
}

void TimeTransfer::run(Block &block) {
  for (Operation &op : block)
    visit(&op);
}

/// Facts of an integer, real or bool constant.
static Facts constantFacts(Attribute value) {
  Facts out;
  if (auto flag = dyn_cast<BoolAttr>(value)) {
    (flag.getValue() ? out.whenFalse : out.whenTrue) = Bounds::never();
    return out;
  }
  if (auto whole = dyn_cast<IntegerAttr>(value)) {
    int64_t c = whole.getInt();
    out.affine = Affine{{}, c};
    out.high[zero] = out.low[zero] = c;
    out.constant = c;
  } else {
    out.constant = cast<FloatAttr>(value).getValueAsDouble();
  }
  out.absent[*out.constant] = Bounds::never();
  return out;
}

void TimeTransfer::visit(Operation *op) {
  TypeSwitch<Operation *>(op)
      .Case([&](RepeatOp loop) { repeat(loop); })
      .Case([&](ScanOp) { scan(op); })
      .Case([&](ConstOp constant) { set(constant, constantFacts(constant.getValue())); })
      .Case<ParamOp, ValuesOp>([&](auto fixed) { set(fixed.getResult(), Facts()); })
      .Case([&](SizeOp size) {
        Facts out;
        Size polynomial = size.getPolynomial();
        out.raw = polynomial.mentions(analysis.timeSymbol);
        out.request = !out.raw && !polynomial.isConstant();
        if (out.raw || out.request)
          out.low[zero] = 0;
        set(size, out);
      })
      .Case([&](IndexOp index) {
        Facts out;
        Label label = index.getDim().getName().str();
        out.low[zero] = 0;
        if (analysis.isTime(index.getDim())) {
          out.affine = Affine{{{label, 1}}, 0};
          out.high[label] = out.low[label] = 0;
        } else if (auto size = index.getDim().getStatic()) {
          out.high[zero] = *size - 1;
        }
        set(index, out);
      })
      .Case([&](ReduceOp reduce) { set(reduce, visitReduce(reduce)); })
      .Case([&](SoftmaxOp softmax) { set(softmax, visitSoftmax(softmax)); })
      .Case([&](ContractOp contract) { set(contract, visitContract(contract)); })
      .Case([&](AttentionOp attention) {
        Facts out = visitAttention(attention);
        for (Value result : attention.getResults())
          set(result, out);
      })
      .Case([&](AttentionGradientOp gradient) { // what its mask rules out is not known here
        std::vector<const Facts *> all;
        for (Value operand : op->getOperands())
          all.push_back(&get(operand));
        for (Value result : gradient.getResults()) {
          Facts out = merged(all);
          out.dep = reduced(op, "attention_gradient", gradient.getTouchedDims(), analysis.times(result), out, Bounds());
          set(result, out);
        }
      })
      .Case([&](CumsumOp cumsum) { set(cumsum, visitCumsum(cumsum)); })
      .Case([&](ArgmaxOp argmax) {
        const Facts &x = get(argmax.getX());
        Facts out = merged({&x});
        out.dep = reduced(op, "argmax", {argmax.getDim()}, analysis.times(argmax), x, absentOf(x, -infinity));
        set(argmax, out);
      })
      .Case([&](TopKOp top) {
        Facts out = merged({&get(top.getX())});
        if (DimAttr from = typeOf(top.getX()).dim(top.getFrom()); analysis.isTime(from) || (isOdd(from) && out.data)) {
          refuse(op, "top_k[" + top.getFrom().split('.').first +
                         "] along time is not supported in steps: where fewer than " + top.getInto().getSizeText() +
                         " positions are visible its choice falls on later ones");
          out.raw = true;
        }
        set(top.getValues(), out);
        set(top.getPositions(), out);
      })
      .Case<RenameOp, SplitOp, MergeOp, CutOp, ConcatOp, UnitOp, SqueezeOp, GatherOp, ExpandOp, PermuteOp>(
          [&](auto) { set(op->getResult(0), visitShape(op)); })
      .Default([&](Operation *) {
        if (op->getNumResults() == 1)
          set(op->getResult(0), visitElementwise(op));
      });
  for (Value result : op->getResults()) {
    Facts &facts = analysis.known[result];
    auto type = typeOf(result);
    if (facts.data && facts.joined.empty())
      for (DimAttr dim : type.getDims())
        if (isOdd(dim))
          refuse(op, "a dimension of size " + dim.getSizeText() + " made from " + time() + " cannot grow step by step");
    // What a comparison of T with something fixed decides is one bit, however T changes.
    bool whole = type.isBool() && !facts.data && facts.number() && (isa<CompareOp>(op) || type.getRank() == 0);
    if (whole && analysis.times(result).empty()) {
      facts.raw = false;
      facts.comparisons = {op};
    }
  }
}

void TimeTransfer::repeat(RepeatOp op) {
  Block &body = op.getBlock();
  for (auto [argument, init] : llvm::zip(body.getArguments(), op.getInits()))
    set(argument, get(init));
  auto yield = cast<YieldOp>(body.getTerminator());
  bool reports = report;
  report = false;
  for (int round = 0, stable = false; !stable; ++round) {
    run(body);
    stable = true;
    for (auto [argument, value] : llvm::zip(body.getArguments(), yield.getValues())) {
      const Facts &before = get(argument), &after = get(value);
      Facts joint = merged({&before, &after});
      auto either = [&](const Bounds &a, const Bounds &b) {
        Bounds c = join(a, b);
        return round > 3 && c != a ? Bounds() : c; // a bound that grows each iteration is none
      };
      joint.whenTrue = either(before.whenTrue, after.whenTrue);
      joint.whenFalse = either(before.whenFalse, after.whenFalse);
      for (auto &[k, bounds] : before.absent)
        if (after.absent.count(k))
          joint.absent[k] = either(bounds, after.absent.at(k));
      for (auto [x, y, z] :
           {std::tuple(&before.high, &after.high, &joint.high), std::tuple(&before.low, &after.low, &joint.low)})
        for (auto &[label, c] : *x)
          if (auto at = y->find(label); at != y->end() && at->second == c)
            (*z)[label] = c;
      if (before.affine == after.affine)
        joint.affine = before.affine;
      if (joint == before)
        continue;
      stable = false;
      set(argument, joint);
    }
  }
  report = reports;
  if (report)
    run(body);
  for (auto [result, value] : llvm::zip(op.getResults(), yield.getValues()))
    set(result, get(value));
}

Facts TimeTransfer::visitElementwise(Operation *op) {
  SmallVector<const Facts *> operands =
      llvm::map_to_vector(op->getOperands(), [&](Value x) -> const Facts * { return &get(x); });
  auto joined = llvm::find_if(operands, [](const Facts *x) { return !x->joined.empty(); });
  if (joined == operands.end())
    return elementwise(op, operands);
  const Facts &first = **joined;
  Facts out = merged(operands);
  for (auto [value, x] : llvm::zip(op->getOperands(), operands)) {
    bool alike = x->joined.empty() ? !typeOf(value).has(first.joined)
                                   : x->joined == first.joined && x->parts.size() == first.parts.size();
    if (!alike) // facts by parts are lost; visit() refuses what needs them
      return out;
  }
  out.joined = first.joined;
  for (size_t i = 0; i < first.parts.size(); ++i) {
    std::vector<Facts> parts;
    for (const Facts *x : operands)
      parts.push_back(x->joined.empty() ? *x
                                        : x->parts[i].facts.renamedBy({{x->parts[i].label, first.parts[i].label}}));
    SmallVector<const Facts *> pointers = llvm::map_to_vector(llvm::ArrayRef(parts), [](const Facts &x) { return &x; });
    out.parts.push_back({first.parts[i].label, first.parts[i].size, elementwise(op, pointers)});
  }
  return out;
}
