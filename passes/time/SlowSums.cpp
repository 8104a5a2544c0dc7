// Takes: a module as it is written. Gives: sums over a twin of T that are recurrences written out.
//
//   sum[S](where(index(S) <= index(T), exp(c - c[T -> S]), 0) * x[T -> S])
//
// Such weights are a sum of products f(t) g(s), so that what is summed can be carried: y = exp(c_t - c_(t-1)) y + x.
// Weights of attention, e^(q k), are not: the exponential of a sum over K goes apart into infinitely many products.
#include "passes/time/SlowSums.h"

#include "ir/analysis/Operations.h"
#include "passes/time/TimeAnalysis.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// How a value depends on two times t and s at once.
enum class Form {
  Apart,    // it has one of them at most
  Sum,      // f(t) + g(s): its exponential is Products
  Products, // of such functions, and sums of products
  Order,    // a bool: which of the two comes first
  Other
};

struct Weights {
  Form form = Form::Apart;
  bool masked = false; // zero (or, under an exponential, -inf) by an order of the two times
};

class Reader {
public:
  Weights of(Value value, StringRef t, StringRef s) {
    NamedTensorType type = typeOf(value);
    if (!type.has(t) || !type.has(s))
      return {};
    Key key{value.getAsOpaquePointer(), t.str(), s.str()};
    if (auto found = known.find(key); found != known.end())
      return found->second;
    Operation *op = value.getDefiningOp();
    Weights made = op ? make(op, t, s) : Weights{Form::Other};
    return known[key] = made;
  }

  static Weights product(Weights a, Weights b) {
    bool masked = a.masked || b.masked || a.form == Form::Order || b.form == Form::Order;
    return {a.form == Form::Other || b.form == Form::Other ? Form::Other : Form::Products, masked};
  }

private:
  using Key = std::tuple<void *, std::string, std::string>;
  std::map<Key, Weights> known;

  static bool timeless(Value value, StringRef t, StringRef s) { return !typeOf(value).has(t) && !typeOf(value).has(s); }

