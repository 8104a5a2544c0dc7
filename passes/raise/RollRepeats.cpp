// Takes: functions with one `quern.repeat` for each iteration of a source loop. Gives: the same functions with equal
// neighbours folded into one repeat of several iterations, and with periodic neighbours (A A B A A B ...) folded into a
// repeat around repeats. Why: later work, and the size of the program, must not grow with the number of layers.
//
//   %1 = quern.repeat 1 carry (%a = %0) : ... { param [["h.0.w"]] ... }          before
//   %2 = quern.repeat 1 carry (%a = %1) : ... { param [["h.1.w"]] ... }
//
//   %2 = quern.repeat 2 carry (%a = %0) : ... { param [["h.0.w"], ["h.1.w"]] ... }  after
//
// Two iterations are equal when their bodies are the same text up to the names of parameters, locations, and the names
// of dimensions that exist only inside the body. Each body is reduced to a list of numbers once (its signature), so the
// work is linear in the size of the function but for comparisons of small integers. Neighbours that stay apart have a
// remark that says what differs.
//
// A module to be trained has one gradient for each parameter. So a parameter that several iterations share is one of
// the things in which bodies must be equal: those that share it fold, the others stay as they are. The formats of
// matrices are, too (--quantize, a mixed GGUF file): layers in Q4_K and in Q6_K are loops of their
// own, and each matrix is read in the bytes that it has.
#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "passes/Passes.h"
#include "passes/raise/ExplainLoops.h"
#include "passes/weights/WeightFormats.h"

#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;
using namespace quern::ir;

namespace {

using Signature = std::vector<uintptr_t>;

/// One iteration (or, after a first fold, several equal ones) as numbers, with what it uses from outside.
struct Iteration {
  mutable RepeatOp op; // a handle: its accessors are not const
  /// The initial values, then every value the body captures, in order of first use.
  SmallVector<Value> outside;
  /// Names of the body's own dimensions, in order of first use; the signature speaks of them by number.
  std::vector<std::string> labels;
  int kind = 0; // equal bodies have equal kinds
};

/// What of parameters keeps iterations apart that are equal otherwise.
struct Apart {
  llvm::StringSet<> sharedParameters;                 ///< names that bodies must have alike
  std::optional<quern::passes::WeightFormats> stored; ///< formats that matrices must have alike
};

/// Writes the signature of one repeat's body.
class Signer {
public:
  Signer(Iteration &iteration, const Apart &apart) : iteration(iteration), apart(apart) {
    iteration.outside.assign(iteration.op.getInits().begin(), iteration.op.getInits().end());
    for (BlockArgument argument : iteration.op.getBlock().getArguments())
      shared(argument.getType());
    // What a body captures has types that all iterations see, so their names are not the body's own.
    iteration.op.getBody().walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (!isInside(operand))
          shared(operand.getType());
    });
  }

  Signature run() {
    region(iteration.op.getBody());
    put(iteration.op->getDiscardableAttrDictionary().getAsOpaquePointer());
    return std::move(out);
  }

