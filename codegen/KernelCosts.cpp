// Takes: a kernel. Gives: its multiply-adds, all its arithmetic and the bytes that it moves, at least.
#include "codegen/KernelCosts.h"

#include "codegen/ReadKernel.h"
#include "codegen/kernel/AttentionGradient.h"
#include "ir/analysis/Gathered.h"
#include "ir/analysis/Least.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Weights.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::codegen;

/// Of a pair that is seen, beside its products: the largest, e^x, the sum and the division, as ir/rules/Cost.cpp counts them and
/// down to an even number, as pairs are counted twice.
static constexpr int64_t softmaxOfTwo = 5;

// ---- pairs that see each other

/// Twice the sum over query 0 .. queries - 1 of how many of `keys` are before query + first: of max(0, query + first), but
/// at most all. Sums from 1 to n are n (n + 1) / 2.
static Size keysBeforeTwice(const Size &first, const Size &queries, const Size &keys) {
  auto upTo = [](const Size &n) {
    Size positive = notNegative(n);
    return positive * positive + positive;
  };
  Size last = first + queries - Size(1), before = first - Size(1);
  return upTo(last) - upTo(before) - upTo(last - keys) + upTo(before - keys);
}

/// Twice the number of pairs of a query and a key that the mask lets see each other. In a ring positions are in another
/// order, but each query sees as many.
static Size seenPairsTwice(const AttentionPattern &attention) {
  Size queries = attention.query.size, keys = attention.key.size, seen = Size(2) * queries * keys;
  auto bound = [](const std::optional<Position> &at) { return at && at->terms.empty(); };
  if (bound(attention.upper))
    seen = keysBeforeTwice(attention.upper->size + Size(1), queries, keys);
  if (bound(attention.lower))
    seen = seen - keysBeforeTwice(attention.lower->size, queries, keys);
  return seen;
}

static Size product(const std::vector<Dim> &dims) {
  Size result(1);
  for (const Dim &dim : dims)
    result = result * dim.size;
  return result;
}

namespace {
/// The costs of one kernel as they add up.
class Counter {
public:
  explicit Counter(KernelOp kernel) : kernel(kernel), graph(readKernel(kernel)) {}
  KernelCosts count();

private:
  void countAttentions();
  void countGradient();
  void countRest();
  void countOperation(Operation &op);
  Size pairsOf(const Size &all) const;
  Size positionsOf(int contraction, const GradientPattern *masked) const;

  KernelOp kernel;
  KernelGraph graph;
  std::vector<AttentionPattern> attentions;
  std::optional<GradientPattern> gradient;
  std::vector<char> counted; // contractions of attention
  Size gradientPairs;        // twice
  KernelCosts costs;
};
} // namespace

/// All positions of a contraction; of a masked one without those of keys and queries.
Size Counter::positionsOf(int contraction, const GradientPattern *masked) const {
  std::vector<Dim> dims;
  for (int operand : graph.nodes[contraction].operands)
    for (const Dim &dim : graph.nodes[operand].dims)
      if (std::none_of(dims.begin(), dims.end(), [&](const Dim &other) { return other.name == dim.name; }))
        dims.push_back(dim);
  if (masked)
    std::erase_if(dims, [&](const Dim &dim) {
      return dim.name == masked->frame.key.name || dim.name == masked->frame.query.name;
    });
  return product(dims);
}

void Counter::countAttentions() {
  for (const AttentionPattern &attention : attentions) {
    Size depth = attention.column.size, rows = product(attention.heads) * product(attention.together);
    for (const AttentionDot &dot : attention.dots) {
      depth = depth + product(dot.depth);
      counted[size_t(dot.node)] = 1;
    }
    Size pairs = seenPairsTwice(attention) * rows;
    costs.products = costs.products + pairs * depth;
    costs.flops = costs.flops + pairs * Size(softmaxOfTwo);
  }
}