  Weights make(Operation *op, StringRef t, StringRef s) {
    auto operand = [&](unsigned i) { return of(op->getOperand(i), t, s); };
    auto constant = [&](unsigned i) { return timeless(op->getOperand(i), t, s); };
    auto touches = [&](ArrayRef<StringRef> dims) { return llvm::is_contained(dims, t) || llvm::is_contained(dims, s); };
    Weights other{Form::Other};
    return llvm::TypeSwitch<Operation *, Weights>(op)
        .Case<NegOp, ToRealOp, ExpandOp, PermuteOp, UnitOp, SqueezeOp, CutOp, SplitOp, MergeOp>([&](auto each) {
          Weights inner = operand(0);
          // Of a time that the operand lacks: it was made of another dimension.
          bool repeated = isa<ExpandOp>(each.getOperation());
          return inner.form == Form::Apart && !repeated ? other : inner;
        })
        .Case([&](RenameOp rename) {
          StringRef from[2] = {t, s};
          for (auto [old, to] : llvm::zip(rename.getFrom(), rename.getTo().getAsRange<DimAttr>()))
            for (auto [label, inner] : llvm::zip(std::array{t, s}, from))
              if (to.getName() == label)
                inner = cast<LabelAttr>(old).getName();
          return of(rename.getX(), from[0], from[1]);
        })
        .Case<AddOp, SubOp>([&](auto) {
          Weights a = operand(0), b = operand(1), both = product(a, b);
          auto sum = [](Form form) { return form == Form::Apart || form == Form::Sum; };
          return Weights{sum(a.form) && sum(b.form) ? Form::Sum : both.form, both.masked};
        })
        .Case([&](MulOp) {
          Weights a = operand(0), b = operand(1), both = product(a, b);
          if ((a.form == Form::Sum && constant(1)) || (b.form == Form::Sum && constant(0)))
            both.form = Form::Sum;
          return both;
        })
        .Case([&](DivOp) {
          Weights a = operand(0), b = operand(1), both = product(a, b);
          if (b.form != Form::Apart)
            return other;
          return Weights{a.form == Form::Sum && constant(1) ? Form::Sum : both.form, a.masked};
        })
        .Case<MaxOp, MinOp>([&](auto) { // a difference kept from running over
          Weights a = operand(0), b = operand(1);
          if ((a.form == Form::Sum && constant(1)) || (b.form == Form::Sum && constant(0)))
            return Weights{Form::Sum, a.masked || b.masked};
          return other;
        })
        .Case([&](ExpOp) {
          Weights inner = operand(0);
          return Weights{inner.form == Form::Sum ? Form::Products : Form::Other, inner.masked};
        })
        .Case([&](PowOp) {
          Weights exponent = operand(1);
          return Weights{exponent.form == Form::Sum && constant(0) ? Form::Products : Form::Other, exponent.masked};
        })
        .Case([&](CompareOp) {
          bool sums = true;
          for (unsigned i : {0u, 1u})
            sums &= operand(i).form == Form::Apart || operand(i).form == Form::Sum;
          return Weights{sums && llvm::all_of(op->getOperands(), isPosition) ? Form::Order : Form::Other};
        })
        .Case<AndOp, OrOp>([&](auto) {
          Weights a = operand(0), b = operand(1);
          if (a.form == Form::Other || b.form == Form::Other || (a.form == Form::Order && b.form == Form::Order))
            return other; // two orders: a window
          return Weights{a.form == Form::Order || b.form == Form::Order ? Form::Order : Form::Products};
        })
        .Case([&](NotOp) { return operand(0); })
        .Case([&](WhereOp) {
          Weights condition = operand(0), a = operand(1), b = operand(2);
          if (condition.form == Form::Other)
            return other;
          bool masked = condition.form == Form::Order || a.masked || b.masked;
          for (auto [side, i] : {std::pair(a, 2u), std::pair(b, 1u)}) // the other side: 0, or -inf below an exponential
            if (constant(i) && side.form != Form::Order)
              return Weights{side.form == Form::Apart ? Form::Sum : side.form, masked};
          return other;
        })
        .Case([&](ContractOp contract) {
          if (touches(names(contract.getDims())))
            return other;
          return product(operand(0), operand(1));
        })
        .Case([&](ReduceOp reduce) {
          bool sum = reduce.getReduction() == Reduction::sum || reduce.getReduction() == Reduction::mean;
          Weights inner = operand(0);
          return sum ? Weights{product(inner, {}).form, inner.masked} : other;
        })
        .Default([&](Operation *) { return other; });
  }

  /// Whether it is made of positions and numbers alone.
  static bool isPosition(Value value) {
    SmallVector<Value> work = {value};
    llvm::DenseSet<Value> seen;
    while (!work.empty()) {
      Value each = work.pop_back_val();
      if (!seen.insert(each).second)
        continue;
      Operation *op = each.getDefiningOp();
      if (!op || (!isElementwise(op) && !isa<IndexOp, ConstOp, SizeOp, RenameOp, ExpandOp, PermuteOp>(op)))
        return false;
      llvm::append_range(work, op->getOperands());
    }
    return true;
  }
};

} // namespace

std::vector<SlowSum> quern::passes::slowSums(ModuleOp module) {
  std::vector<SlowSum> found;
  for (auto function : module.getOps<func::FuncOp>()) {
    DimAttr time = timeDimension(function);
    if (!time)
      continue;
    Reader reader;
    function.walk([&](ContractOp sum) {
      for (StringRef s : names(sum.getDims())) {
        for (auto [weights, values] : {std::pair(sum.getA(), sum.getB()), std::pair(sum.getB(), sum.getA())}) {
          NamedTensorType type = typeOf(weights);
          if (!type.has(s) || type.dim(s).getSize() != time.getSize() || !typeOf(values).has(s))
            continue;
          for (DimAttr t : type.getDims()) {
            if (t.getName() == s || t.getSize() != time.getSize() || !typeOf(sum.getResult()).has(t.getName()))
              continue;
            Weights pair = Reader::product(reader.of(weights, t.getName(), s), reader.of(values, t.getName(), s));
            if (pair.form == Form::Products && pair.masked) {
              std::string text;
              for (DimAttr dim : type.getDims())
                text += (text.empty() ? "" : ", ") + dim.getName().split('.').first.str();
              found.push_back(
                  {sum.getLoc(), s.split('.').first.str(), t.getName().split('.').first.str(), "[" + text + "]"});
              return;
            }
          }
        }
      }
    });
  }
  return found;
}