private:
  Iteration &iteration;
  const Apart &apart;
  Signature out;
  llvm::StringMap<uintptr_t> labelIds; // of the body's own dimensions
  llvm::StringMap<StringAttr> global;  // names that come from outside
  llvm::DenseMap<Value, uintptr_t> ids;
  uintptr_t nextId = 0;

  void put(uintptr_t number) { out.push_back(number); }
  void put(const void *pointer) { out.push_back(reinterpret_cast<uintptr_t>(pointer)); }

  bool isInside(Value value) {
    Region *region = value.getParentRegion();
    return region && iteration.op.getBody().isAncestor(region);
  }

  void shared(Type type) {
    if (auto tensor = dyn_cast<NamedTensorType>(type))
      for (DimAttr dim : tensor.getDims())
        global.try_emplace(dim.getName(), StringAttr::get(dim.getContext(), dim.getName()));
  }

  void label(StringRef name) {
    if (auto known = global.find(name); known != global.end())
      return put(known->second.getAsOpaquePointer());
    auto [at, isNew] = labelIds.try_emplace(name, iteration.labels.size());
    if (isNew)
      iteration.labels.push_back(name.str());
    put(uintptr_t(1));
    put(at->second);
  }

  void type(Type type) {
    auto tensor = dyn_cast<NamedTensorType>(type);
    if (!tensor)
      return put(type.getAsOpaquePointer());
    put(static_cast<uintptr_t>(tensor.getStorage()));
    put(static_cast<uintptr_t>(tensor.getRank()));
    for (DimAttr dim : tensor.getDims())
      attribute(dim);
  }

  void attribute(Attribute attr) {
    if (auto dim = dyn_cast<DimAttr>(attr)) {
      label(dim.getName());
      put(StringAttr::get(dim.getContext(), dim.getSizeText()).getAsOpaquePointer());
    } else if (auto name = dyn_cast<LabelAttr>(attr)) {
      label(name.getName());
    } else if (auto list = dyn_cast<ArrayAttr>(attr)) {
      put(uintptr_t(list.size()));
      for (Attribute element : list)
        attribute(element);
    } else if (auto held = dyn_cast<TypeAttr>(attr)) {
      type(held.getValue());
    } else {
      put(attr.getAsOpaquePointer());
    }
  }

  void operand(Value value) {
    if (isInside(value)) {
      put(uintptr_t(2));
      return put(ids.lookup(value));
    }
    auto known = llvm::find(iteration.outside, value);
    // The first entries are initial values; a capture of the same value is another thing, so it gets its own entry.
    size_t inits = iteration.op.getInits().size();
    if (known == iteration.outside.end() || known < iteration.outside.begin() + inits) {
      known = std::find(iteration.outside.begin() + inits, iteration.outside.end(), value);
      if (known == iteration.outside.end()) {
        iteration.outside.push_back(value);
        known = iteration.outside.end() - 1;
      }
    }
    put(uintptr_t(3));
    put(uintptr_t(known - iteration.outside.begin()));
  }

  void region(Region &region) {
    Block &block = region.front();
    put(uintptr_t(block.getNumArguments()));
    for (BlockArgument argument : block.getArguments()) {
      ids[argument] = nextId++;
      type(argument.getType());
    }
    for (Operation &op : block)
      operation(op);
  }

  void operation(Operation &op) {
    put(op.getName().getAsOpaquePointer());
    put(uintptr_t(op.getNumOperands()));
    for (Value value : op.getOperands())
      operand(value);
    for (NamedAttribute attr : op.getAttrDictionary()) {
      put(attr.getName().getAsOpaquePointer());
      if (auto param = dyn_cast<ParamOp>(op); param && attr.getName() == "paths") {
        put(uintptr_t(param.getIterations()));
        for (const std::string &stacked : param.getStacked())
          label(stacked);
        if (llvm::any_of(param.getPaths(), [&](Attribute names) {
              return apart.sharedParameters.contains(cast<StringAttr>(cast<ArrayAttr>(names)[0]));
            }))
          put(attr.getValue().getAsOpaquePointer());
        if (apart.stored) {
          auto [weight, rows] = apart.stored->ofMatrix(param);
          put(static_cast<uintptr_t>(weight));
          put(static_cast<uintptr_t>(rows));
        }
      } else {
        attribute(attr.getValue());
      }
    }
    put(uintptr_t(op.getNumResults()));
    for (Value value : op.getResults()) {
      ids[value] = nextId++;
      type(value.getType());
    }
    for (Region &nested : op.getRegions())
      region(nested);
  }
};

/// `{label}` in a parameter's names follows the names of the body that stays.
ArrayAttr renamed(ArrayAttr paths, ArrayRef<std::string> from, ArrayRef<std::string> to) {
  return cast<ArrayAttr>(paths.replace([&](StringAttr path) -> std::optional<Attribute> {
    std::string text = path.str(), out;
    for (size_t i = 0; i < text.size();) {
      size_t close = text[i] == '{' ? text.find('}', i) : std::string::npos;
      if (close == std::string::npos) {
        out += text[i++];
        continue;
      }
      std::string label = text.substr(i + 1, close - i - 1);
      auto at = llvm::find(from, label);
      out += "{" + (at == from.end() ? label : to[at - from.begin()]) + "}";
      i = close + 1;
    }
    return StringAttr::get(path.getContext(), out);
  }));
}