void Counter::countGradient() {
  if (!gradient)
    return;
  gradientPairs = seenPairsTwice(gradient->frame);
  auto add = [&](int node) {
    if (graph.nodes[size_t(node)].op == quern::codegen::Op::DistanceSum || counted[size_t(node)])
      return;
    counted[size_t(node)] = 1;
    costs.products = costs.products + gradientPairs * positionsOf(node, &*gradient);
  };
  for (const AttentionDot &dot : gradient->frame.dots)
    add(dot.node);
  for (const GradientSum &sum : gradient->sums)
    add(sum.node);
}

/// Half of each coefficient, rounded down.
static Size half(const Size &size) {
  Size result(0);
  for (const auto &[monomial, coefficient] : size.getTerms()) {
    Size term(coefficient / 2);
    for (const std::string &symbol : monomial)
      term = term * Size::symbol(symbol);
    result = result + term;
  }
  return result;
}

/// Of a count for all pairs of keys and queries of the gradient that for those that its mask allows.
Size Counter::pairsOf(const Size &all) const {
  std::optional<Size> each = all.divided(gradient->frame.key.size * gradient->frame.query.size);
  return each ? half(*each) * gradientPairs : all;
}

void Counter::countOperation(Operation &op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  auto has = [](Type type, StringRef name) { return cast<NamedTensorType>(type).has(name); };
  // Positions and masks are no arithmetic on reals, and a mask that bounds loops is hardly computed.
  bool isReal = llvm::any_of(op.getResultTypes(), [](Type type) { return cast<NamedTensorType>(type).isF32(); });
  if (!cost || !isReal || (isElementwise(&op) && gatheredBy(op.getResult(0)))) // or a few elements of it are computed
    return;
  bool ofPairs = gradient && op.getNumResults() == 1 && has(op.getResult(0).getType(), gradient->frame.key.name) &&
                 has(op.getResult(0).getType(), gradient->frame.query.name);
  costs.flops = costs.flops + (ofPairs ? pairsOf(cost.getFlops()) : cost.getFlops());
}

void Counter::countRest() {
  for (size_t node = 0; node < graph.nodes.size(); ++node)
    if (graph.nodes[node].op == quern::codegen::Op::Contract && !counted[node])
      costs.products = costs.products + Size(2) * positionsOf(int(node), nullptr);
  llvm::SmallPtrSet<Operation *, 2> outer;
  for (auto scatter : kernel.getBlock().getOps<ScatterAddOp>())
    if (MulOp product = summedByRoute(scatter)) { // outer products, summed by expert
      costs.products = costs.products + scatter.getFlops() + product.getFlops();
      outer.insert({scatter, product});
    }
  for (Operation &op : kernel.getBlock())
    if (auto weighted = dyn_cast<AttentionGradientOp>(op)) {
      for (Operation &inner : weighted.getBlock())
        countOperation(inner);
      if (weighted.isAlongDistance())
        costs.flops = costs.flops + pairsOf(typeOf(weighted.getWeights()[0]).elements());
    } else if (!isa<ContractOp, AttentionOp>(op) && !outer.contains(&op)) {
      countOperation(op);
    }
  costs.flops = costs.flops + costs.products;
}

KernelCosts Counter::count() {
  counted.resize(graph.nodes.size());
  attentions = readAttentions(graph);
  gradient = readAttentionGradient(graph);
  countAttentions();
  countGradient();
  countRest();
  for (Value result : kernel.getYield().getValues())
    costs.bytes = costs.bytes + storedBytes(typeOf(result));
  for (BlockArgument argument : kernel.getBlock().getArguments())
    costs.bytes = costs.bytes + bytesRead(kernel, argument.getArgNumber());
  return costs;
}

KernelCosts quern::codegen::costsOf(KernelOp kernel) {
  return Counter(kernel).count();
}

KernelCosts quern::codegen::costsOf(LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  std::map<std::string, Size> lengths = lengthsOf(kernel, launch);
  KernelCosts own = costsOf(kernel);
  return {substituteAll(own.products, lengths), substituteAll(own.flops, lengths), substituteAll(own.bytes, lengths)};
}

std::string quern::codegen::contentOf(KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format_hex_no_prefix(llvm::xxh3_64bits(readKernel(kernel).text), 16);
  return text;
}
