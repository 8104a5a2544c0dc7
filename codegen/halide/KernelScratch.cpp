// Takes: a kernel as Halide has lowered it. Gives: polynomials over its symbols for what it asks the runtime for.
//
//   let t = (T + 95) / 96 * 96                       9216 * T + 875904, and for few rows another polynomial
//   allocate joined[t * 2304 floats]          =>
//   parallel for task: allocate strip[...]
//
// Why from the lowered kernel: schedules say where a block lives; how large it is, Halide decides. Its sizes are
// expressions that round and clamp, and fused loops divide by products of lengths; a symbolic bound of them is too wide
// by half. So they are computed at many lengths, loops at their ends, and polynomials laid through: exact at large
// lengths, and no less at any that was tried. A size beyond that is no error: the runtime takes memory of its own for
// it (runtime/machine/HalideHooks.cpp).
#include "codegen/halide/KernelScratch.h"

#include "codegen/halide/KernelBuilder.h"
#include "runtime/abi/Abi.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <list>
#include <numeric>
#include <optional>
#include <unordered_map>

using namespace Halide;
using namespace Halide::Internal;
using quern::ir::Size;

namespace quern::codegen {
namespace {

constexpr int64_t onStack = 16 * 1024; // Halide keeps blocks of a fixed size up to this on the processor's stack
constexpr int64_t alignment = QUERN_SCRATCH_ALIGNMENT;
constexpr int64_t aroundBlock = 2 * alignment; // a header before and room after

struct Peak {
  int64_t caller = 0, worker = 0;
};

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

/// A kernel's blocks at one choice of lengths.
class Walk {
public:
  Walk(Holders &hasBlocks, const std::vector<std::string> &symbols, const std::vector<int64_t> &lengths)
      : hasBlocks(hasBlocks) {
    for (size_t i = 0; i < symbols.size(); ++i)
      known[lengthPrefix + symbols[i]] = lengths[i];
  }
  Peak peak;

  void run(const Stmt &s) {
    if (!s.defined() || !hasBlocks(s))
      return;
    if (const LetStmt *let = s.as<LetStmt>()) {
      known[let->name] = value(let->value);
      run(let->body);
    } else if (const For *loop = s.as<For>()) {
      runLoop(*loop);
    } else if (const Allocate *block = s.as<Allocate>()) {
      int64_t &sum = parallel ? inside : outside, bytes = bytesOf(*block);
      sum += bytes;
      peak.caller = std::max(peak.caller, outside + inside);
      if (helped)
        peak.worker = std::max(peak.worker, inside);
      run(block->body);
      sum -= bytes; // not before: what is freed below other blocks waits for them
    } else if (const IfThenElse *choice = s.as<IfThenElse>()) {
      std::optional<int64_t> condition = value(choice->condition);
      if (condition.value_or(1))
        run(choice->then_case);
      if (!condition.value_or(0))
        run(choice->else_case);
    } else if (const Block *block = s.as<Block>()) {
      run(block->first);
      run(block->rest);
    } else if (const ProducerConsumer *part = s.as<ProducerConsumer>()) {
      run(part->body);
    }
  }

private:
  std::unordered_map<std::string, std::optional<int64_t>> known; // names are unique in a lowered kernel
  Holders &hasBlocks;
  int64_t outside = 0, inside = 0;
  bool parallel = false, helped = false;

  void runLoop(const For &loop) {
    std::optional<int64_t> min = value(loop.min), extent = value(loop.extent);
    if (extent && *extent <= 0)
      return;
    bool outer = parallel, alone = helped;
    parallel |= loop.is_parallel();
    helped |= loop.is_parallel() && extent != 1; // a single task is its caller's
    std::vector<std::optional<int64_t>> counters = {std::nullopt};
    if (min && extent)
      counters = {*min, *min + *extent / 2, *min + *extent - 1};
    counters.erase(std::unique(counters.begin(), counters.end()), counters.end());
    for (std::optional<int64_t> counter : counters) {
      known[loop.name] = counter;
      run(loop.body);
    }
    parallel = outer;
    helped = alone;
  }