/// Appends the parameters' names of `other`'s body to those of `iteration`'s, an equal body.
void appendPaths(const Iteration &iteration, const Iteration &other) {
  SmallVector<ParamOp> mine, theirs;
  iteration.op->walk([&](ParamOp param) { mine.push_back(param); });
  other.op->walk([&](ParamOp param) { theirs.push_back(param); });
  for (auto [a, b] : llvm::zip_equal(mine, theirs)) {
    SmallVector<Attribute> paths(a.getPaths().getValue());
    llvm::append_range(paths, renamed(b.getPaths(), other.labels, iteration.labels));
    a.setPathsAttr(ArrayAttr::get(a.getContext(), paths));
  }
}

/// Whether `next` continues where `iteration` ended, with everything else it sees the same.
bool follows(const Iteration &iteration, const Iteration &next) {
  if (iteration.kind != next.kind || iteration.outside.size() != next.outside.size())
    return false;
  size_t inits = iteration.op.getInits().size();
  for (size_t i = 0; i < iteration.outside.size(); ++i)
    if (i < inits ? next.outside[i] != iteration.op.getResult(i) : next.outside[i] != iteration.outside[i])
      return false;
  // A capture of an earlier iteration's own result would change with each iteration.
  return llvm::none_of(ArrayRef(next.outside).drop_front(inits),
                       [&](Value value) { return value.getDefiningOp() == iteration.op.getOperation(); });
}

/// A run of neighbours that repeats itself: `period` iterations, `count` times.
struct Cycle {
  size_t begin, period, count;
};

class Roller {
public:
  explicit Roller(Apart apart) : apart(std::move(apart)) {}

  void run(Block &block) {
    for (Operation &op : block)
      for (Region &region : op.getRegions())
        if (!region.empty())
          run(region.front());
    // Iterations of a loop stand next to one another; anything else between two repeats ends a chain.
    SmallVector<Iteration> chain;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto repeat = dyn_cast<RepeatOp>(op)) {
        chain.emplace_back();
        chain.back().op = repeat;
        continue;
      }
      roll(chain);
      chain.clear();
    }
  }

