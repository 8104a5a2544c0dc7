// Takes: a kernel as Halide has lowered it. Gives: what it asks the runtime for, as a program over its lengths.
//
//   let t = (T + 95) / 96 * 96                       caller: t * 9216 + 128 + strip
//   allocate joined[t * 2304 floats]          =>     worker: strip, or 0 where there is one task
//   parallel for task: allocate strip[...]
//
// Why from the lowered kernel: schedules say where a block lives; how large it is, Halide decides. Its sizes are
// expressions over lengths that round, clamp and choose; they are copied here as they are, so the plan is what is
// asked for, for any target and schedule. Where a loop's counter changes the size of a block, the plan goes through the
// loop: the second-last task may need most. Blocks whose sizes are data are left out: the runtime takes memory of its own
// for what was not planned (runtime/machine/HalideHooks.cpp).
#include "codegen/halide/KernelScratch.h"

#include "codegen/halide/KernelBuilder.h"
#include "runtime/abi/Abi.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {
namespace {

using Op = Scratch::Op;

constexpr int64_t onStack = 16 * 1024; // Halide keeps blocks of a fixed size up to this on the processor's stack
constexpr int64_t alignment = QUERN_SCRATCH_ALIGNMENT;
constexpr int64_t aroundBlock = 2 * alignment; // a header before and room after

/// Which statements of a kernel have blocks in them; the others need no walk.
class Holders {
public:
  bool operator()(const Stmt &s) {
    class Finder : public IRVisitor {
    public:
      bool found = false;

    private:
      using IRVisitor::visit;
      void visit(const Allocate *) override { found = true; }
      void visit(const Store *) override {}
      void visit(const Evaluate *) override {}
    };
    auto [it, first] = known.try_emplace(s.get(), false);
    if (first) {
      Finder finder;
      s.accept(&finder);
      it->second = finder.found;
    }
    return it->second;
  }

private:
  std::unordered_map<const IRNode *, bool> known;
};

/// Steps for the most bytes that blocks of a statement have at one time: in a thread that runs it, and in one that only
/// helps with parallel loops in it.
struct Peak {
  int whole, helper;
};

class Walk {
public:
  explicit Walk(const std::vector<std::string> &symbols) {
    for (const std::string &symbol : symbols)
      known[lengthPrefix + symbol] = b.length(symbol);
  }
  Scratch of(const Stmt &kernel) {
    Peak peak = run(kernel);
    return b.finish(peak.whole, peak.helper);
  }

private:
  ScratchBuilder b;
  Holders hasBlocks;
  std::unordered_map<std::string, std::optional<int>> known; // names are unique in a lowered kernel
  struct Counter {
    int step, visits; ///< goes from 0 below
    int value, count; ///< what it stands for, and how many of that there are
  };
  std::vector<Counter> counters; // of the loops around, and parts of them
  std::map<std::tuple<Op, int, int>, int> parts;

  Peak nothing() { return {b.number(0), b.number(0)}; }
  Peak choose(int condition, Peak yes, Peak no) {
    return {b.make(Op::Select, condition, yes.whole, no.whole), b.make(Op::Select, condition, yes.helper, no.helper)};
  }
  Peak larger(Peak first, Peak second) {
    return {b.make(Op::Max, first.whole, second.whole), b.make(Op::Max, first.helper, second.helper)};
  }

  Peak run(const Stmt &s) {
    if (!s.defined() || !hasBlocks(s))
      return nothing();
    if (const LetStmt *let = s.as<LetStmt>()) {
      known[let->name] = value(let->value);
      return run(let->body);
    }
    if (const For *loop = s.as<For>())
      return runLoop(*loop);
    if (const Allocate *block = s.as<Allocate>()) {
      int bytes = bytesOf(*block);
      Peak peak = run(block->body); // of all of it: what is freed below other blocks waits for them
      return {b.make(Op::Add, peak.whole, bytes), peak.helper};
    }
    if (const IfThenElse *choice = s.as<IfThenElse>()) {
      std::optional<int> condition = value(choice->condition);
      Peak yes = run(choice->then_case), no = run(choice->else_case);
      return condition ? choose(*condition, yes, no) : larger(yes, no);
    }
    if (const Block *block = s.as<Block>()) {
      Peak first = run(block->first);
      return larger(first, run(block->rest));
    }
    if (const ProducerConsumer *part = s.as<ProducerConsumer>())
      return run(part->body);
    return nothing();
  }