  int64_t bytesOf(const Allocate &block) {
    int64_t bytes = block.type.bytes() * block.type.lanes();
    bool fixed = true;
    for (const Expr &extent : block.extents) {
      std::optional<int64_t> elements = value(extent);
      if (!elements) // bounds that are data (positions of each text)
        return 0;
      fixed &= as_const_int(extent).has_value();
      bytes *= std::max<int64_t>(0, *elements);
    }
    if (fixed && bytes <= onStack)
      return 0;
    if (std::optional<int64_t> needed = value(block.condition); needed && !*needed)
      bytes = 0;
    return (bytes + alignment - 1) / alignment * alignment + aroundBlock;
  }

  /// Of an integer; nothing where it depends on more than lengths and counters.
  std::optional<int64_t> value(const Expr &e) {
    switch (e.node_type()) {
    case IRNodeType::IntImm:
      return e.as<IntImm>()->value;
    case IRNodeType::UIntImm:
      return static_cast<int64_t>(e.as<UIntImm>()->value);
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
    case IRNodeType::Not: {
      std::optional<int64_t> a = value(e.as<Not>()->a);
      return a ? std::optional<int64_t>(!*a) : std::nullopt;
    }
    case IRNodeType::Select: {
      const Select &select = *e.as<Select>();
      std::optional<int64_t> condition = value(select.condition);
      return condition ? value(*condition ? select.true_value : select.false_value) : std::nullopt;
    }
    case IRNodeType::Call: {
      const Call &call = *e.as<Call>();
      bool same = call.is_intrinsic(
          {Call::likely, Call::likely_if_innermost, Call::promise_clamped, Call::unsafe_promise_clamped});
      return same ? value(call.args[0]) : std::nullopt;
    }
    case IRNodeType::Add:
      return ofTwo(*e.as<Add>(), [](int64_t a, int64_t b) { return a + b; });
    case IRNodeType::Sub:
      return ofTwo(*e.as<Sub>(), [](int64_t a, int64_t b) { return a - b; });
    case IRNodeType::Mul:
      return ofTwo(*e.as<Mul>(), [](int64_t a, int64_t b) { return a * b; });
    case IRNodeType::Div:
      return ofTwo(*e.as<Div>(), [](int64_t a, int64_t b) { return div_imp(a, b); });
    case IRNodeType::Mod:
      return ofTwo(*e.as<Mod>(), [](int64_t a, int64_t b) { return mod_imp(a, b); });
    case IRNodeType::Min:
      return ofTwo(*e.as<Min>(), [](int64_t a, int64_t b) { return std::min(a, b); });
    case IRNodeType::Max:
      return ofTwo(*e.as<Max>(), [](int64_t a, int64_t b) { return std::max(a, b); });
    case IRNodeType::EQ:
      return ofTwo(*e.as<EQ>(), [](int64_t a, int64_t b) { return int64_t(a == b); });
    case IRNodeType::NE:
      return ofTwo(*e.as<NE>(), [](int64_t a, int64_t b) { return int64_t(a != b); });
    case IRNodeType::LT:
      return ofTwo(*e.as<LT>(), [](int64_t a, int64_t b) { return int64_t(a < b); });
    case IRNodeType::LE:
      return ofTwo(*e.as<LE>(), [](int64_t a, int64_t b) { return int64_t(a <= b); });
    case IRNodeType::GT:
      return ofTwo(*e.as<GT>(), [](int64_t a, int64_t b) { return int64_t(a > b); });
    case IRNodeType::GE:
      return ofTwo(*e.as<GE>(), [](int64_t a, int64_t b) { return int64_t(a >= b); });
    case IRNodeType::And:
      return ofTwo(*e.as<And>(), [](int64_t a, int64_t b) { return int64_t(a && b); });
    case IRNodeType::Or:
      return ofTwo(*e.as<Or>(), [](int64_t a, int64_t b) { return int64_t(a || b); });
    default:
      return std::nullopt;
    }
  }
  template <typename Node, typename Operation> std::optional<int64_t> ofTwo(const Node &node, Operation operation) {
    std::optional<int64_t> a = value(node.a), b = value(node.b);
    return a && b ? std::optional<int64_t>(operation(*a, *b)) : std::nullopt;
  }
};

using Lengths = std::vector<int64_t>;

/// Each with each of `values` behind it.
std::vector<Lengths> extended(const std::vector<Lengths> &choices, const Lengths &values) {
  std::vector<Lengths> longer;
  for (const Lengths &lengths : choices)
    for (int64_t value : values) {
      longer.push_back(lengths);
      longer.back().push_back(value);
    }
  return longer;
}

Size termOf(const Size::Monomial &symbols, int64_t coefficient) {
  Size term(coefficient);
  for (const std::string &symbol : symbols)
    term = term * Size::symbol(symbol);
  return term;
}

Stmt withOnes(Stmt kernel, const std::vector<std::string> &symbols) {
  for (const std::string &symbol : symbols)
    kernel = LetStmt::make(lengthPrefix + symbol, 1, kernel);
  return kernel;
}

/// Polynomials over lengths that are no less than a kernel's peaks, where some other lengths are 1. Peaks grow, round
/// up, and stop growing (a block has its size), so one polynomial is far off somewhere; the least of some is near
/// everywhere.
class Fit {
public:
  Fit(const Stmt &kernel, Holders &hasBlocks, std::vector<std::string> symbols, std::vector<std::string> ones)
      : kernel(withOnes(kernel, ones)), hasBlocks(hasBlocks), symbols(std::move(symbols)), ones(std::move(ones)) {
    static const Lengths all = {0, 2, 3, 7, 16, 48, 100, 300, 512, 1000, 4097, 30000, 100000},
                         many = {0, 2, 3, 7, 16, 48, 100, 300, 512, 1000, 4097},
                         some = {0, 2, 16, 100, 300, 1000, 4097}, few = {0, 2, 300, 4097};
    size_t count = this->symbols.size();
    tried = grid(count, count <= 1 ? all : count == 2 ? many : count == 3 ? some : few);
  }