private:
  Apart apart;
  std::map<Signature, int> kinds;

  void roll(SmallVectorImpl<Iteration> &chain) {
    if (chain.size() < 2)
      return;
    for (Iteration &iteration : chain)
      iteration.kind = kinds.try_emplace(Signer(iteration, apart).run(), kinds.size()).first->second;

    SmallVector<Iteration> runs;
    for (Iteration &iteration : chain) {
      if (!runs.empty() && follows(runs.back(), iteration)) {
        Iteration &last = runs.back();
        appendPaths(last, iteration);
        last.op.setIterations(last.op.getIterations() + iteration.op.getIterations());
        iteration.op.replaceAllUsesWith(last.op);
        for (Iteration &later : chain) // what later iterations see of this one is the run's
          for (Value &value : later.outside)
            if (value.getDefiningOp() == iteration.op.getOperation())
              value = last.op.getResult(cast<OpResult>(value).getResultNumber());
        iteration.op.erase();
        continue;
      }
      runs.push_back(iteration);
    }

    for (size_t i = 0; i < runs.size();) {
      Cycle best{i, 0, 0};
      for (size_t period = 2; i + 2 * period <= runs.size(); ++period) {
        size_t count = countCycles(runs, i, period);
        if (count >= 2 && count * period > best.count * best.period)
          best = {i, period, count};
      }
      if (best.count) {
        wrap(runs, best);
        i += best.period * best.count;
        continue;
      }
      if (i + 1 < runs.size() && runs[i].op.getLoc() == runs[i + 1].op.getLoc())
        quern::passes::explainUnrolled(runs[i].op, runs[i + 1].op, apart.stored);
      ++i;
    }
  }

  /// Where an outside value comes from, seen from iteration `at` of a cycle: the same value for every cycle, a
  /// result of this cycle, or a result of the cycle before.
  struct Source {
    enum { Fixed, Here, Before } kind;
    size_t iteration = 0;
    unsigned result = 0;
    Value value;
    bool operator==(const Source &o) const {
      return kind == o.kind && iteration == o.iteration && result == o.result && value == o.value;
    }
  };
  static Source source(ArrayRef<Iteration> runs, size_t begin, size_t period, Value value) {
    for (size_t t = 0; t < period; ++t) {
      if (value.getDefiningOp() == runs[begin + t].op.getOperation())
        return {Source::Here, t, cast<OpResult>(value).getResultNumber(), {}};
      if (begin >= period && value.getDefiningOp() == runs[begin - period + t].op.getOperation())
        return {Source::Before, t, cast<OpResult>(value).getResultNumber(), {}};
    }
    return {Source::Fixed, 0, 0, value};
  }

  /// How often the `period` iterations from `begin` on repeat themselves.
  static size_t countCycles(ArrayRef<Iteration> runs, size_t begin, size_t period) {
    auto same = [&](size_t a, size_t b) { // cycles that begin at a and b
      for (size_t t = 0; t < period; ++t)
        if (runs[a + t].kind != runs[b + t].kind || runs[a + t].op.getIterations() != runs[b + t].op.getIterations() ||
            runs[a + t].outside.size() != runs[b + t].outside.size())
          return false;
      return true;
    };
    size_t count = 1;
    while (begin + (count + 1) * period <= runs.size() && same(begin, begin + count * period) &&
           wiredAlike(runs, begin, period, count))
      ++count;
    return count;
  }

  /// Whether cycle number `count` is wired as those before it. The first cycle takes initial values where later ones
  /// take results of the cycle before.
  static bool wiredAlike(ArrayRef<Iteration> runs, size_t begin, size_t period, size_t count) {
    std::map<std::pair<size_t, unsigned>, Value> carried;
    for (size_t t = 0; t < period; ++t)
      for (size_t i = 0; i < runs[begin + t].outside.size(); ++i) {
        auto from = [&](size_t cycle) {
          return source(runs.slice(begin), cycle * period, period, runs[begin + cycle * period + t].outside[i]);
        };
        Source now = from(count), first = from(0);
        if (count > 1 ? !(now == from(1)) : now.kind != Source::Before && !(now == first))
          return false;
        if (now.kind != Source::Before)
          continue;
        if (first.kind != Source::Fixed)
          return false;
        auto [at, isNew] = carried.try_emplace({now.iteration, now.result}, first.value);
        if (!isNew && at->second != first.value)
          return false;
      }
    return true;
  }

  /// Puts the first cycle's iterations into a new repeat and drops the others.
  static void wrap(MutableArrayRef<Iteration> runs, Cycle cycle) {
    MutableArrayRef<Iteration> first = runs.slice(cycle.begin, cycle.period);
    MutableArrayRef<Iteration> last = runs.slice(cycle.begin + (cycle.count - 1) * cycle.period, cycle.period);
    MutableArrayRef<Iteration> second = runs.slice(cycle.begin + cycle.period, cycle.period);

    // Carried: what a cycle takes from the one before, and what is used after the last.
    using Key = std::pair<size_t, unsigned>;
    std::map<Key, Value> carried;
    for (size_t t = 0; t < cycle.period; ++t)
      for (size_t i = 0; i < first[t].outside.size(); ++i) {
        Source from = source(runs.slice(cycle.begin), cycle.period, cycle.period, second[t].outside[i]);
        if (from.kind == Source::Before)
          carried.try_emplace({from.iteration, from.result}, first[t].outside[i]);
      }
    auto inCycles = [&](Operation *user) {
      for (size_t t = 0; t < cycle.period * cycle.count; ++t)
        if (runs[cycle.begin + t].op->isAncestor(user))
          return true;
      return false;
    };
    for (size_t t = 0; t < cycle.period; ++t)
      for (OpResult result : last[t].op->getResults()) {
        if (carried.count({t, result.getResultNumber()}) || llvm::all_of(result.getUsers(), inCycles))
          continue;
        Value init = first[t].op.getInits()[result.getResultNumber()];
        while (auto from = init.getDefiningOp<RepeatOp>()) { // back to what entered the first cycle
          if (llvm::none_of(first, [&](const Iteration &iteration) { return iteration.op == from; }))
            break;
          init = from.getInits()[cast<OpResult>(init).getResultNumber()];
        }
        carried.try_emplace({t, result.getResultNumber()}, init);
      }

    SmallVector<Value> inits;
    SmallVector<Type> types;
    for (auto &[key, init] : carried) {
      inits.push_back(init);
      types.push_back(first[key.first].op.getResult(key.second).getType());
    }
    OpBuilder builder(first[0].op);
    auto outer = RepeatOp::create(builder, first[0].op.getLoc(), types, inits, cycle.count);
    Block &block = outer.getBody().emplaceBlock();
    std::map<Key, Value> arguments;
    for (auto &[key, init] : carried)
      arguments[key] = block.addArgument(init.getType(), init.getLoc());

    for (size_t c = 1; c < cycle.count; ++c)
      for (size_t t = 0; t < cycle.period; ++t)
        appendPaths(first[t], runs[cycle.begin + c * cycle.period + t]);
    for (auto [i, entry] : llvm::enumerate(carried))
      last[entry.first.first]
          .op.getResult(entry.first.second)
          .replaceUsesWithIf(outer.getResult(i), [&](OpOperand &use) { return !inCycles(use.getOwner()); });
    for (size_t t = 0; t < cycle.period; ++t) {
      for (size_t i = 0; i < first[t].outside.size(); ++i) {
        Source from = source(runs.slice(cycle.begin), cycle.period, cycle.period, second[t].outside[i]);
        if (from.kind != Source::Before)
          continue;
        Value argument = arguments[{from.iteration, from.result}];
        if (i < first[t].op.getInits().size())
          first[t].op.getInitsMutable()[i].set(argument);
        else
          first[t].outside[i].replaceUsesWithIf(argument, [&](OpOperand &use) {
            return use.getOwner() != first[t].op && first[t].op->isAncestor(use.getOwner());
          });
      }
      first[t].op->moveBefore(&block, block.end());
    }
    SmallVector<Value> yielded;
    for (auto &[key, init] : carried)
      yielded.push_back(first[key.first].op.getResult(key.second));
    builder.setInsertionPointToEnd(&block);
    YieldOp::create(builder, first[0].op.getLoc(), yielded);
    for (size_t t = cycle.period * cycle.count; t-- > cycle.period;)
      runs[cycle.begin + t].op.erase();
    for (size_t t = cycle.period; t < cycle.period * cycle.count; ++t)
      runs[cycle.begin + t].op = first[t % cycle.period].op;
  }
};

struct RollRepeatsPass : PassWrapper<RollRepeatsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RollRepeatsPass)
  StringRef getArgument() const override { return "roll-repeats"; }
  StringRef getDescription() const override { return "fold equal neighbouring iterations of a loop into one repeat"; }
  void runOnOperation() override {
    ProgramOptions options = optionsOf(getOperation());
    std::optional<quern::passes::WeightFormats> stored;
    if (!options.quantize.empty())
      stored = quern::passes::WeightFormats::of(options);
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      Roller({options.train ? sharedParameters(function) : llvm::StringSet<>(), stored}).run(function.front());
    }
  }

private:
  /// Names of parameters that several operations read.
  static llvm::StringSet<> sharedParameters(func::FuncOp function) {
    llvm::StringSet<> seen, shared;
    function.walk([&](ParamOp param) {
      for (Attribute names : param.getPaths())
        if (StringRef name = cast<StringAttr>(cast<ArrayAttr>(names)[0]); !seen.insert(name).second)
          shared.insert(name);
    });
    return shared;
  }
};

} // namespace

std::unique_ptr<Pass> quern::passes::createRollRepeatsPass() {
  return std::make_unique<RollRepeatsPass>();
}