  Peak runLoop(const For &loop) {
    std::optional<int> min = value(loop.min), extent = value(loop.extent);
    int counter = -1;
    known[loop.name] = std::nullopt;
    if (min && extent) {
      counters.push_back(visit(*extent));
      counter = counters.back().step;
      known[loop.name] = b.make(Op::Add, counters.back().value, *min);
    }
    Peak peak = run(loop.body);
    for (int last = -1; last != counter; counters.pop_back()) { // a counter, before it its parts
      last = counters.back().step;
      for (int *bytes : {&peak.whole, &peak.helper})
        *bytes = b.most(last, counters.back().visits, *bytes);
    }
    if (loop.is_parallel()) // a single task is its caller's
      peak.helper =
          extent ? b.make(Op::Select, b.make(Op::Equal, *extent, b.number(1)), peak.helper, peak.whole) : peak.whole;
    return extent ? choose(b.make(Op::Less, b.number(0), *extent), peak, nothing()) : peak;
  }

  /// All values of a counter; of more than 64 the first, middle and last ones, so that a plan costs little at any length.
  Counter visit(int count) {
    int step = b.counter(), none = b.number(0);
    auto beyond = [&](int most, int least) { return b.make(Op::Max, b.make(Op::Sub, most, b.number(least)), none); };
    int middle = beyond(b.make(Op::Div, count, b.number(2)), 32), last = beyond(count, 64);
    int skipped = b.make(Op::Select, b.make(Op::Less, step, b.number(24)), none,
                         b.make(Op::Select, b.make(Op::Less, step, b.number(40)), middle, last));
    return {step, b.make(Op::Min, count, b.number(64)), b.make(Op::Add, step, skipped), count};
  }

  /// Counters of fused loops are taken apart: of `task % blocks` and `task / blocks` each goes through its own values, so
  /// that heads, which change no size, cost nothing.
  std::optional<int> partOfCounter(Op op, int x, int y) {
    auto whole = std::find_if(counters.begin(), counters.end(), [&](const Counter &c) { return c.value == x; });
    if ((op != Op::Mod && op != Op::Div) || whole == counters.end() || b.varies(y))
      return std::nullopt;
    auto [it, first] = parts.try_emplace({op, x, y}, -1);
    if (first) {
      int last = b.make(Op::Sub, whole->count, b.number(1));
      Counter part = visit(op == Op::Mod ? b.make(Op::Min, whole->count, y)
                                         : b.make(Op::Add, b.make(Op::Div, last, y), b.number(1)));
      it->second = part.value;
      counters.insert(whole + 1, part);
    }
    return it->second;
  }

  int bytesOf(const Allocate &block) {
    int bytes = b.number(block.type.bytes() * block.type.lanes());
    bool fixed = true;
    for (const Expr &extent : block.extents) {
      std::optional<int> elements = value(extent);
      if (!elements) // bounds that are data (positions of each text)
        return b.number(0);
      fixed &= as_const_int(extent).has_value();
      bytes = b.make(Op::Mul, bytes, b.make(Op::Max, *elements, b.number(0)));
    }
    bytes =
        b.make(Op::Add, bytes, b.number(int64_t(block.padding) * block.type.bytes())); // loads may reach beyond the end
    if (fixed && b.known(bytes).value_or(0) <= onStack)
      return b.number(0);
    if (std::optional<int> needed = value(block.condition))
      bytes = b.make(Op::Select, *needed, bytes, b.number(0));
    int lines = b.make(Op::Div, b.make(Op::Add, bytes, b.number(alignment - 1)), b.number(alignment));
    return b.make(Op::Add, b.make(Op::Mul, lines, b.number(alignment)), b.number(aroundBlock));
  }