  std::vector<Size> lengthsOfOne() const {
    std::vector<Size> lengths;
    for (const std::string &symbol : ones)
      lengths.push_back(Size::symbol(symbol));
    return lengths;
  }

  std::vector<Size> least(int64_t Peak::*which) {
    std::vector<Size> candidates;
    for (int64_t scale : scales)
      for (size_t low = 0; low < size_t(1) << symbols.size(); ++low) {
        Size polynomial = through(scale, low, which);
        Terms terms = termsOf(polynomial);
        int64_t missing = 0;
        for (const Lengths &lengths : tried)
          missing = std::max(missing, peakAt(lengths).*which - valueOf(terms, lengths));
        candidates.push_back(polynomial + Size(missing));
      }
    int64_t highest = 0; // where blocks stop growing
    for (const auto &[lengths, peak] : peaks)
      highest = std::max(highest, peak.*which);
    candidates.push_back(Size(highest));
    // One after the other, that which brings most lengths near the least of all.
    std::vector<std::vector<int64_t>> values;
    std::vector<int64_t> least(tried.size(), INT64_MAX), best = least;
    for (const Size &candidate : candidates) {
      values.emplace_back();
      Terms terms = termsOf(candidate);
      for (size_t i = 0; i < tried.size(); ++i) {
        values.back().push_back(valueOf(terms, tried[i]));
        least[i] = std::min(least[i], values.back()[i]);
      }
    }
    auto near = [&](int64_t value, size_t i) { return value <= least[i] + least[i] / 50 + 512; };
    std::vector<Size> chosen;
    for (;;) {
      size_t next = 0, most = 0;
      for (size_t c = 0; c < candidates.size(); ++c) {
        size_t count = 0;
        for (size_t i = 0; i < tried.size(); ++i)
          count += !near(best[i], i) && near(values[c][i], i);
        if (count > most)
          most = count, next = c;
      }
      if (!most)
        break;
      chosen.push_back(candidates[next]);
      for (size_t i = 0; i < tried.size(); ++i)
        best[i] = std::min(best[i], values[next][i]);
    }
    return chosen;
  }