  /// Of an integer; nothing where it depends on more than lengths and counters.
  std::optional<int> value(const Expr &e) {
    switch (e.node_type()) {
    case IRNodeType::IntImm:
      return b.number(e.as<IntImm>()->value);
    case IRNodeType::UIntImm:
      return b.number(static_cast<int64_t>(e.as<UIntImm>()->value));
    case IRNodeType::Variable: {
      auto it = known.find(e.as<Variable>()->name);
      return it == known.end() ? std::nullopt : it->second;
    }
    case IRNodeType::Cast: {
      const Cast &cast = *e.as<Cast>();
      return cast.type.is_float() || cast.value.type().is_float() ? std::nullopt : value(cast.value);
    }
    case IRNodeType::Let: {
      const Let &let = *e.as<Let>();
      known[let.name] = value(let.value);
      return value(let.body);
    }
    case IRNodeType::Not:
      return negated(value(e.as<Not>()->a));
    case IRNodeType::Select: {
      const Select &select = *e.as<Select>();
      std::optional<int> condition = value(select.condition), yes = value(select.true_value),
                         no = value(select.false_value);
      if (condition && b.known(*condition))
        return *b.known(*condition) ? yes : no;
      return condition && yes && no ? std::optional(b.make(Op::Select, *condition, *yes, *no)) : std::nullopt;
    }
    case IRNodeType::Call: {
      const Call &call = *e.as<Call>();
      bool same = call.is_intrinsic(
          {Call::likely, Call::likely_if_innermost, Call::promise_clamped, Call::unsafe_promise_clamped});
      return same ? value(call.args[0]) : std::nullopt;
    }
    case IRNodeType::Add:
      return ofTwo(Op::Add, *e.as<Add>());
    case IRNodeType::Sub:
      return ofTwo(Op::Sub, *e.as<Sub>());
    case IRNodeType::Mul:
      return ofTwo(Op::Mul, *e.as<Mul>());
    case IRNodeType::Div:
      return ofTwo(Op::Div, *e.as<Div>());
    case IRNodeType::Mod:
      return ofTwo(Op::Mod, *e.as<Mod>());
    case IRNodeType::Min:
      return ofTwo(Op::Min, *e.as<Min>());
    case IRNodeType::Max:
      return ofTwo(Op::Max, *e.as<Max>());
    case IRNodeType::EQ:
      return ofTwo(Op::Equal, *e.as<EQ>());
    case IRNodeType::NE:
      return negated(ofTwo(Op::Equal, *e.as<NE>()));
    case IRNodeType::LT:
      return ofTwo(Op::Less, *e.as<LT>());
    case IRNodeType::LE:
      return negated(ofTwo(Op::Less, e.as<LE>()->b, e.as<LE>()->a));
    case IRNodeType::GT:
      return ofTwo(Op::Less, e.as<GT>()->b, e.as<GT>()->a);
    case IRNodeType::GE:
      return negated(ofTwo(Op::Less, *e.as<GE>()));
    case IRNodeType::And: // of 0 and 1
      return ofTwo(Op::Min, *e.as<And>());
    case IRNodeType::Or:
      return ofTwo(Op::Max, *e.as<Or>());
    default:
      return std::nullopt;
    }
  }
  std::optional<int> negated(std::optional<int> condition) {
    return condition ? std::optional(b.negated(*condition)) : std::nullopt;
  }
  std::optional<int> ofTwo(Op op, const Expr &first, const Expr &second) {
    std::optional<int> x = value(first), y = value(second);
    if (!x || !y)
      return std::nullopt;
    std::optional<int> part = partOfCounter(op, *x, *y);
    return part ? *part : b.make(op, *x, *y);
  }
  template <typename Node> std::optional<int> ofTwo(Op op, const Node &node) { return ofTwo(op, node.a, node.b); }
};

} // namespace

Scratch scratchOf(const Stmt &kernel, const std::vector<std::string> &symbols) {
  return Walk(symbols).of(kernel);
}

} // namespace quern::codegen