  /// Those of the symbols that sizes depend on.
  std::vector<std::string> relevant() {
    std::vector<std::string> out;
    for (size_t at = 0; at < symbols.size(); ++at)
      for (Lengths lengths : grid(symbols.size(), {1, 20, 1000})) {
        Peak first = peakAt(lengths);
        lengths[at] = lengths[at] == 1 ? 2 : 333;
        Peak second = peakAt(lengths);
        if (first.caller != second.caller || first.worker != second.worker) {
          out.push_back(symbols[at]);
          break;
        }
      }
    return out;
  }

  /// `cases` are near the peaks already, with these symbols 1.
  bool covered(const std::vector<Scratch::Case> &cases, int64_t Peak::*which) {
    for (const Lengths &lengths : tried) {
      int64_t value = 0, truth = peakAt(lengths).*which;
      for (const Scratch::Case &one : cases)
        if (std::all_of(one.ones.begin(), one.ones.end(), [&](const Size &length) { return isOne(length); })) {
          value = INT64_MAX;
          for (const Size &polynomial : one.least)
            value = std::min(value, valueOf(termsOf(polynomial), lengths));
        }
      if (value < truth || value > truth + truth / 50 + 512)
        return false;
    }
    return true;
  }

private:
  // From 10752 on: one more than products of all usual sizes of tiles, which is rounded up as far as can be.
  static constexpr int64_t scales[] = {1, 4, 16, 48, 112, 256, 512, 1024, 2048, 10752};
  const Stmt kernel;
  Holders &hasBlocks;
  const std::vector<std::string> symbols, ones; // sorted
  std::vector<Lengths> tried;
  std::map<Lengths, Peak> peaks;

  bool isOne(const Size &length) const { return std::find(ones.begin(), ones.end(), *length.asSymbol()) != ones.end(); }
  static std::vector<Lengths> grid(size_t count, const Lengths &values) {
    std::vector<Lengths> all = {{}};
    for (size_t i = 0; i < count; ++i)
      all = extended(all, values);
    return all;
  }
  const Peak &peakAt(const Lengths &lengths) {
    auto [it, first] = peaks.try_emplace(lengths);
    if (first) {
      Walk walk(hasBlocks, symbols, lengths);
      walk.run(kernel);
      it->second = walk.peak;
    }
    return it->second;
  }
  /// Coefficients, and which lengths they are multiplied with: `Size::evaluate` would look names up again and again.
  using Terms = std::vector<std::pair<int64_t, std::vector<size_t>>>;
  Terms termsOf(const Size &polynomial) const {
    Terms terms;
    for (const auto &[monomial, coefficient] : polynomial.getTerms()) {
      terms.push_back({coefficient, {}});
      for (const std::string &symbol : monomial)
        if (auto it = std::find(symbols.begin(), symbols.end(), symbol); it != symbols.end())
          terms.back().second.push_back(it - symbols.begin());
    }
    return terms;
  }
  static int64_t valueOf(const Terms &terms, const Lengths &lengths) {
    int64_t sum = 0;
    for (const auto &[coefficient, factors] : terms) {
      int64_t product = coefficient;
      for (size_t factor : factors)
        product *= lengths[factor];
      sum += product;
    }
    return sum;
  }

  using Points = std::vector<std::pair<int64_t, int64_t>>;

  /// Through peaks around `scale`, but around 2 for the symbols of `low` (bits); then raised where that lacks anything
  /// around other scales.
  Size through(int64_t scale, size_t low, int64_t Peak::*which) {
    Points points;
    for (size_t i = 0; i < symbols.size(); ++i)
      points.push_back(low >> i & 1 ? std::pair<int64_t, int64_t>(2, 3) : std::pair(scale + 1, 2 * scale + 1));
    Size sum = missing(0, points, which);
    for (int64_t other : scales) {
      Size more = missing(sum, Points(symbols.size(), {other + 1, 2 * other + 1}), which);
      for (const auto &[monomial, coefficient] : more.getTerms()) // one that falls would make it too little elsewhere
        if (coefficient > 0)
          sum = sum + termOf(monomial, coefficient);
    }
    return sum;
  }
  /// What `sum` lacks: a polynomial of degree 1 in each symbol, through its two points.
  Size missing(const Size &sum, const Points &points, int64_t Peak::*which) {
    std::vector<Lengths> corners = {{}};
    for (auto [first, second] : points)
      corners = extended(corners, {first, second});
    Terms terms = termsOf(sum);
    std::vector<Size> values;
    for (const Lengths &corner : corners)
      values.push_back(Size(std::max<int64_t>(0, peakAt(corner).*which - valueOf(terms, corner))));
    if (std::all_of(values.begin(), values.end(), [](const Size &value) { return value == Size(0); }))
      return 0;
    // Newton's divided differences, symbol by symbol; the last one changes from one corner to the next.
    for (size_t i = points.size(); i-- > 0;) {
      auto [first, second] = points[i];
      std::vector<Size> halved;
      for (size_t j = 0; j < values.size(); j += 2)
        halved.push_back(values[j] + dividedUp(values[j + 1] - values[j], second - first) *
                                         (Size::symbol(symbols[i]) - Size(first)));
      values = std::move(halved);
    }
    return values[0];
  }
  static Size dividedUp(const Size &size, int64_t divisor) {
    Size out;
    for (const auto &[monomial, coefficient] : size.getTerms())
      out = out + termOf(monomial, -div_imp(-coefficient, divisor));
    return out;
  }
};

/// For every subset of the symbols, the smallest first.
std::list<Fit> fitsOf(const Stmt &kernel, Holders &hasBlocks, const std::vector<std::string> &symbols) {
  std::vector<size_t> subsets(size_t(1) << symbols.size());
  std::iota(subsets.begin(), subsets.end(), 0);
  std::stable_sort(subsets.begin(), subsets.end(),
                   [](size_t a, size_t b) { return std::popcount(a) < std::popcount(b); });
  std::list<Fit> fits;
  for (size_t subset : subsets) {
    std::vector<std::string> free, ones;
    for (size_t i = 0; i < symbols.size(); ++i)
      (subset >> i & 1 ? ones : free).push_back(symbols[i]);
    fits.emplace_back(kernel, hasBlocks, std::move(free), std::move(ones));
  }
  return fits;
}

std::vector<Scratch::Case> casesOf(std::list<Fit> &fits, int64_t Peak::*which) {
  std::vector<Scratch::Case> cases;
  for (Fit &fit : fits)
    if (!fit.covered(cases, which))
      cases.push_back({fit.lengthsOfOne(), fit.least(which)});
  return cases;
}

} // namespace

Scratch scratchOf(const Stmt &kernel, const std::vector<std::string> &symbols) {
  std::vector<std::string> sorted = symbols;
  std::sort(sorted.begin(), sorted.end());
  Holders hasBlocks;
  std::vector<std::string> relevant = Fit(kernel, hasBlocks, sorted, {}).relevant();
  std::vector<std::string> others;
  std::set_difference(sorted.begin(), sorted.end(), relevant.begin(), relevant.end(), std::back_inserter(others));
  std::list<Fit> fits = fitsOf(withOnes(kernel, others), hasBlocks, relevant); // what does not matter may be 1
  return {casesOf(fits, &Peak::caller), casesOf(fits, &Peak::worker)};
}

} // namespace quern::codegen
